"""People, where they are signed in, their second factors, and sign-ins that failed."""

from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from core.secrets.encryption import EncryptedTextField
from core.text.names import name_key, refuse_username
from keys.models.legible import require_legible


class Person(AbstractUser):
    """Somebody who signs in: a local account, or a person of a connected directory.

    A person of a directory is a connection and an objectGUID; the user name `CONNECTION\\name` only shows them. A local
    account cannot have a backslash in its name, so neither can ever be taken for the other.

    `scopes` are what the person is confined to whichever way they work, as a role's are (`Role`); groups of permissions
    may confine them besides (`keys.models.groups`). `directory_checked_at` is when their account was last found to be
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
        """Refuse a new name that cannot be told from another one, and scopes of a superuser. Raises ValidationError."""
        super().clean()
        if self.is_superuser and self.scopes:
            raise ValidationError({"is_superuser": "A superuser cannot be restricted to scopes."})
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
