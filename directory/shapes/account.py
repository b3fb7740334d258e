"""The parts of a write that stand for several bits and encodings: an account's options, a group's scope and type."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator

from core.shapes import Part, Timestamp
from core.text.messages import message

GroupScope = Literal["global", "domainLocal", "universal"]
GroupCategory = Literal["security", "distribution"]

# The moment that FILETIMEs count from, 0, stands for "never".
_EARLIEST = datetime(1601, 1, 1, tzinfo=UTC)


def _refuse_uncountable(moment: datetime) -> datetime:
    if moment <= _EARLIEST:
        raise ValueError(message("is out of range: it must be after 1601-01-01"))
    return moment


class AccountPart(Part):
    """Options of an account. A member that is left out stays as it is; `expiresAt: null` means never."""

    expires_at: Annotated[Timestamp, AfterValidator(_refuse_uncountable)] | None = None
    password_never_expires: bool = False
    must_change_password: bool = False


class GroupPart(Part):
    """Scope and type of a group. A member that is left out stays as it is."""

    scope: GroupScope = "global"
    type: GroupCategory = "security"
