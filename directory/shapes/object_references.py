"""How the values of every attribute identify other objects: the one table of it.

The schema's syntax tells it of most attributes, what no syntax tells is listed here. Which object an identifier means,
`directory.lookup.referenced_objects` finds out. Not counted are numbers and names that other systems than Active
Directory resolve, such as `gidNumber`, `memberUid` or the paths of a profile, and what an object is itself known by.
"""

import base64
import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from active_directory import (
    WELL_KNOWN_SIDS,
    AttributeType,
    Equals,
    Filter,
    Or,
    Schema,
    Syntax,
    decoder,
    parse_descriptor,
    tagged_name,
    text_to_sid,
)

Identifier = str | Filter
"""What identifies an object: its distinguished name, or the condition that it alone fulfils."""


class Form(enum.Enum):
    """How a value identifies other objects."""

    NAME = "a distinguished name"
    TAGGED_NAME = "a distinguished name behind octets or a text"
    LINKS = "links to group policies, in one text"
    SID = "a security identifier"
    RELATIVE_ID = "the last number of a security identifier of the domain"
    DESCRIPTOR = "the security identifiers in a security descriptor"
    GUID = "an objectGUID"
    SERVICE = "a service principal name"
    COMPUTERS = "computer names with commas between them"
    OPAQUE = "in a form that is not read here, so that no value may be seen"


FORMS_WITH_NAMES: Final = frozenset({Form.NAME, Form.TAGGED_NAME, Form.LINKS, Form.OPAQUE})
"""Forms of which nothing needs to be looked up to tell where the objects are."""
_LISTS_IN_ONE_VALUE: Final = frozenset({Form.LINKS, Form.DESCRIPTOR, Form.COMPUTERS})

_BY_SYNTAX: Final = {
    Syntax.DN: Form.NAME,
    Syntax.DN_BINARY: Form.TAGGED_NAME,
    Syntax.DN_STRING: Form.TAGGED_NAME,
    Syntax.SID: Form.SID,
    Syntax.SECURITY_DESCRIPTOR: Form.DESCRIPTOR,
}


def _named(text: str, form: Form) -> dict[str, Form]:
    return dict.fromkeys(text.lower().split(), form)


_LISTED: Final[Mapping[str, Form]] = {
    **_named("gPLink", Form.LINKS),
    **_named("primaryGroupID", Form.RELATIVE_ID),
    **_named("msDS-SourceObjectDN", Form.NAME),
    **_named("msDS-AllowedToDelegateTo", Form.SERVICE),
    **_named("userWorkstations", Form.COMPUTERS),
    **_named("parentGUID siteGUID msDFSR-ContentSetGuid msDFSR-ReplicationGroupGuid", Form.GUID),
    # Telling of other objects by SID, in octets or inside a text; and when values were set that may not be seen.
    **_named(
        """
        tokenGroups tokenGroupsGlobalAndUniversal tokenGroupsNoGCAcceptable msDS-TopQuotaUsage msDS-Cached-Membership
        replPropertyMetaData msDS-ReplAttributeMetaData msDS-ReplValueMetaData msDS-ReplValueMetaDataExt
        msDS-NCReplCursors msDS-NCReplInboundNeighbors msDS-NCReplOutboundNeighbors repsFrom repsTo gPCWQLFilter
        msDS-RegisteredOwner msDS-RegisteredUsers mSMQUserSid mSMQOwnerID nTGroupMembers groupMembershipSAM
        msDS-UserAllowedToAuthenticateTo msDS-UserAllowedToAuthenticateFrom msDS-ServiceAllowedToAuthenticateTo
        msDS-ServiceAllowedToAuthenticateFrom msDS-ComputerAllowedToAuthenticateTo
        msDS-ComputerAllowedToAuthenticateFrom
        """,
        Form.OPAQUE,
    ),
}
# An object's own name and SID, the domain that a trust is about, a name in the schema, which is open to everybody, and
# what is read by operations of its own alone.
_OF_ITSELF: Final = frozenset(
    {"distinguishedname", "objectsid", "securityidentifier", "objectcategory", "defaultobjectcategory"}
    | {"ntsecuritydescriptor"}
)
# [MS-GPOL] 2.2.2: [LDAP://<name>;<options>], one after another.
_LINK = re.compile(r"\[LDAP://([^;\]]*);[^\]]*\]", re.IGNORECASE)
_RELATIVE_ID = re.compile(r"[1-9][0-9]{0,9}")
_GUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
# <class>/<host>[:<port>][/<service name>] ([MS-KILE] 3.1.5.11)
_SERVICE = re.compile(r"[^/]+/([^/:]+)(?::[^/]*)?(?:/.*)?", re.DOTALL)
_OF_EVERY_SYSTEM = "S-1-5-32-"
"""What SIDs of the groups that every domain has begin with: most descriptors name some of them."""


