"""The tables of agents: OAuth clients, what people have let them do, and the tokens that were issued for it.

Client and tokens are the toolkit's own models with what the gateway adds. A token belongs to one grant and ends with
it; of a token only its SHA-256 is stored.
"""

import hashlib
from typing import Any, ClassVar, Literal
from uuid import uuid4

from django.conf import settings
from django.db import models
from django.utils import timezone
from oauth2_provider import models as toolkit

from core.call import SupervisionLevel

NAME_LENGTH = 100


class AgentClient(toolkit.AbstractApplication):
    """A program that people can connect: registered by itself, described by its own document, or made by hand.

    It is public and has no secret: whoever knows `client_id` can say to be it. That the answer goes to one of
    `redirect_uris` is all that tells it from another. `disabled_at` refuses it everything at once.
    """

    objects: ClassVar[models.Manager["AgentClient"]] = models.Manager()

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", editable=False
    )
    created_address = models.CharField(max_length=64, default="", editable=False)
    disabled_at = models.DateTimeField(null=True, editable=False)
    user = None
    client_secret = None
    hash_client_secret = None

    class Meta(toolkit.AbstractApplication.Meta):
        ordering = ("-created", "-id")
        verbose_name = "agent client"

    def is_usable(self, request: object) -> bool:
        """Whether it may ask for anything at all."""
        return self.disabled_at is None


class Ended(models.TextChoices):
    """Why a grant has ended before its time."""

    BY_PERSON = "person", "by the person"
    BY_ADMINISTRATOR = "administrator", "by an administrator"
    BY_AGENT = "agent", "by the agent itself"
    NEVER_TAKEN_UP = "never-taken-up", "the agent never took it up"
    CODE_REUSED = "code-reused", "its authorization code was used twice"
    REFRESH_REUSED = "refresh-reused", "a refresh token was used twice"
    PERSON_CHANGED = "person-changed", "the person was deactivated or has another password"


def stamp_of(password: str, session_epoch: int) -> str:
    """What changes with a person's password (its stored form) and with the epoch of their sessions."""
    return hashlib.sha256(f"{session_epoch} {password}".encode()).hexdigest()


class AgentGrant(models.Model):
    """What one person lets one agent do in one directory: the outcome of one consent.

    The agent may do what is in `permissions` (those that `scopes` meant when the person consented) and the person holds
    too, at each request. `supervision_level` is the agent's, changed by administrators only. `code_digest` is the
    SHA-256 of the authorization code; `code_used_at` when it was first presented. The grant counts while `person_stamp`
    is the person's: like a session, it does not outlive a deactivation or another password, whoever set that. Unless
    the agent comes back before `expires_at`, it is over.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="agent_grants")
    client = models.ForeignKey(AgentClient, on_delete=models.CASCADE, related_name="grants")
    connection = models.ForeignKey(
        "directory.DirectoryConnection", on_delete=models.CASCADE, related_name="+", verbose_name="directory"
    )
    scopes = models.JSONField()
    permissions = models.JSONField()
    supervision_level = models.CharField(
        max_length=32,
        choices=[(level.value, level.value) for level in SupervisionLevel],
        default=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY.value,
    )
    code_digest = models.CharField(max_length=64, unique=True, null=True)
    code_used_at = models.DateTimeField(null=True)
    person_stamp = models.CharField(max_length=64)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(db_index=True)
    last_used_at = models.DateTimeField(null=True)
    last_used_address = models.CharField(max_length=64, default="")
    ended_at = models.DateTimeField(null=True)
    ended_for = models.CharField(max_length=20, choices=Ended.choices, default="", blank=True)
    ended_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ("-created_at", "-id")
        default_permissions = ("view", "change")
        verbose_name = "agent"
        indexes = [models.Index(fields=("person", "-created_at", "-id"), name="keys_agents_of_person")]

    def __str__(self) -> str:
        return f"{self.client} for {self.person}"

    @property
    def state(self) -> Literal["active", "expired", "ended"]:
        """`ended`, `expired` or `active`."""
        person = self.person
        if self.ended_at is not None or self.person_stamp != stamp_of(person.password, person.session_epoch):
            return "ended"
        return "expired" if self.expires_at <= timezone.now() else "active"


class AgentAccessToken(toolkit.AbstractAccessToken):
    """What an agent presents at its endpoint, for some minutes."""

    grant = models.ForeignKey(AgentGrant, on_delete=models.CASCADE, related_name="+")
    id_token = None

    @property
    def user(self) -> Any:
        """The person that it stands for, as the toolkit calls them."""
        return self.grant.person

    class Meta(toolkit.AbstractAccessToken.Meta):
        default_permissions = ()


class AgentRefreshToken(toolkit.AbstractRefreshToken):
    """What an agent gets its next access token with, once. Used ones are kept: presenting one again ends the grant."""

    grant = models.ForeignKey(AgentGrant, on_delete=models.CASCADE, related_name="+")

    @property
    def user(self) -> Any:
        """The person that it stands for, as the toolkit calls them."""
        return self.grant.person

    class Meta(toolkit.AbstractRefreshToken.Meta):
        default_permissions = ()
