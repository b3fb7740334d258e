"""From the fields of a form to the body of an operation, and from a record to the fields that show it.

A field has the name of its member, and the shape of the body says how it is read; whether the values make sense is for
the operation to say.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from django.http import QueryDict

from console.shared.fields import lines_of, midnight_of
from core.operation import find_operation


@cache
def members_of(operation: str) -> Mapping[str, Mapping[str, Any]]:
    """The members of an operation's body by their names, each as its JSON schema describes it."""
    shape = find_operation(operation).body
    assert shape is not None
    members = shape.model_json_schema()["properties"]
    return {name: {**next(iter(member.get("anyOf", ())), {}), **member} for name, member in members.items()}


def body_of(form: QueryDict, operation: str, *names: str) -> dict[str, Any]:
    """The body of an operation, as a form that has fields for these members, or for all of them, says it."""
    members = members_of(operation)
    return {name: _value(form, name, members[name]) for name in names or members}


def _value(form: QueryDict, name: str, member: Mapping[str, Any]) -> Any:
    match member:
        case {"type": "boolean"}:  # a box that is not ticked is not sent
            return name in form
        case {"type": "array"}:  # a text area with a value a line, or boxes
            return [line for text in form.getlist(name) for line in lines_of(text)]
        case {"format": "date-time"}:
            return midnight_of(form.get(name, ""))
        case {"anyOf": _}:  # it may be null
            return _text(form, name).strip() or None
    return _text(form, name)


def _text(form: QueryDict, name: str) -> str:
    """Without the line ends that browsers send (HTML 4.10.21.4)."""
    return form.get(name, "").replace("\r\n", "\n")


def fields_of(record: Mapping[str, Any], operation: str) -> dict[str, Any]:
    """What the fields for an operation's body show of a record: lists one value a line, moments as their day."""
    members = members_of(operation)
    return {name: _shown(record[name], members[name]) for name in members if name in record}


def _shown(value: Any, member: Mapping[str, Any]) -> Any:
    match member:
        case {"type": "array"}:
            return "\n".join(value)
        case {"format": "date-time"}:
            return (value or "")[:10]
    return "" if value is None else value


def form_of(fields: Mapping[str, Any]) -> QueryDict:
    """What a form sends whose fields have these values: nothing for a box that is not ticked."""
    form = QueryDict(mutable=True)
    for name, value in fields.items():
        if value is not False:
            form[name] = str(value)
    return form


def changed_body(form: QueryDict, operation: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """The body that changes only what was typed differently than the fields show it: a day is less than a moment."""
    before = body_of(form_of(fields_of(record, operation)), operation)
    return {
        name: value
        for name, value in body_of(form, operation).items()
        if value != before[name] and (name in form or isinstance(value, bool | list))
    }


def known_objects(names: list[str], known: Iterable[Mapping[str, Any]]) -> list[str]:
    """The same objects with the `id` of those that were there before, whatever is called so now."""
    ids = {item["distinguishedName"]: item["id"] for item in known}
    return [ids.get(name, name) for name in names]
