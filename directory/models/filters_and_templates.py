"""What people save for a directory: filters, and templates of changes for joiners, movers and leavers.

`directory.queries.filters_and_templates` validates their content.
"""

from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models.functions import Lower

from directory.models.connections import Revised


class SavedFilter(Revised):
    """A search that a person saved under a name, for one directory.

    The base is stored by objectGUID, so that no rename breaks or redirects it; `base_dn` is the name last seen. A
    cursor is valid for the revision under which it was issued.
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


class Occasion(models.TextChoices):
    """What a template is for. `JOINER` creates an account, unless it is applied to an existing one."""

    JOINER = "joiner"
    MOVER = "mover"
    LEAVER = "leaver"


class AccountChange(models.TextChoices):
    """Whether a template enables or disables the account."""

    KEEP = "keep"
    ENABLE = "enable"
    DISABLE = "disable"


class ChangeTemplate(Revised):
    """A named list of changes to a person's account, in one directory.

    Parent and groups are stored by objectGUID, so that no rename breaks or redirects them. `joins` and `leaves` are
    lists of `{"id", "distinguishedName"}`, with the name last seen. `attributes` maps attribute names to values, with
    placeholders (`directory.shapes.placeholders`) for what differs each time; an empty list clears the attribute.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    connection = models.ForeignKey(
        "directory.DirectoryConnection", on_delete=models.CASCADE, related_name="+", verbose_name="directory"
    )
    name = models.CharField(max_length=100)
    description = models.CharField(max_length=500, blank=True, default="")
    occasion = models.CharField(max_length=16, choices=Occasion.choices)
    parent_guid = models.UUIDField("place", null=True)
    parent_dn = models.TextField("place's distinguished name", blank=True, default="")
    joins = models.JSONField("groups to join", default=list)
    leaves = models.JSONField("groups to leave", default=list)
    leaves_others = models.BooleanField("leaves all other groups", default=False)
    attributes = models.JSONField(default=dict)
    account = models.CharField(max_length=16, choices=AccountChange.choices, default=AccountChange.KEEP)

    class Meta:
        ordering = ("name",)
        default_permissions = ()
        permissions = (
            ("manage_changetemplate", "Create, change and delete templates for joiners, movers and leavers"),
        )
        constraints = [
            models.UniqueConstraint("connection", Lower("name"), name="change_templates_one_name_per_directory")
        ]

    def __str__(self) -> str:
        return self.name
