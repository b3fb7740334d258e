"""What groups of permissions have besides Django's own table of them: the parts of directories they confine to, and the
groups of directories whose members are in them (`directory_groups`).
"""

from uuid import uuid4

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models


class GroupScopes(models.Model):
    """What everybody in a group is confined to, in the form of a role's scopes; a group without a row confines nobody.

    It confines all that its members do, not only what the group gives them.
    """

    group = models.OneToOneField(Group, on_delete=models.CASCADE, primary_key=True, related_name="confinement")
    scopes = models.JSONField(default=list)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"What {self.group} is confined to"


class DirectoryGroup(models.Model):
    """A group of a directory whose members are in a group of permissions. The name is the last one known."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="directory_groups")
    connection = models.ForeignKey("directory.DirectoryConnection", on_delete=models.PROTECT, related_name="+")
    object_guid = models.UUIDField("objectGUID")
    distinguished_name = models.TextField()

    class Meta:
        default_permissions = ()
        ordering = ("connection__name", "distinguished_name")
        constraints = [
            models.UniqueConstraint(fields=("group", "connection", "object_guid"), name="keys_directory_group_once")
        ]

    def __str__(self) -> str:
        return f"{self.distinguished_name} in {self.group}"


class DirectoryMembership(models.Model):
    """Somebody is in a group of permissions because of a group of their directory, and for no other reason."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="directory_memberships")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=("person", "group"), name="keys_directory_membership_once")]

    def __str__(self) -> str:
        return f"{self.person} in {self.group}"


def kept_scopes(group: Group) -> list[dict[str, str]]:
    """What a group confines its members to; nothing for most groups."""
    confinement: GroupScopes | None = getattr(group, "confinement", None)
    return [] if confinement is None else confinement.scopes


def keep_scopes(group: Group, scopes: list[dict[str, str]]) -> None:
    """Let a group confine its members to these, or to nothing. Joins the caller's transaction and record."""
    if scopes:
        GroupScopes.objects.update_or_create(group=group, defaults={"scopes": scopes})
    else:
        GroupScopes.objects.filter(group=group).delete()


def confines_members(group: Group) -> bool:
    """Whether people are confined by a group, who would not be without it."""
    return bool(kept_scopes(group)) and group.user_set.exists()
