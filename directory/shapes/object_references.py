"""How the values of attributes identify other objects. Scopes, filters, visibility and approvals share this table.

Most attributes identify objects by their syntax; the others are listed here. `directory.lookup.visibility` finds the
objects. Numbers and names that only other systems resolve, such as `gidNumber`, `memberUid` or profile paths, do not
count, nor does what an object is itself known by.
"""

import base64
import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

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
    text_to_guid,
    text_to_sid,
)

Identifier = str | Filter
"""An object's distinguished name, or a filter that it alone matches."""


class ReferenceForm(enum.Enum):
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


FORMS_WITH_NAMES: Final = frozenset(
    {ReferenceForm.NAME, ReferenceForm.TAGGED_NAME, ReferenceForm.LINKS, ReferenceForm.OPAQUE}
)
"""Forms that show without a look-up whether the objects are inside the scopes."""
_LISTS_IN_ONE_VALUE: Final = frozenset({ReferenceForm.LINKS, ReferenceForm.DESCRIPTOR, ReferenceForm.COMPUTERS})

_BY_SYNTAX: Final = {
    Syntax.DN: ReferenceForm.NAME,
    Syntax.DN_BINARY: ReferenceForm.TAGGED_NAME,
    Syntax.DN_STRING: ReferenceForm.TAGGED_NAME,
    Syntax.SID: ReferenceForm.SID,
    Syntax.SECURITY_DESCRIPTOR: ReferenceForm.DESCRIPTOR,
}


def _with_form(text: str, form: ReferenceForm) -> dict[str, ReferenceForm]:
    return dict.fromkeys(text.lower().split(), form)


_BY_NAME: Final[Mapping[str, ReferenceForm]] = {
    **_with_form("gPLink", ReferenceForm.LINKS),
    **_with_form("primaryGroupID", ReferenceForm.RELATIVE_ID),
    **_with_form("msDS-SourceObjectDN", ReferenceForm.NAME),
    **_with_form("msDS-AllowedToDelegateTo", ReferenceForm.SERVICE),
    **_with_form("userWorkstations", ReferenceForm.COMPUTERS),
    **_with_form("parentGUID siteGUID msDFSR-ContentSetGuid msDFSR-ReplicationGroupGuid", ReferenceForm.GUID),
    # These have SIDs of other objects inside octets or a text, or reveal when hidden values were set.
    **_with_form(
        """
        tokenGroups tokenGroupsGlobalAndUniversal tokenGroupsNoGCAcceptable msDS-TopQuotaUsage msDS-Cached-Membership
        replPropertyMetaData msDS-ReplAttributeMetaData msDS-ReplValueMetaData msDS-ReplValueMetaDataExt
        msDS-NCReplCursors msDS-NCReplInboundNeighbors msDS-NCReplOutboundNeighbors repsFrom repsTo gPCWQLFilter
        msDS-RegisteredOwner msDS-RegisteredUsers mSMQUserSid mSMQOwnerID nTGroupMembers groupMembershipSAM
        msDS-UserAllowedToAuthenticateTo msDS-UserAllowedToAuthenticateFrom msDS-ServiceAllowedToAuthenticateTo
        msDS-ServiceAllowedToAuthenticateFrom msDS-ComputerAllowedToAuthenticateTo
        msDS-ComputerAllowedToAuthenticateFrom
        """,
        ReferenceForm.OPAQUE,
    ),
}
# An object's own name and SID, the domain of a trust, names in the schema, which everybody may read, and the security
# descriptor, which has operations of its own.
_NO_REFERENCES: Final = frozenset(
    {"distinguishedname", "objectsid", "securityidentifier", "objectcategory", "defaultobjectcategory"}
    | {"ntsecuritydescriptor"}
)
POLICY_LINK = re.compile(r"\[LDAP://(?P<name>[^;\]]+);(?P<options>[^\]]*)\]", re.IGNORECASE)
"""One of the links to group policies in gPLink ([MS-GPOL] 2.2.2)."""
_RELATIVE_ID = re.compile(r"[1-9][0-9]{0,9}")
# <class>/<host>[:<port>][/<service name>] ([MS-KILE] 3.1.5.11)
_SERVICE = re.compile(r"[^/]+/([^/:]+)(?::[^/]*)?(?:/.*)?", re.DOTALL)
_BUILTIN_SID_PREFIX = "S-1-5-32-"
"""The prefix of built-in groups, which every domain has and most descriptors name."""


