"""Which changes can be reverted, and what of them: one rule for what the log says and for what a revert does.

How a revert is made is `revert`'s. Pure: nothing here looks at a directory.
"""

from collections.abc import Collection
from typing import Final

from audit.models import Reversible
from audit.redact import SECRET, is_credential
from core.operation import find_operation
from directory.shapes.proposal import AttributeChange

_NOT_PUT_BACK: Final = frozenset({"pwdlastset", "lockouttime"})
"""Moments that only the directory sets: others can write 0, or make it the present one, but not what it was."""
_NUL_SIGNS: Final = ("\x00", "\N{SYMBOL FOR NULL}")
"""The log cannot hold the one and shows the other for it."""


def reversible_as(operation: str, changes: Collection[AttributeChange]) -> Reversible:
    """How far a change of this name (`users.update`) can be reverted, by what the log keeps of it."""
    inverse = _inverse_of(operation)
    if inverse is None or not changes:
        return Reversible.NONE
    if inverse == "restore":
        return Reversible.PARTIAL  # never the password, nor what was below
    if inverse != "update":
        return Reversible.FULL
    kept = [can_be_put_back(change) for change in changes]
    if all(kept):
        return Reversible.FULL
    return Reversible.PARTIAL if any(kept) else Reversible.NONE


def _inverse_of(operation: str) -> str | None:
    try:
        return find_operation(operation).inverse
    except KeyError:  # of an earlier version
        return None


def can_be_put_back(change: AttributeChange) -> bool:
    """Whether the log knows what one attribute of an update was before, and somebody may write it."""
    if change.attribute.lower() in _NOT_PUT_BACK or is_credential(change.attribute):
        return False
    if SECRET in (*change.before, *change.after):
        return False
    return not any(sign in value for sign in _NUL_SIGNS for value in change.before)
