"""What decides whether a user can sign in: the account, its password, its hours, and what each server says of it."""

from typing import Literal

from typing_extensions import TypedDict

from core.shapes import Id, Moment
from directory.policies.password_policy import PasswordPolicyJson

ObstacleCode = Literal[
    "disabled",
    "expired",
    "lockedOut",
    "lockedOutElsewhere",
    "passwordExpired",
    "mustChangePassword",
    "smartCardRequired",
    "outsideHours",
    "workstations",
]


class Obstacle(TypedDict):
    """Something that keeps a user from signing in: everywhere, or (`everywhere` false) only in some places or ways."""

    code: ObstacleCode
    everywhere: bool


Weekday = Literal["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
WEEKDAYS: tuple[Weekday, ...] = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")


# "from" is a word of Python's.
AllowedHours = TypedDict("AllowedHours", {"day": Weekday, "from": int, "to": int})
"""Hours (UTC) of one day in which a user may sign in: from the beginning of `from` to that of `to`, at most 24."""


class LockOut(TypedDict):
    """`until` is null for a lock-out that lasts until somebody unlocks the account.

    `untilIsKnown` is false where the gateway's account may not read the policy that decides about it.
    """

    since: Moment | None
    until: Moment | None
    untilIsKnown: bool


class PasswordState(TypedDict):
    """`expiresAt` is null for a password that does not expire. `policy` is null where it may not be read."""

    setAt: Moment | None
    expiresAt: Moment | None
    expired: bool
    mustChange: bool
    neverExpires: bool
    policy: PasswordPolicyJson | None


class SeenBy(TypedDict):
    """What one domain controller of the connection knows by itself; `problem` says why nothing was heard from it.

    `badPasswordCount` is as it is kept: the count starts anew when the policy's window is over, or a sign-in succeeds.
    The primary domain controller (`isPrimary`) hears of the wrong passwords of all others ([MS-ADTS] 6.1.5.3).
    """

    url: str
    server: str | None
    isPrimary: bool
    problem: str | None
    badPasswordCount: int | None
    lastBadPasswordAt: Moment | None
    lockedOutSince: Moment | None
    lastSignInAt: Moment | None


class SignInReport(TypedDict):
    """Whether a user can sign in now, and what decides about it.

    `lastSignInAt` is the latest that is known. `lastSignInIsExact` is true where a domain controller of the connection
    saw it itself; else it was told by the others, 9 to 14 days late ([MS-ADA1], attribute lastLogonTimestamp).
    `serversNotAsked` counts the domain controllers of the domain that the connection does not name.
    """

    id: Id
    checkedAt: Moment
    obstacles: list[Obstacle]
    enabled: bool
    expiresAt: Moment | None
    lockOut: LockOut | None
    password: PasswordState
    smartCardRequired: bool
    allowedHours: list[AllowedHours] | None
    workstations: list[str]
    lastSignInAt: Moment | None
    lastSignInIsExact: bool
    servers: list[SeenBy]
    serversNotAsked: int
