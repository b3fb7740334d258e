"""What a revert says of itself at the beginning of its reason: the record of the change that it takes back.

Nobody else may say so, or the log would call a change reverted that was not, and no longer offer to revert it.
"""

import re
from typing import Final
from uuid import UUID

BEGINNING: Final = "Reverts "
_REVERTS: Final = re.compile(rf"{BEGINNING}([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})\b")


def reason_of_revert(record_id: UUID, reason: str | None) -> str:
    """The reason of a change that takes a recorded one back, with the caller's own behind it, said once."""
    said = f"{BEGINNING}{record_id}"
    if reason is None or reason.startswith(said):  # the request that was held for it says so already
        return reason or said
    return f"{said}: {reason}"


def reverted_by(reason: str | None) -> UUID | None:
    """The record that a change with this reason took back; None when it is no revert."""
    said = _REVERTS.match(reason or "")
    return UUID(said[1]) if said else None
