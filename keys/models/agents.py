"""The tables of agents: OAuth clients, the grants that people gave them, and the tokens issued for a grant.

Clients and tokens extend the models of django-oauth-toolkit. A token belongs to one grant and ends with it; only its
SHA-256 is stored.
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

    It is a public client without a secret, so that anybody who knows `client_id` can claim to be it. All that protects
    it is that answers go to its `redirect_uris` only. Since `disabled_at` it is refused everything.
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
        """Whether the client is enabled."""
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
    """A digest that changes with a person's stored password and with the epoch of their sessions."""
    return hashlib.sha256(f"{session_epoch} {password}".encode()).hexdigest()


class AgentGrant(models.Model):
    """What one person allows one agent to do in one directory: the outcome of one consent.

    At each request the agent may do what is in `permissions` (what `scopes` meant when the person consented) and what
    the person still holds. Only administrators change `supervision_level`. `code_digest` is the SHA-256 of the
    authorization code, and `code_used_at` is when it was redeemed. The grant holds while `person_stamp` is the person's
    stamp: like a session, it does not outlive a deactivation or a new password, whoever set it. It expires at
    `expires_at` unless the agent comes back before. `refused_scopes` are those that it asked for in vain, which it does
    not ask for again; null if it cannot ask for any.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="agent_grants")
    client = models.ForeignKey(AgentClient, on_delete=models.CASCADE, related_name="grants")
    connection = models.ForeignKey(
        "directory.DirectoryConnection", on_delete=models.CASCADE, related_name="+", verbose_name="directory"
    )
    scopes = models.JSONField()
    permissions = models.JSONField()
    refused_scopes = models.JSONField(null=True)
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
        """The state of the grant, which also ends when the person's stamp changes."""
        person = self.person
        if self.ended_at is not None or self.person_stamp != stamp_of(person.password, person.session_epoch):
            return "ended"
        return "expired" if self.expires_at <= timezone.now() else "active"


class AgentAccessToken(toolkit.AbstractAccessToken):
    """The token that an agent presents at its endpoint, valid for minutes."""

    grant = models.ForeignKey(AgentGrant, on_delete=models.CASCADE, related_name="+")
    id_token = None

    @property
    def user(self) -> Any:
        """The person that it stands for, as the toolkit calls them."""
        return self.grant.person

    class Meta(toolkit.AbstractAccessToken.Meta):
        default_permissions = ()


class AgentRefreshToken(toolkit.AbstractRefreshToken):
    """Buys the next pair of tokens. Used ones are kept, since presenting one again later ends the grant.

    The next pair is derived from the token's value and `successor_salt`, which is kept for seconds after its use.
    """

    grant = models.ForeignKey(AgentGrant, on_delete=models.CASCADE, related_name="+")
    successor_salt = models.CharField(max_length=64, default="", db_default="", editable=False)

    @property
    def user(self) -> Any:
        """The person that it stands for, as the toolkit calls them."""
        return self.grant.person

    class Meta(toolkit.AbstractRefreshToken.Meta):
        default_permissions = ()
