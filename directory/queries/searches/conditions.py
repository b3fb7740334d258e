"""Conditions that callers write as parameters: `?department=Sales&enabled=true&changedSince=2026-11-01T00:00:00Z`.

A parameter is named as an attribute or as a member of records. Its value is read as values in filters are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from active_directory import (
    KEEPS_PASSWORD,
    And,
    BitAnd,
    BitOr,
    Equals,
    Filter,
    GreaterOrEqual,
    Not,
    Present,
    Schema,
    UserAccountControl,
)
from core.errors import GatewayError, InvalidRequest, UnknownParameter
from core.text.messages import message
from directory import errors
from directory.queries.searches.filters import checked_term
from directory.shapes.kinds import KindDeclaration
from directory.shapes.record import unreadable_reason

_CHANGED_SINCE: Final = "changedSince"
EVERYDAY: Final[Mapping[str, dict[str, Any]]] = {
    _CHANGED_SINCE: {"type": "string", "format": "date-time", "description": "Changed then or later."},
}
"""The conditions that OpenAPI describes of every list."""
_CONTROL = "userAccountControl"
_ATTRIBUTES: Final = {
    "id": "objectGUID",
    "sid": "objectSid",
    "createdAt": "whenCreated",
    "changedAt": "whenChanged",
    "expiresAt": "accountExpires",
    "passwordLastSetAt": "pwdLastSet",
    _CHANGED_SINCE: "whenChanged",
}
"""The attributes that members of records show under another name."""
_FLAGS: Final[Mapping[str, Filter]] = {
    "enabled": Not(BitAnd(_CONTROL, UserAccountControl.ACCOUNTDISABLE)),
    "passwordNeverExpires": BitAnd(_CONTROL, UserAccountControl.DONT_EXPIRE_PASSWD),
    "mustChangePassword": And(Equals("pwdLastSet", 0), Not(BitOr(_CONTROL, KEEPS_PASSWORD))),
}
_MEMBERS: Final = {name.casefold(): name for name in (*_FLAGS, *_ATTRIBUTES)}


def everyday_conditions(declared: KindDeclaration) -> dict[str, dict[str, Any]]:
    """The conditions that OpenAPI describes of a kind's list."""
    flags = {"enabled": {"type": "boolean", "description": "Whether the account is enabled."}}
    columns = {
        name: {"type": "string", "pattern": "^[^*]+$", "description": "The whole value."} for name in declared.columns
    }
    return {**EVERYDAY, **(flags if declared.has_account else {}), **columns}


def read_conditions(
    parameters: Mapping[str, str], schema: Schema, *, known: Iterable[str], confidential: bool
) -> list[Filter]:
    """The conditions that parameters set beside the `known` ones of a list.

    Raises UnknownParameter with the nearest names, or for a name or value what `read_filter` raises, each naming the
    parameter.
    """
    conditions = []
    for written, value in parameters.items():
        # Members in any case, as attributes: AD has one called Enabled, which no account has.
        name = _MEMBERS.get(written.casefold(), written)
        if name in _FLAGS:
            conditions.append(_flag(written, value, _FLAGS[name]))
            continue
        attribute = _ATTRIBUTES.get(name, name)
        if ";" in attribute or schema.attribute(attribute) is None:
            readable = (
                each.name
                for each in schema.attributes.values()
                if unreadable_reason(each.name, each, confidential=confidential) is None
            )
            raise _unknown(written, [*known, *_MEMBERS.values(), *readable])
        if "*" in value:
            detail = message("* stands for itself here: look for parts of values with filter")
            raise errors.FilterValueInvalid.naming(detail, parameter=written, subject=written)
        term = (GreaterOrEqual if name == _CHANGED_SINCE else Equals)(attribute, value)
        try:
            conditions.append(checked_term(term, "", schema, confidential=confidential))
        except GatewayError as refusal:
            refusal.errors = tuple(replace(error, parameter=written) for error in refusal.errors)
            refusal.members.pop("position", None)
            raise
    return conditions


def _flag(name: str, value: str, is_set: Filter) -> Filter:
    if value not in ("true", "false"):
        raise InvalidRequest.naming(message("must be true or false"), parameter=name, subject=name)
    return And(Present(_CONTROL), is_set if value == "true" else Not(is_set))


def _unknown(name: str, known: list[str]) -> UnknownParameter:
    by_spelling = {each.casefold(): each for each in known}
    near = [by_spelling[found] for found in get_close_matches(name.casefold(), by_spelling, cutoff=0.7)]
    detail = message("is not known here")
    if near:
        detail = message("is not known here; similar names are {names}", names=", ".join(near))
    return UnknownParameter.naming(detail, parameter=name, subject=name)
