"""Names that people type where a form asks for objects of the directory: resolved, or refused with whom they may mean.

The form sends a field `named` for each such field (`directory/_object_field.html`): the kind of objects that it asks
for, its name, the JSON pointer or parameter by which refusals name it, and `ids` if it wants objectGUIDs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from django.http import QueryDict
from django.utils.translation import gettext as _

from active_directory import And, Anr, Equals, Filter, Or, Present
from core.errors import FieldError, GatewayError, InvalidRequest
from core.shapes import parse_guid
from directory.errors import AttributeNotReadable
from directory.shapes.wording.value_words import container_path

NAMED = "named"
KINDS: Mapping[str, Filter] = {
    "any": Present("objectClass"),
    "users": And(Equals("objectCategory", "person"), Equals("objectClass", "user")),
    "groups": Equals("objectClass", "group"),
    "units": Equals("objectClass", "organizationalUnit"),
    "": Or(
        *(
            Equals("objectClass", name)
            for name in ("organizationalUnit", "container", "builtinDomain", "lostAndFound", "domainDNS")
        )
    ),
}
_NAMES = ("sAMAccountName", "userPrincipalName", "mail", "displayName", "name")
_SHOWN = 5
_MAX_NAMES = 100
"""Names beyond these stay as they were typed: each is a search."""

Search = Callable[[Filter], Sequence[Mapping[str, Any]]]


def resolve_names(fields: QueryDict, search: Search) -> tuple[QueryDict, InvalidRequest | None]:
    """The fields with distinguished names in place of unique names and ids, and the refusal of other names.

    A name that cannot be looked for stays as it is: the operation refuses it.
    """
    resolved, refused, left = fields.copy(), list[FieldError](), _MAX_NAMES
    for asked in resolved.pop(NAMED, []):
        kind, name, place, wants_ids = (*map(unquote, str(asked).split(" ")), "", "", "")[:4]
        if kind not in KINDS or name not in fields:
            continue
        values = list[str]()
        for value in fields.getlist(name):
            lines = [line.strip() for line in value.splitlines() if line.strip()]
            for index, line in enumerate(lines):
                if ("=" in line and not wants_ids) or left == 0:
                    continue
                left -= 1
                try:
                    lines[index] = _resolve(line, KINDS[kind], search, "id" if wants_ids else "distinguishedName")
                except InvalidRequest as refusal:
                    at = {"pointer": place} if place.startswith("#") else {"parameter": place}
                    refused.append(FieldError(refusal.code, refusal.detail, **at))
                except GatewayError:
                    continue
            values += lines if wants_ids else ["\n".join(lines)]
        resolved.setlist(name, values)
    return resolved, InvalidRequest(errors=refused) if refused else None


def _resolve(text: str, of_kind: Filter, search: Search, wanted: str) -> str:
    """The `wanted` name of the only object with this name or id; an unknown id stays. Raises InvalidRequest."""
    guid = parse_guid(text)
    if guid or "=" in text:
        found = search(Equals("objectGUID", guid.bytes_le) if guid else Equals("distinguishedName", text))
        return str(found[0][wanted]) if found else text
    exact = [Equals(name, text) for name in _NAMES]
    try:
        found = search(And(of_kind, Or(*exact)))
    except AttributeNotReadable:  # the account name alone: who may see an object may see it
        found = search(And(of_kind, exact[0]))
    if len(found) == 1:
        return str(found[0][wanted])
    if found:
        question = _("“{text}” can mean several: {names}. Choose one.")
    else:
        found = search(And(of_kind, Anr(text)))
        question = _("Nothing here is called “{text}”. Did you mean {names}?")
    if not found:
        raise InvalidRequest(_("Nothing here is called “{text}”.").format(text=text))
    names = [f"{each['name']} ({container_path(each['distinguishedName'])})" for each in found[:_SHOWN]]
    raise InvalidRequest(question.format(text=text, names=", ".join(names)))