def reference_forms(schema: Schema) -> Mapping[str, ReferenceForm]:
    """The forms by lower-case attribute name; values of other attributes identify no objects."""
    found: Mapping[str, ReferenceForm] | None = schema.derived.get(reference_forms)
    if found is None:
        by_syntax = {
            name.lower(): _BY_SYNTAX[attribute.syntax]
            for name, attribute in schema.attributes.items()
            if attribute.syntax in _BY_SYNTAX and name.lower() not in _NO_REFERENCES
        }
        found = schema.derived[reference_forms] = {**by_syntax, **_BY_NAME}
    return found


def is_multi_reference(schema: Schema, attribute: str) -> bool:
    """Whether one value of the attribute identifies several objects."""
    return reference_forms(schema).get(attribute.lower()) in _LISTS_IN_ONE_VALUE


def identifiers_in(form: ReferenceForm, text: str, *, domain: Callable[[], str]) -> list[Identifier]:
    """The identifiers of other objects in a decoded value; `domain` gives the domain's SID.

    Raises ValueError for a value that cannot be read.
    """
    if form is ReferenceForm.RELATIVE_ID:
        if not _RELATIVE_ID.fullmatch(text):
            raise ValueError("This is no relative identifier")
        return [_of_sid(f"{domain()}-{text}")]
    return [*_READERS[form](text)]


def links_in(text: str) -> Iterator[tuple[str, str]]:
    """The links to group policies in a value, each with the name of its policy."""
    return ((link[0], link["name"]) for link in POLICY_LINK.finditer(text))


def decoded_forms(attribute: AttributeType, value: str | bytes) -> Iterator[str]:
    """The decoded texts that a value in a caller's filter may mean: the value itself, or its octets decoded."""
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
    if POLICY_LINK.sub("", text).strip():
        raise ValueError("There is more than links in this")
    return [target for _, target in links_in(text)]


def _of_descriptor(text: str) -> list[Identifier]:
    descriptor = parse_descriptor(base64.b64decode(text, validate=True))
    aces = [ace for acl in (descriptor.dacl, descriptor.sacl) if acl is not None for ace in acl.aces]
    if any(ace.sid is None or ace.is_conditional for ace in aces):
        raise ValueError("An entry of this may identify others in a form that is not read")
    sids = {descriptor.owner, descriptor.group, *(ace.sid for ace in aces)}
    return [
        _of_sid(sid) for sid in sids if sid and sid not in WELL_KNOWN_SIDS and not sid.startswith(_BUILTIN_SID_PREFIX)
    ]


def _of_service(text: str) -> list[Identifier]:
    found = _SERVICE.fullmatch(text)
    if found is None:
        raise ValueError("This is no service principal name")
    return [Or(Equals("servicePrincipalName", text), *_of_computer(found[1]))]


def _of_computer(host: str) -> list[Filter]:
    return [Equals("dNSHostName", host), Equals("sAMAccountName", f"{host.partition('.')[0]}$")]


def _refuse(_: str) -> list[Identifier]:
    raise ValueError("This is not read")


_READERS: Final[Mapping[ReferenceForm, Callable[[str], Sequence[Identifier]]]] = {
    ReferenceForm.NAME: lambda text: [text],
    ReferenceForm.TAGGED_NAME: _of_tagged,
    ReferenceForm.LINKS: _of_links,
    ReferenceForm.SID: lambda text: [] if text in WELL_KNOWN_SIDS else [_of_sid(text)],
    ReferenceForm.DESCRIPTOR: _of_descriptor,
    ReferenceForm.GUID: lambda text: [Equals("objectGUID", text_to_guid(text).bytes_le)],
    ReferenceForm.SERVICE: _of_service,
    ReferenceForm.COMPUTERS: lambda text: [Or(*_of_computer(name.strip())) for name in text.split(",") if name.strip()],
    ReferenceForm.OPAQUE: _refuse,
}
