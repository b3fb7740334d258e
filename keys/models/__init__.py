"""The tables of people and their credentials. What may be done with them is decided in `keys.permissions`."""

from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant, AgentRefreshToken, Ended, stamp_of
from keys.models.api_keys import AccessToken, ApiKey, Level, Link, Role, require_networks
from keys.models.groups import (
    DirectoryGroup,
    DirectoryMembership,
    GroupScopes,
    confines_members,
    keep_scopes,
    kept_scopes,
)
from keys.models.legible import require_legible
from keys.models.people import FailedSignIn, Person, PersonSession, RecoveryCode, SecondFactor, find_lookalike

__all__ = [
    "AccessToken",
    "AgentAccessToken",
    "AgentClient",
    "AgentGrant",
    "AgentRefreshToken",
    "ApiKey",
    "DirectoryGroup",
    "DirectoryMembership",
    "Ended",
    "FailedSignIn",
    "GroupScopes",
    "Level",
    "Link",
    "Person",
    "PersonSession",
    "RecoveryCode",
    "Role",
    "SecondFactor",
    "confines_members",
    "find_lookalike",
    "keep_scopes",
    "kept_scopes",
    "require_legible",
    "require_networks",
    "stamp_of",
]
