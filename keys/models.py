"""Tables of the keys app: people with their sessions and second factors, roles, API keys with their links, platform
tokens, failed sign-ins.

What may be done with them is decided in `keys.permissions`; how they come and go in `lifecycle`, `sessions` and
`second_factor`.
"""

from typing import Any, Literal
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.models import AbstractUser, Permission
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from gateway.core.call import SupervisionLevel
from gateway.core.secrets.encryption import EncryptedTextField
from keys.api_keys.addresses import normalise_networks
from keys.people.names import name_key, refuse_label, refuse_username
from keys.permissions.assignable import is_grantable


def require_legible(text: str) -> None:
    """Refuse a name that people read if it has characters that nobody sees. Raises ValidationError."""
    if complaint := refuse_label(text):
        raise ValidationError(complaint)


class Person(AbstractUser):
    """Somebody who signs in: a local account, or a person of a connected directory.

    A person of a directory is a connection and an objectGUID; the user name `CONNECTION\\name` only shows them. A local
    account cannot have a backslash in its name, so neither can ever be taken for the other.

    `scopes` are what the person is confined to whichever way they work, as a role's are (`Role`); groups of permissions
    may confine them besides (`keys.people.groups`). `directory_checked_at` is when their account was last found to be
    there, `password_set` when its password was set as the directory has it (pwdLastSet), `left_directory_at` when the
    gateway deactivated them because they had left it.
    Sessions of an earlier `session_epoch` are over for good.
    """

    first_name = None  # type: ignore[assignment]
    last_name = None  # type: ignore[assignment]

    public_id = models.UUIDField("identifier", default=uuid4, unique=True, editable=False)
    username = models.CharField(
        "user name",
        max_length=255,
        unique=True,
        validators=[UnicodeUsernameValidator()],
        help_text="Letters, digits and @ . + - _ for a local account. People of a directory are CONNECTION\\name.",
        error_messages={"unique": "There is a person of that name already."},
    )
    name_key = models.CharField(max_length=255, default="", db_default="", editable=False)
    display_name = models.CharField(
        max_length=256,
        blank=True,
        validators=[require_legible],
        help_text="The name shown in logs and to approvers.",
    )
    connection = models.ForeignKey(
        "directory.DirectoryConnection",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        editable=False,
        verbose_name="directory",
        help_text="The directory the person signs in with; empty for a local account.",
    )
    object_guid = models.UUIDField("objectGUID", null=True, blank=True, editable=False, db_index=True)
    scopes = models.JSONField(default=list, db_default=models.Value([], models.JSONField()), blank=True, editable=False)
    directory_checked_at = models.DateTimeField(default=timezone.now, db_default=Now(), editable=False)
    password_set = models.BigIntegerField(null=True, editable=False)
    session_epoch = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    left_directory_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ("username",)
        verbose_name = "person"
        verbose_name_plural = "people"
        constraints = [
            models.UniqueConstraint(fields=("connection", "object_guid"), name="keys_person_of_directory"),
            models.UniqueConstraint(fields=("name_key",), condition=~Q(name_key=""), name="keys_person_told_apart"),
            models.CheckConstraint(
                condition=Q(connection__isnull=True, object_guid__isnull=True)
                | Q(connection__isnull=False, object_guid__isnull=False),
                name="keys_person_local_or_of_directory",
            ),
        ]

    def clean(self) -> None:
        """Refuse a new name that cannot be told from another one. Raises ValidationError for `username`."""
        super().clean()
        if not self.username or not self.is_local or not self._is_renamed():
            return
        if complaint := refuse_username(self.username):
            raise ValidationError({"username": complaint})
        if find_lookalike(self) is not None:
            raise ValidationError({"username": "There is a person already whose name looks like this one."})

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Whoever is saved as inactive has no session to come back to; whoever gets a name, the key of that name."""
        named = kwargs.get("update_fields")
        also = set()
        if not self.is_active and (named is None or "is_active" in named):
            self.session_epoch += 1
            also.add("session_epoch")
        # A name that was there before such names were refused keeps its own key.
        if (named is None or "username" in named) and self._is_renamed():
            self.name_key = name_key(self.username)[:255]
            also.add("name_key")
        if named is not None:
            kwargs["update_fields"] = {*named, *also}
        super().save(*args, **kwargs)

    def _is_renamed(self) -> bool:
        return self.pk is None or not Person.objects.filter(pk=self.pk, username=self.username).exists()

    def _get_session_auth_hash(self, secret: Any = None) -> str:
        """What Django compares each session with: it changes with the password, and with the epoch."""
        of_password = super()._get_session_auth_hash(secret=secret)  # type: ignore[misc] # Django's stubs leave it out
        return f"{of_password}{self.session_epoch or ''}"

    def get_full_name(self) -> str:
        return self.display_name or self.username

    def get_short_name(self) -> str:
        return self.get_full_name()

    @property
    def is_local(self) -> bool:
        return self.connection_id is None


def find_lookalike(person: Person) -> Person | None:
    """Another person whose name cannot be told from this one's."""
    others = Person.objects.exclude(pk=person.pk)
    return others.filter(name_key=name_key(person.username)[:255]).first()


