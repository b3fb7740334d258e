"""The last line of defence for secrets: values of credential attributes never enter the log, whoever passes them."""

from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import NotRequired, TypedDict

from active_directory import is_credential as is_credential_attribute
from core.shapes import Id

SECRET = "<secret>"  # noqa: S105 - the placeholder for one


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
"""Members of bodies that hold passwords; `active_directory` knows the attributes that do."""


def is_credential(attribute: str) -> bool:
    """Whether values of an attribute or member are secrets, regardless of case and options (`userPassword;x-old`)."""
    return attribute.lower() in _MEMBERS or is_credential_attribute(attribute)


def _storable(value: Any) -> str:
    """Replace NUL, which PostgreSQL cannot store in text or jsonb: a value of the directory must not fail a record."""
    return str(value).replace("\x00", "\N{SYMBOL FOR NULL}")


def redacted(changes: Iterable[Mapping[str, Any]]) -> list[ChangeJson]:
    """The changes as they may be stored, with `<secret>` in place of each secret value."""
    return [
        {
            "attribute": _storable(change["attribute"]),
            "before": _values(change["attribute"], change["before"]),
            "after": _values(change["attribute"], change["after"]),
        }
        for change in changes
    ]


def _values(attribute: str, values: Iterable[Any]) -> list[str]:
    is_secret = is_credential(attribute)
    return [SECRET if is_secret else _storable(value) for value in values]