def forms_of(schema: Schema) -> Mapping[str, Form]:
    """How values identify other objects, by attribute in lower case; others identify none."""
    found: Mapping[str, Form] | None = schema.derived.get(forms_of)
    if found is None:
        by_syntax = {
            name.lower(): _BY_SYNTAX[attribute.syntax]
            for name, attribute in schema.attributes.items()
            if attribute.syntax in _BY_SYNTAX and name.lower() not in _OF_ITSELF
        }
        found = schema.derived[forms_of] = {**by_syntax, **_LISTED}
    return found


def is_list_in_one_value(schema: Schema, attribute: str) -> bool:
    """Whether one value of the attribute identifies several objects."""
    return forms_of(schema).get(attribute.lower()) in _LISTS_IN_ONE_VALUE


def identifiers_in(form: Form, text: str, *, domain: Callable[[], str]) -> list[Identifier]:
    """What identifies other objects in a value, as it is decoded. `domain` tells the SID of the domain.

    Raises ValueError for a value that cannot be read.
    """
    if form is Form.RELATIVE_ID:
        if not _RELATIVE_ID.fullmatch(text):
            raise ValueError("This is no relative identifier")
        return [_of_sid(f"{domain()}-{text}")]
    return [*_READERS[form](text)]


def links_in(text: str) -> Iterator[tuple[str, str]]:
    """The links to group policies in a value, each with the name in it."""
    return ((link[0], link[1]) for link in _LINK.finditer(text))


def decoded_forms(attribute: AttributeType, value: str | bytes) -> Iterator[str]:
    """What a value in a caller's filter may stand for as text: itself, or octets."""
    if isinstance(value, str):
        yield value
    yield decoder(attribute)(value.encode() if isinstance(value, str) else value)


def _of_sid(sid: str) -> Filter:
    return Equals("objectSid", text_to_sid(sid))


def _of_tagged(text: str) -> list[Identifier]:
    name = tagged_name(text)
    if name is None:
        raise ValueError("There is no name in this")
    return [name]


def _of_links(text: str) -> list[Identifier]:
    if _LINK.sub("", text).strip():
        raise ValueError("There is more than links in this")
    return [target for _, target in links_in(text)]


def _of_descriptor(text: str) -> list[Identifier]:
    descriptor = parse_descriptor(base64.b64decode(text, validate=True))
    aces = [ace for acl in (descriptor.dacl, descriptor.sacl) if acl is not None for ace in acl.aces]
    if any(ace.sid is None or ace.conditional for ace in aces):
        raise ValueError("An entry of this may identify others in a form that is not read")
    sids = {descriptor.owner, descriptor.group, *(ace.sid for ace in aces)}
    return [_of_sid(sid) for sid in sids if sid and sid not in WELL_KNOWN_SIDS and not sid.startswith(_OF_EVERY_SYSTEM)]


def _of_guid(text: str) -> list[Identifier]:
    if not _GUID.fullmatch(text):
        raise ValueError("This is no objectGUID")
    return [Equals("objectGUID", UUID(text).bytes_le)]


def _of_service(text: str) -> list[Identifier]:
    found = _SERVICE.fullmatch(text)
    if found is None:
        raise ValueError("This is no service principal name")
    return [Or(Equals("servicePrincipalName", text), *_of_computer(found[1]))]


def _of_computer(host: str) -> list[Filter]:
    return [Equals("dNSHostName", host), Equals("sAMAccountName", f"{host.partition('.')[0]}$")]


def _refused(_: str) -> list[Identifier]:
    raise ValueError("This is not read")


_READERS: Final[Mapping[Form, Callable[[str], Sequence[Identifier]]]] = {
    Form.NAME: lambda text: [text],
    Form.TAGGED_NAME: _of_tagged,
    Form.LINKS: _of_links,
    Form.SID: lambda text: [] if text in WELL_KNOWN_SIDS else [_of_sid(text)],
    Form.DESCRIPTOR: _of_descriptor,
    Form.GUID: _of_guid,
    Form.SERVICE: _of_service,
    Form.COMPUTERS: lambda text: [Or(*_of_computer(name.strip())) for name in text.split(",") if name.strip()],
    Form.OPAQUE: _refused,
}
