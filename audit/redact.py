"""The last line of defence for secrets: values of credential attributes never enter the log, whoever gives them."""

from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import NotRequired, TypedDict

from active_directory import is_credential as holds_secret
from core.shapes import Id

SECRET = "<secret>"  # noqa: S105 - what is shown instead of one


class ReferenceJson(TypedDict):
    """An object that values name, as it was when the change was held; `name` is as they spell it."""

    name: str
    id: Id
    kind: str | None
    accountName: str | None


class ChangeJson(TypedDict):
    """The values of an attribute before and after; a change that waits keeps with them what they refer to."""

    attribute: str
    before: list[str]
    after: list[str]
    references: NotRequired[list[ReferenceJson]]


class HeldChangeJson(ChangeJson):
    """A change that waits. `kept` is how many values stay unlisted: of members only those that come or go are told."""

    kept: NotRequired[int]


_MEMBERS = frozenset({"password", "newpassword", "currentpassword"})
"""What bodies call a password; the attributes that are secrets the directory's own names tell."""


def is_credential(attribute: str) -> bool:
    """Whether values under this name are secrets; options (`userPassword;x-old`) and case do not matter."""
    return attribute.lower() in _MEMBERS or holds_secret(attribute)


def _storable(value: Any) -> str:
    """PostgreSQL stores no NUL in text or jsonb; a record must not fail on a value the directory does hold."""
    return str(value).replace("\x00", "\N{SYMBOL FOR NULL}")


def redacted(changes: Iterable[Mapping[str, Any]]) -> list[ChangeJson]:
    """The changes as they may be stored: `<secret>` in the place of each credential value."""
    return [
        {
            "attribute": _storable(change["attribute"]),
            "before": _values(change["attribute"], change["before"]),
            "after": _values(change["attribute"], change["after"]),
        }
        for change in changes
    ]


def _values(attribute: str, values: Iterable[Any]) -> list[str]:
    secret = is_credential(attribute)
    return [SECRET if secret else _storable(value) for value in values]