class Role(models.Model):
    """A set of permissions, and the parts of directories they are confined to.

    `scopes` is a list of `{"guid", "distinguishedName", "directoryId"}`; the name is the last one known, for people.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    name = models.CharField(max_length=100, unique=True, validators=[require_legible])
    description = models.TextField(blank=True, default="")
    permissions = models.ManyToManyField(
        Permission,
        blank=True,
        limit_choices_to=is_grantable,
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
    """The supervision levels with the names people know them by."""

    ASK_EVERY_CHANGE = SupervisionLevel.ASK_EVERY_CHANGE.value, _("Ask before every change")
    ASK_DESTRUCTIVE_SECURITY = (
        SupervisionLevel.ASK_DESTRUCTIVE_SECURITY.value,
        _("Ask before destructive and security changes"),
    )
    ACT = SupervisionLevel.ACT.value, _("Act without asking")

    @property
    def meaning(self) -> str:
        """What it means, for whoever is to choose."""
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
    """Refuse a list of allowed addresses that is not in normal form. Raises ValidationError."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValidationError("must be a list of addresses")
    try:
        normalise_networks(value)
    except ValueError as error:
        raise ValidationError(str(error)) from None


class ApiKey(models.Model):
    """An integration's credential. It acts as its owner, within its role.

    After a rotation the value before stays valid until `previous_valid_until`.
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
        """`revoked`, `expired` or `active`."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= timezone.now():
            return "expired"
        return "active"


class Link(models.Model):
    """Lets a key manage one directory. Its Client ID is what the integration sends in X-Client-Id."""

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
    """A platform token: short-lived, issued to a signed-in person for tools run by hand. It ends with its session.

    `session_key` is the digest under which that is stored.
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


class PersonSession(models.Model):
    """Where a person is signed in, for them to look through and to end. It lives as long as Django's session does.

    `session_key` is the digest under which Django's session is stored (`session_store`), not what the cookie holds.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sessions")
    session_key = models.CharField(max_length=40, unique=True)
    started_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)
    address = models.CharField(max_length=64)
    user_agent = models.CharField(max_length=256)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.person} since {self.started_at:%Y-%m-%d %H:%M}"


class SecondFactor(models.Model):
    """The authenticator of a person: one-time passwords by RFC 6238, asked for once `confirmed_at` is set.

    `secret` is in base32, as authenticators take it. `last_step` is the time step of the last code that was accepted:
    neither it nor one before is accepted again.
    """

    person = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="second_factor")
    secret = EncryptedTextField()
    confirmed_at = models.DateTimeField(null=True)
    last_step = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"Second factor of {self.person}"


class RecoveryCode(models.Model):
    """A code that stands in once for the authenticator; its row is gone once it was used. `digest` is SHA-256."""

    second_factor = models.ForeignKey(SecondFactor, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=("second_factor", "digest"), name="keys_recovery_code_once")]

    def __str__(self) -> str:
        return f"Recovery code of {self.second_factor.person}"


class FailedSignIn(models.Model):
    """A sign-in that failed or is still being tried. `subject_digest` is keyed: people type passwords as names, too."""

    class State(models.TextChoices):
        """What became of it. A directory counts wrong passwords anew from each right one on: those are `PAST`."""

        OPEN = "open"
        WRONG = "wrong"
        PAST = "past"

    at = models.DateTimeField(default=timezone.now, db_index=True)
    subject_digest = models.CharField(max_length=64)
    address = models.CharField(max_length=64)
    state = models.CharField(max_length=5, choices=State.choices, default=State.OPEN)

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(fields=("subject_digest", "-at"), name="keys_failed_by_subject"),
            models.Index(fields=("address", "-at"), name="keys_failed_by_address"),
        ]

    def __str__(self) -> str:
        return f"{self.address} at {self.at:%Y-%m-%d %H:%M:%S}"


# Tables with modules of their own, for Django to find.
from keys.agents.models import (  # noqa: E402
    AgentAccessToken,  # noqa: F401
    AgentClient,  # noqa: F401
    AgentGrant,  # noqa: F401
    AgentRefreshToken,  # noqa: F401
)
from keys.people.groups import DirectoryGroup, DirectoryMembership, GroupScopes  # noqa: E402, F401
