"""The table of templates for who joins, moves or leaves. What one may hold is in `queries.change_templates`."""

from uuid import uuid4

from django.db import models
from django.db.models.functions import Lower

from directory.models.revisions import Revised


class Occasion(models.TextChoices):
    """What a template is for: the first makes a new account, unless it is applied to one that is there."""

    JOINER = "joiner"
    MOVER = "mover"
    LEAVER = "leaver"


class AccountChange(models.TextChoices):
    """What becomes of the account itself."""

    KEEP = "keep"
    ENABLE = "enable"
    DISABLE = "disable"


class ChangeTemplate(Revised):
    """A named list of changes of a person, in one directory.

    Place and groups are kept by objectGUID, so that a rename neither breaks nor captures them. `joins` and `leaves` are
    lists of `{"id", "distinguishedName"}`, with the name last seen. `attributes` are values by attribute name, with
    placeholders (`directory.shapes.placeholders`) for what differs each time; without values an attribute is cleared.
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
