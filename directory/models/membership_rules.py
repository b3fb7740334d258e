"""Which groups are given for a while only."""

from uuid import uuid4

from django.db import models

from directory.models.connections import Revised


class MembershipRule(Revised):
    """How long members of a group stay (`gateway.pipeline.membership_rules`).

    The group is stored by objectGUID, so that no rename breaks or redirects the rule; `group_dn` is the name last seen.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    connection = models.ForeignKey(
        "directory.DirectoryConnection", on_delete=models.CASCADE, related_name="+", verbose_name="directory"
    )
    group_guid = models.UUIDField("group")
    group_dn = models.TextField("group's distinguished name")
    max_duration = models.DurationField("longest", null=True)
    default_duration = models.DurationField("without an end", null=True)
    reason_required = models.BooleanField(default=False)

    class Meta:
        ordering = ("group_dn",)
        default_permissions = ()
        permissions = (("manage_membershiprule", "Create, change and delete rules for memberships"),)
        constraints = [
            models.UniqueConstraint(fields=["connection", "group_guid"], name="membership_rules_one_for_a_group"),
        ]

    def __str__(self) -> str:
        return self.group_dn
