"""The table of saved filters. What one may hold and how it is run is `saved_filters`' matter."""

from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models.functions import Lower

from directory.models.revisions import Revised


class SavedFilter(Revised):
    """A search that a person keeps under a name, for one directory.

    The base is kept by objectGUID, so that a rename neither breaks nor captures it; `base_dn` is its name as last seen.
    A cursor belongs to the revision it was made under. A person's filters end with
    the person, a directory's with its connection.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    connection = models.ForeignKey(
        "directory.DirectoryConnection", on_delete=models.CASCADE, related_name="+", verbose_name="directory"
    )
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=32)
    filter = models.TextField()
    base_guid = models.UUIDField("base", null=True)
    base_dn = models.TextField("base's distinguished name", blank=True, default="")
    scope = models.CharField(max_length=16)
    attributes = models.JSONField(default=list)
    shared = models.BooleanField(default=False)

    class Meta:
        ordering = ("name",)
        default_permissions = ()  # run_savedfilter and manage_savedfilter are among the directory's own
        constraints = [
            models.UniqueConstraint("owner", "connection", Lower("name"), name="saved_filters_one_name_per_owner")
        ]

    def __str__(self) -> str:
        return self.name
