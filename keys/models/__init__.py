"""The tables of people and their credentials. `keys.permissions` decides what these may do."""

from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant, AgentRefreshToken, Ended, stamp_of
from keys.models.api_keys import AccessToken, ApiKey, Level, Link, Role, require_networks
from keys.models.people import (
    DirectoryGroup,
    DirectoryMembership,
    FailedSignIn,
    GroupScopes,
    Passkey,
    Person,
    PersonSession,
    RecoveryCode,
    SecondFactor,
    confines_members,
    find_lookalike,
    keep_scopes,
    kept_scopes,
    require_legible,
)

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
    "Passkey",
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
