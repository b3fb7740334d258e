"""People, their sessions, second factors and failed sign-ins, and what groups have besides Django's own table: scopes
that confine their members, and groups of directories.
"""

from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.models import AbstractUser, Group
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from core.secrets.encryption import EncryptedTextField
from core.text.names import label_complaint, name_key, username_complaint


def require_legible(text: str) -> None:
    """Raise ValidationError for a label with invisible characters."""
    if complaint := label_complaint(text):
        raise ValidationError(complaint)


class Person(AbstractUser):
    """Somebody who signs in: a local account, or a person of a connected directory.

    A person of a directory is identified by connection and objectGUID; the user name `CONNECTION\\name` is only for
    display. A local user name cannot have a backslash, so that neither can be taken for the other.

    `scopes` confine the person whichever way they work, in the form of a role's (`Role`); permission groups may
    confine them further (`GroupScopes`). `directory_checked_at` is when their account was last found in the directory,
    `password_set` is its pwdLastSet, and `left_directory_at` is when the gateway deactivated them because they had left
    the directory. Sessions of an earlier `session_epoch` have ended for good.
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
        """Raise ValidationError for a new name that looks like another one, and for scopes of a superuser."""
        super().clean()
        if self.is_superuser and self.scopes:
            raise ValidationError({"is_superuser": "A superuser cannot be restricted to scopes."})
        if not self.username or not self.is_local or not self._is_renamed():
            return
        if complaint := username_complaint(self.username):
            raise ValidationError({"username": complaint})
        if find_lookalike(self) is not None:
            raise ValidationError({"username": "There is a person already whose name looks like this one."})

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the person. Deactivating one ends their sessions; a new name gets its key for look-alikes."""
        named = kwargs.get("update_fields")
        also = set()
        if not self.is_active and (named is None or "is_active" in named):
            self.session_epoch += 1
            also.add("session_epoch")
        # Names from before look-alikes were refused keep their own keys (migration 0005).
        if (named is None or "username" in named) and self._is_renamed():
            self.name_key = name_key(self.username)[:255]
            also.add("name_key")
        if named is not None:
            kwargs["update_fields"] = {*named, *also}
        super().save(*args, **kwargs)

    def _is_renamed(self) -> bool:
        return self.pk is None or not Person.objects.filter(pk=self.pk, username=self.username).exists()

    def _get_session_auth_hash(self, secret: Any = None) -> str:
        """The hash that Django compares each session with; it changes with the password and the epoch."""
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
    """Another person whose name looks like this one's."""
    others = Person.objects.exclude(pk=person.pk)
    return others.filter(name_key=name_key(person.username)[:255]).first()


class PersonSession(models.Model):
    """A session for its person to see and to end, beside Django's session, which decides how long it lives.

    `session_key` is the digest under which Django's session is stored, not what the cookie holds. A session that began
    at a sign-in `provider` has the subject and, if the provider says so, the session there, by which it can end it.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sessions")
    session_key = models.CharField(max_length=40, unique=True)
    started_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)
    address = models.CharField(max_length=64)
    user_agent = models.CharField(max_length=256)
    provider = models.CharField(max_length=32, default="", db_default="")
    provider_subject = models.CharField(max_length=255, default="", db_default="")
    provider_session = models.CharField(max_length=255, default="", db_default="")

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(
                fields=("provider", "provider_subject"), condition=~Q(provider=""), name="keys_session_at_provider"
            )
        ]

    def __str__(self) -> str:
        return f"{self.person} since {self.started_at:%Y-%m-%d %H:%M}"


class CalendarAddress(models.Model):
    """The secret address at which a calendar program reads what is scheduled as its person would see it.

    `digest` is the SHA-256 of the secret. The address holds while `person_stamp` is the person's stamp, as an agent's
    grant does.
    """

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="calendar_address"
    )
    digest = models.CharField(max_length=64, unique=True)
    person_stamp = models.CharField(max_length=64)
    language = models.CharField(max_length=8)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"Calendar of {self.person}"


class SecondFactor(models.Model):
    """A person's second factor, in use once `confirmed_at` is set: an authenticator (RFC 6238), passkeys, or both.

    `secret` is in base32, as authenticators take it; without an authenticator nobody was told it. `last_step` is the
    time step of the last accepted code: codes of that step and earlier ones are refused, so that nobody can replay an
    overheard code (RFC 6238 section 5.2).
    """

    person = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="second_factor")
    secret = EncryptedTextField()
    has_authenticator = models.BooleanField(default=True, db_default=True)
    confirmed_at = models.DateTimeField(null=True)
    last_step = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"Second factor of {self.person}"


class RecoveryCode(models.Model):
    """A code that replaces the authenticator once; using it deletes the row. `digest` is SHA-256."""

    second_factor = models.ForeignKey(SecondFactor, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=("second_factor", "digest"), name="keys_recovery_code_once")]

    def __str__(self) -> str:
        return f"Recovery code of {self.second_factor.person}"


class Passkey(models.Model):
    """A WebAuthn credential. `credential_id` is in base64url, as browsers send it, and `public_key` a COSE key.

    `last_challenge` is when the last challenge was made that it answered, in microseconds: it answers no earlier one.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    second_factor = models.ForeignKey(SecondFactor, on_delete=models.CASCADE, related_name="passkeys")
    credential_id = models.CharField(max_length=1400, unique=True)
    public_key = models.BinaryField()
    sign_count = models.BigIntegerField(default=0)
    last_challenge = models.BigIntegerField(default=0)
    name = models.CharField(max_length=64, validators=[require_legible])
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        ordering = ("created_at",)

    def __str__(self) -> str:
        return f"{self.name} of {self.second_factor.person}"


class FailedSignIn(models.Model):
    """A failed or unfinished sign-in. `subject_digest` is a keyed digest, since people type passwords as names, too."""

    class State(models.TextChoices):
        """The outcome. A right password resets a directory's count of wrong ones (badPwdCount): those become `PAST`."""

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


class GroupScopes(models.Model):
    """The scopes of a permission group, in the form of a role's; a group without a row confines nobody.

    They confine everything that its members do, not only what the group grants.
    """

    group = models.OneToOneField(Group, on_delete=models.CASCADE, primary_key=True, related_name="confinement")
    scopes = models.JSONField(default=list)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"What {self.group} is confined to"


class DirectoryGroup(models.Model):
    """A group of a directory whose members belong to a permission group. The name is the last one known."""

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
    """Marks that a person is in a permission group only because of a group of their directory."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="directory_memberships")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=("person", "group"), name="keys_directory_membership_once")]

    def __str__(self) -> str:
        return f"{self.person} in {self.group}"


def kept_scopes(group: Group) -> list[dict[str, str]]:
    """The scopes that confine a group's members; empty for most groups."""
    confinement: GroupScopes | None = getattr(group, "confinement", None)
    return [] if confinement is None else confinement.scopes


def keep_scopes(group: Group, scopes: list[dict[str, str]]) -> None:
    """Set or remove the scopes of a group. Joins the caller's transaction and record."""
    if scopes:
        GroupScopes.objects.update_or_create(group=group, defaults={"scopes": scopes})
    else:
        GroupScopes.objects.filter(group=group).delete()


def confines_members(group: Group) -> bool:
    """Whether a group has scopes and members, who would be less confined without it."""
    return bool(kept_scopes(group)) and group.user_set.exists()
