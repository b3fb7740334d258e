"""Forms and bodies of operations, converted into each other; choices of permissions; single buttons.

A field has the name of its member. The member's JSON schema says how to read it; the operation validates the value.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase, QueryDict
from django.utils.translation import gettext as _
from pydantic.alias_generators import to_camel

from console.page_context import PageContext, page_at
from core.operation import find_operation
from core.text.vocabulary import declare_texts
from keys.permission_catalogue import GRANTABLE, MEANINGS, find_preset


def split_lines(text: str) -> list[str]:
    """The lines of a text area, stripped, without blank ones."""
    return [line.strip() for line in text.splitlines() if line.strip()]


@cache
def body_members(operation: str) -> Mapping[str, Mapping[str, Any]]:
    """The members of an operation's body by name, each with its JSON schema and `isRequired`."""
    shape = find_operation(operation).body
    assert shape is not None
    schema = shape.model_json_schema()
    return {
        name: {**next(iter(member.get("anyOf", ())), {}), **member, "isRequired": name in schema.get("required", ())}
        for name, member in schema["properties"].items()
    }


def body_from_form(form: QueryDict, operation: str, *names: str) -> dict[str, Any]:
    """The body of an operation from the fields of a form, for the named members or for all."""
    members = body_members(operation)
    return {name: _read_value(form, name, members[name]) for name in names or members}


def _read_value(form: QueryDict, name: str, member: Mapping[str, Any]) -> Any:
    match member:
        case {"type": "boolean"}:  # browsers send no unticked boxes
            return name in form
        case {"type": "array"}:  # a text area with one value a line, or several boxes
            return [line for text in form.getlist(name) for line in split_lines(text)]
        case {"format": "date-time"}:  # a day: midnight UTC (RFC 3339)
            return f"{form[name]}T00:00:00Z" if form.get(name) else None
        case {"type": "integer"}:
            text = _read_text(form, name).strip()
            return int(text) if text.isdecimal() else text or None
        case {"anyOf": _}:  # nullable: an empty field means null
            return _read_text(form, name).strip() or None
    return _read_text(form, name)


def _read_text(form: QueryDict, name: str) -> str:
    """The field's text with LF: browsers send line ends as CRLF (HTML 4.10.21.4)."""
    return form.get(name, "").replace("\r\n", "\n")


def submit(page: PageContext, operation: str, *names: str, **arguments: Any) -> Any:
    """Call an operation with the body that the form holds, and return its answer's; `arguments` as for `perform`."""
    has_body = find_operation(operation).body is not None
    body = body_from_form(page.request.POST, operation, *names) if has_body else None
    return page.perform(operation, body=body, **arguments)


def form_values(record: Mapping[str, Any], operation: str) -> dict[str, Any]:
    """A record as the values of form fields: lists with one value a line, times as their day."""
    members = body_members(operation)
    return {name: _format_value(record[name], members[name]) for name in members if name in record}


def _format_value(value: Any, member: Mapping[str, Any]) -> Any:
    match member:
        case {"type": "array"}:
            return "\n".join(value)
        case {"format": "date-time"}:
            return (value or "")[:10]
    return "" if value is None else value


def encode_form(fields: Mapping[str, Any]) -> QueryDict:
    """What a browser would send for these values; it leaves out unticked boxes."""
    form = QueryDict(mutable=True)
    for name, value in fields.items():
        if value is not False:
            form[name] = str(value)
    return form


def changed_body(form: QueryDict, operation: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an update with only the changed members.

    Both sides pass through the form's fields: otherwise an untouched date field would cut off the time that it hides.
    """
    before = body_from_form(encode_form(form_values(record, operation)), operation)
    return {
        name: value
        for name, value in body_from_form(form, operation).items()
        # A form may lack a field, but no unticked box is sent, so a missing boolean or list is a value.
        if value != before[name] and (name in form or isinstance(value, bool | list))
    }


def keep_known_ids(names: list[str], known: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names, replaced by the ids of objects already referenced: another object may have taken a name since."""
    ids = {item["distinguishedName"]: item["id"] for item in known}
    return [ids.get(name, name) for name in names]


def permission_choices(
    page: PageContext, chosen: Collection[str], *, for_role: bool = False
) -> list[tuple[str, list[dict[str, Any]]]]:
    """Every permission that a person (with `for_role`, a role) can be given, by group, with `chosen` and `held`.

    A permission that the signed-in person does not hold is shown, but cannot be chosen: nobody can give it.
    """
    offered = {
        name: {"chosen": name in chosen, "held": name in page.call.permissions}
        for name in (GRANTABLE if for_role else MEANINGS)
    }
    return permissions_by_group(offered, offered)


def chosen_permissions(page: PageContext, *, for_role: bool = False) -> list[str]:
    """The permissions ticked in the form, or those of the preset whose button was pressed."""
    preset = find_preset(page.form["preset"])
    if preset is None:
        return page.request.POST.getlist("permissions")
    return sorted(preset.for_role if for_role else preset.permissions)


def permissions_by_group(
    names: Collection[str], more: Mapping[str, Mapping[str, Any]] | None = None
) -> list[tuple[str, list[dict[str, Any]]]]:
    """The named permissions by group; `more` adds members to a permission's record."""
    found = [{**item, **(more or {}).get(name, {})} for name, item in permissions_by_name().items() if name in names]
    return [(group, list(items)) for group, items in groupby(found, key=itemgetter("group"))]


def permissions_by_name() -> dict[str, dict[str, Any]]:
    """All permissions in the catalogue's order, in the reader's language."""
    return {
        name: {
            "name": name,
            "group": _(each.group),
            "title": _(each.title),
            "meaning": _(each.text),
            "danger": each.danger and _(each.danger),
        }
        for name, each in MEANINGS.items()
    }


def declare_button(
    route: str,
    name: str,
    operation: str,
    message: str,
    shown_by: Callable[..., HttpResponseBase],
    *,
    to: str = "",
    to_list: str = "",
    sends: str = "",
    body: Mapping[str, Any] | None = None,
) -> None:
    """Declare the page of a button: it calls an operation and redirects to a page that shows the `message`.

    The first argument in the route is the operation's `{id}`. The redirect leads `to` a view with the same argument, or
    `to_list`. The operation's body is the field that the button's form `sends`, or always the same. `shown_by`, the
    page with the button, shows a refusal. The `message` is in English.
    """
    declare_texts([message])

    @page_at(route, name, "POST", post=operation, form=shown_by)
    def press(page: PageContext, /, **named: UUID) -> HttpResponseBase:
        (first, id), *others = named.items()
        arguments: dict[str, Any] = {to_camel(other): value for other, value in others}
        given = body_from_form(page.request.POST, operation, sends) if sends else body
        page.perform(operation, body=given, id=id, **arguments)
        return page.redirect(to_list or to, message=_(message), **({} if to_list else {first: id}))
