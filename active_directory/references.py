"""What the values of an attribute refer to: the distinguished names in them, and the same values with other names.

Names are how a caller, a log and LDAP itself write a reference; which object is meant only its objectGUID tells.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from active_directory.dn import guid_reference
from active_directory.schema import AttributeType, Schema, Syntax
from active_directory.writes.changes import Add, Delete, Modify, Write

_TAGGED: Final = frozenset({Syntax.DN_BINARY, Syntax.DN_STRING})
REFERRING_SYNTAXES: Final = _TAGGED | {Syntax.DN}
"""The syntaxes whose values name objects ([MS-ADTS] 3.1.1.2.2.2)."""
LINKS_IN_TEXT: Final[Mapping[str, re.Pattern[str]]] = {
    "gplink": re.compile(r"(?<=\[LDAP://)[^;\]]+(?=;)", re.IGNORECASE)  # [MS-GPOL] 2.2.2
}
"""By lower-case name the attributes of other syntaxes whose text has names in it, and where they are."""
_OWN_NAME: Final = "distinguishedName"
"""Of the syntax of references, but it names the object itself: a reanimation writes it."""
_EXTENDED: Final = re.compile(r"<GUID=([0-9A-Fa-f-]{36})>;(?:<SID=[^>]*>;)?")


def may_refer(attribute: AttributeType | None) -> bool:
    """Whether values of the attribute name objects."""
    return attribute is not None and (attribute.syntax in REFERRING_SYNTAXES or attribute.name.lower() in LINKS_IN_TEXT)


def names_in(attribute: AttributeType | None, text: str) -> list[str]:
    """The distinguished names in a value, as it spells them; none for an attribute that does not refer to objects."""
    names: list[str] = []

    def collect(name: str) -> str:
        names.append(name)
        return name

    with_names(attribute, text, collect)
    return names


def with_names(attribute: AttributeType | None, text: str, renamed: Callable[[str], str]) -> str:
    """The value with another name in the place of each one in it."""
    if attribute is None:
        return text
    if attribute.name.lower() in LINKS_IN_TEXT:
        return LINKS_IN_TEXT[attribute.name.lower()].sub(lambda found: renamed(found[0]), text)
    if attribute.syntax is Syntax.DN:
        return renamed(text)
    if attribute.syntax in _TAGGED and (at := start_of_tagged(text)):
        return text[:at] + renamed(text[at:])
    return text


def tagged_name(text: str) -> str | None:
    """The distinguished name behind the octets or the text of a value; None when there is none."""
    at = start_of_tagged(text)
    return text[at:] if at else None


def start_of_tagged(text: str) -> int:
    """Where the name begins in ``B:<digits>:<hex>:<dn>`` and ``S:<characters>:<text>:<dn>``; 0 for anything else."""
    _, _, rest = text.partition(":")
    length, separator, data = rest.partition(":")
    if not separator or not length.isdecimal() or data[int(length) : int(length) + 1] != ":":
        return 0
    return len(text) - len(data) + int(length) + 1


def by_identity(write: Write, schema: Schema, identities: Mapping[str, UUID]) -> Write:
    """The same write with the objects named by objectGUID wherever LDAP takes one, so that no rename can divert it.

    ``identities`` are the objects meant, by their names as the write spells them. Names in text (gPLink) stay, and so
    do those of the entry that is added or renamed and of its parent: for them there is no such form (Samba 4.17;
    [MS-ADTS] 3.1.1.3.1.2.4).
    """
    match write:
        case Modify(modifications=steps):
            named = (_values_by_identity(schema.attribute(step.attribute), step.values, identities) for step in steps)
            return replace(
                write,
                modifications=tuple(replace(step, values=values) for step, values in zip(steps, named, strict=True)),
            )
        case Add(attributes=attributes):
            return replace(
                write,
                attributes={
                    name: _values_by_identity(schema.attribute(name), tuple(values), identities)
                    for name, values in attributes.items()
                },
            )
        case Delete(dn=dn) if dn in identities:
            return replace(write, dn=guid_reference(identities[dn]))
    return write


def _values_by_identity(
    attribute: AttributeType | None, values: tuple[bytes, ...], identities: Mapping[str, UUID]
) -> tuple[bytes, ...]:
    if attribute is None or attribute.syntax not in REFERRING_SYNTAXES or attribute.name == _OWN_NAME:
        return values

    def reference(name: str) -> str:
        return guid_reference(identities[name]) if name in identities else name

    return tuple(with_names(attribute, value.decode(), reference).encode() for value in values)


def plain_name(extended: str) -> str:
    """The distinguished name of an entry that was answered with an extended one."""
    found = _EXTENDED.match(extended)
    return extended if found is None else extended[found.end() :]


def take_identities(values: dict[str, list[bytes]], schema: Schema) -> dict[str, UUID]:
    """Make plain names of the extended ones in an entry's values, in place; the objectGUIDs, by name.

    Extended names are what a server answers with under its control for them ([MS-ADTS] 3.1.1.3.4.1.5).
    """
    identities: dict[str, UUID] = {}

    def plain(extended: str) -> str:
        name = plain_name(extended)
        if found := _EXTENDED.match(extended):
            identities[name] = UUID(found[1])
        return name

    for name, found in values.items():
        attribute = schema.attribute(name)
        if attribute is not None and attribute.syntax in REFERRING_SYNTAXES:
            found[:] = [with_names(attribute, value.decode("utf-8", "replace"), plain).encode() for value in found]
    return identities
