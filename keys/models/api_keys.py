"""Roles, API keys with their links to directories, and the platform tokens of people."""

from typing import Any, Final, Literal
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.models import Permission
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from core.call import SupervisionLevel
from core.ip_addresses import normalise_networks
from keys.models.people import require_legible
from keys.permission_catalogue import grantable_condition


class Role(models.Model):
    """A set of permissions, and the parts of directories that it is confined to.

    `scopes` is a list of `{"guid", "distinguishedName", "directoryId"}`. The objectGUID decides; the name is the last
    one known and only for people.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    name = models.CharField(max_length=100, unique=True, validators=[require_legible])
    description = models.TextField(blank=True, default="")
    permissions = models.ManyToManyField(
        Permission,
        blank=True,
        limit_choices_to=grantable_condition,
        related_name="roles",
        help_text="What a key with this role may do, as far as its owner may do it too. Give only what is needed.",
    )
    scopes = models.JSONField(default=list, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Level(models.TextChoices):
    """The supervision levels with their labels."""

    ASK_EVERY_CHANGE = SupervisionLevel.ASK_EVERY_CHANGE.value, _("Ask before every change")
    ASK_DESTRUCTIVE_SECURITY = (
        SupervisionLevel.ASK_DESTRUCTIVE_SECURITY.value,
        _("Ask before destructive and security changes"),
    )
    ACT = SupervisionLevel.ACT.value, _("Act without asking")

    @property
    def meaning(self) -> str:
        """An explanation for people who choose a level."""
        return str(_LEVEL_MEANINGS[self.value])


_LEVEL_MEANINGS = {
    SupervisionLevel.ASK_EVERY_CHANGE.value: _("Every change of the directory waits until a person has approved it."),
    SupervisionLevel.ASK_DESTRUCTIVE_SECURITY.value: _(
        "Deleting, disabling, removing members, and whatever touches security (passwords, enabling, group membership, "
        "protected objects) waits; ordinary changes are made at once. Right for most."
    ),
    SupervisionLevel.ACT.value: _(
        "Nothing waits. For unattended integrations that need it, with a narrow role and allowed addresses."
    ),
}


def require_networks(value: Any) -> None:
    """Raise ValidationError for what is no list of addresses and CIDR blocks."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValidationError("must be a list of addresses")
    try:
        normalise_networks(value)
    except ValueError as error:
        raise ValidationError(str(error)) from None


BUDGETS: Final = tuple(
    f"{risk}_changes_per_{period}" for risk in ("destructive", "security") for period in ("hour", "day")
)
"""The columns of a key's own budgets (`approvals.budgets`)."""


class ApiKey(models.Model):
    """An integration's credential, which acts as its owner within its role.

    After a rotation the previous value stays valid until `previous_valid_until`.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    name = models.CharField(
        max_length=100, validators=[require_legible], help_text="Recorded in the operations log with each change."
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        related_name="api_keys",
        help_text="The person the key acts as. It can never do more than they can, and nothing once they are inactive.",
    )
    role = models.ForeignKey(
        Role, on_delete=models.PROTECT, related_name="api_keys", help_text="Limits what the key may do."
    )
    lookup_id = models.CharField(max_length=12, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    previous_lookup_id = models.CharField(max_length=12, unique=True, null=True, editable=False)
    previous_digest = models.CharField(max_length=64, default="", editable=False)
    previous_valid_until = models.DateTimeField(null=True, editable=False)
    expires_at = models.DateTimeField(
        "expires", null=True, blank=True, help_text="From then on every request is refused. Empty: never."
    )
    allowed_addresses = models.JSONField(
        default=list,
        blank=True,
        validators=[require_networks],
        help_text="Addresses and blocks requests may come from. Empty: from anywhere.",
    )
    supervision_level = models.CharField(
        max_length=32,
        choices=Level.choices,
        default=Level.ASK_DESTRUCTIVE_SECURITY,
        help_text="Which changes wait for a person's approval.",
    )
    passwords_to_requester = models.BooleanField(
        "generated passwords go to the owner",
        default=False,
        db_default=False,
        help_text="A password that is generated when an approved reset is applied is shown once to the owner of the "
        "key instead of the approver.",
    )
    aggregates_reads = models.BooleanField(
        "reads are recorded together",
        default=False,
        db_default=False,
        help_text="Reads of the same object, or searches, that are alike and succeed within a minute are one record, "
        "with their number.",
    )
    destructive_changes_per_hour = models.PositiveIntegerField(
        null=True, blank=True, help_text="Further ones wait for a person. Empty: as configured for all keys."
    )
    destructive_changes_per_day = models.PositiveIntegerField(null=True, blank=True)
    security_changes_per_hour = models.PositiveIntegerField(null=True, blank=True)
    security_changes_per_day = models.PositiveIntegerField(null=True, blank=True)
    created_at = models.DateTimeField("created", default=timezone.now, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", editable=False
    )
    revoked_at = models.DateTimeField("revoked", null=True, editable=False)
    revoked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", editable=False
    )
    last_used_at = models.DateTimeField("last used", null=True, editable=False)
    last_used_address = models.CharField(max_length=64, default="", editable=False)

    class Meta:
        ordering = ("-created_at", "-id")
        verbose_name = "API key"

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> Literal["active", "expired", "revoked"]:
        """The state of the key itself, whatever its owner's."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= timezone.now():
            return "expired"
        return "active"


def valid_keys() -> models.QuerySet[ApiKey]:
    """The keys that are neither revoked nor expired, whatever the state of their owners."""
    is_unexpired = models.Q(expires_at=None) | models.Q(expires_at__gt=timezone.now())
    return ApiKey.objects.filter(is_unexpired, revoked_at=None)


class Link(models.Model):
    """Lets a key manage one directory. The integration sends its Client ID in X-Client-Id."""

    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="links")
    connection = models.ForeignKey(
        "directory.DirectoryConnection", on_delete=models.PROTECT, related_name="links", verbose_name="directory"
    )
    client_id = models.UUIDField("Client ID", default=uuid4, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        default_permissions = ()  # whoever may change a key may change its links
        ordering = ("connection__name",)
        verbose_name = "directory link"
        constraints = [models.UniqueConstraint(fields=("api_key", "connection"), name="keys_link_once")]

    def __str__(self) -> str:
        return f"{self.connection} ({self.client_id})"


class AccessToken(models.Model):
    """A platform token: short-lived, issued to a signed-in person for tools run by hand, and ended with the session.

    `session_key` is the digest under which the session is stored.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    lookup_id = models.CharField(max_length=12, unique=True)
    digest = models.CharField(max_length=64)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="access_tokens")
    session_key = models.CharField(max_length=40)
    connection = models.ForeignKey(
        "directory.DirectoryConnection", on_delete=models.CASCADE, null=True, related_name="+"
    )
    expires_at = models.DateTimeField(db_index=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.person} until {self.expires_at:%Y-%m-%d %H:%M}"
