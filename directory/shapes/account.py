"""The parts of a write that stand for several bits and encodings: an account's options, a group's scope and type."""

from typing import Literal

from gateway.core.shapes import Body, Timestamp

GroupScope = Literal["global", "domainLocal", "universal"]
GroupCategory = Literal["security", "distribution"]


class AccountPart(Body):
    """Options of an account. A member that is left out stays as it is; `expiresAt: null` means never."""

    expires_at: Timestamp | None = None
    password_never_expires: bool = False
    must_change_password: bool = False


class GroupPart(Body):
    """Scope and type of a group. A member that is left out stays as it is."""

    scope: GroupScope = "global"
    type: GroupCategory = "security"
