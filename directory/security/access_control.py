"""The access control list of an object, with names for all SIDs and GUIDs in it (docs/api.md#access-control).

`delegations` finds the tasks that such entries delegate; its shapes are here.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from active_directory import (
    CONTROL_ACCESS_RIGHT_ATTRIBUTES,
    CONTROL_ACCESS_RIGHT_CLASS,
    EVERYONE_SID,
    FULL_CONTROL,
    WELL_KNOWN_SIDS,
    Ace,
    AceFlags,
    AceType,
    Client,
    Entry,
    Equals,
    MalformedDescriptor,
    NotExpressible,
    ObjectTypes,
    Scope,
    SecurityDescriptor,
    Subject,
    flag_names,
    parse_descriptor,
    render_sddl,
    right_names,
    sid_to_text,
    text_to_sid,
)
from core.call import Call
from core.shapes import Flag, Id, Query
from core.text.messages import message
from directory import errors
from directory.lookup.access import client_of, find_object
from directory.lookup.connection import domain_sid
from directory.lookup.visibility import Visibility

EntryType = Literal["allow", "deny"]

OPEN_ACCESS: Final = Ace(AceType.ACCESS_ALLOWED, AceFlags(0), FULL_CONTROL, EVERYONE_SID)
"""What an object without an access control list gives to everyone ([MS-DTYP] 2.5.3.2), as an entry."""


class Principal(TypedDict):
    """An account or group. `name` is null where the domain does not know it, `id` where the domain has no object."""

    sid: str
    name: str | None
    id: Id | None


class AppliesTo(TypedDict):
    """What the rights are limited to. `name` is null when neither schema nor extended rights know the identifier."""

    kind: Subject
    guid: Id
    name: str | None


class ObjectClassName(TypedDict):
    """A class of the schema; `name` is null when the schema does not know the identifier."""

    guid: Id
    name: str | None


class AccessControlEntry(TypedDict):
    """One entry of the access control list.

    `rights` are the names of the rights in `mask`, with generic ones mapped to specific ones. A conditional entry has
    its `condition` in hexadecimal, as the directory stores it.
    """

    type: EntryType
    principal: Principal
    rights: list[str]
    mask: int
    appliesTo: AppliesTo | None
    inheritedObjectType: ObjectClassName | None
    inherited: bool
    flags: list[str]
    condition: NotRequired[str]


class UnreadEntry(TypedDict):
    """An entry of a type that neither grants nor denies anything: its position in the list, its type and content."""

    position: int
    aceType: int
    flags: list[str]
    content: str


class AccessControl(TypedDict):
    """Who may do what with an object. Auditing is not included, because reading it needs a privilege of its own.

    `sddl` is null when an entry cannot be written in that language. `nullDacl` is present, and true, when the object
    has no list at all, so that everybody may do everything; with an empty list nobody may do anything. `unreadEntries`
    is present when the list has entries of unknown types.
    """

    owner: Principal | None
    group: Principal | None
    inheritanceBlocked: bool
    sddl: str | None
    entries: list[AccessControlEntry]
    nullDacl: NotRequired[bool]
    unreadEntries: NotRequired[list[UnreadEntry]]


class Source(TypedDict):
    """The object that an entry was made on."""

    id: Id
    distinguishedName: str


class DelegatedTask(TypedDict):
    """What the entries let the principal do, or keep it from doing. `source` is null if no object above has such an
    entry, or if that object is outside the caller's scopes."""

    name: str
    type: EntryType
    source: Source | None
    entries: list[AccessControlEntry]


class Delegation(TypedDict):
    principal: Principal
    tasks: list[DelegatedTask]


class Delegations(TypedDict):
    """What was delegated to whom beyond the defaults of the class, without the protection from accidental deletion."""

    items: list[Delegation]


class DelegationsQuery(Query):
    inherited: Annotated[Flag, Field(description="Include what was given above and comes down to the unit.")] = False


def read_access_control(call: Call, id: UUID) -> AccessControl:
    """Owner, group and access control list of an object; raises as `find_object` and `descriptor_of`."""
    client = client_of(call)
    find_object(call, id)
    descriptor = descriptor_of(client.read(id, (), descriptor=True))
    aces = descriptor.dacl.aces if descriptor.dacl is not None else ()
    names = ResolvedNames.of(client, (descriptor.owner, descriptor.group, *(ace.sid for ace in aces)))
    answer: AccessControl = {
        "owner": names.principals[descriptor.owner] if descriptor.owner else None,
        "group": names.principals[descriptor.group] if descriptor.group else None,
        "inheritanceBlocked": descriptor.is_inheritance_blocked,
        "sddl": None,
        "entries": [names.entry(ace) for ace in aces if ace.allows or ace.denies],
    }
    with suppress(NotExpressible):
        answer["sddl"] = render_sddl(descriptor, domain_sid(client))
    if descriptor.dacl is None:
        answer["nullDacl"] = True
    unread: list[UnreadEntry] = [
        {"position": position, "aceType": int(ace.type), "flags": flag_names(ace.flags), "content": ace.body.hex()}
        for position, ace in enumerate(aces)
        if not (ace.allows or ace.denies)
    ]
    if unread:
        answer["unreadEntries"] = unread
    return answer


def descriptor_of(entry: Entry) -> SecurityDescriptor:
    """The security descriptor of an entry that was read with `descriptor=True`.

    Raises DirectoryDenied when the gateway's account may not read it: the directory then leaves it out without an error
    ([MS-ADTS] 3.1.1.4.4). Raises DirectoryFailed when it is malformed.
    """
    values = entry.values("nTSecurityDescriptor")
    if not values:
        raise errors.DirectoryDenied(
            message("The gateway's own account may not read this object's access control list")
        )
    try:
        return parse_descriptor(values[0])
    except MalformedDescriptor as error:
        raise errors.DirectoryFailed(message("The object's access control list is malformed")) from error


@dataclass(frozen=True, slots=True)
class ResolvedNames:
    """The names of the principals, classes, attributes and rights in some access control entries."""

    types: ObjectTypes
    principals: Mapping[str, Principal]

    @classmethod
    def of(cls, client: Client, sids: Iterable[str | None]) -> "ResolvedNames":
        """Look up the principals of these SIDs."""
        return cls(object_types(client), find_principals(client, (sid for sid in sids if sid is not None)))

    def entry(self, ace: Ace) -> AccessControlEntry:
        """The JSON of an entry that grants or denies."""
        assert ace.sid is not None  # every entry that grants or denies has one
        below = ace.inherited_object_type
        entry: AccessControlEntry = {
            "type": "deny" if ace.denies else "allow",
            "principal": self.principals[ace.sid],
            "rights": right_names(ace.mask),
            "mask": int(ace.mask),
            "appliesTo": None,
            "inheritedObjectType": {"guid": str(below), "name": self.types.name_of(Subject.CLASS, below)}
            if below
            else None,
            "inherited": ace.is_inherited,
            "flags": flag_names(ace.flags),
        }
        if ace.object_type:
            meaning = self.types.resolve(ace.object_type, ace.mask)
            entry["appliesTo"] = {"kind": meaning.kind, "guid": str(meaning.guid), "name": meaning.name}
        if ace.is_conditional:
            entry["condition"] = ace.body.hex()
        return entry


def object_types(client: Client) -> ObjectTypes:
    """The meanings of object type GUIDs in this directory, cached with its schema."""
    schema = client.schema
    known: ObjectTypes | None = schema.derived.get(object_types)
    if known is None:
        entries = client.search(
            f"CN=Extended-Rights,{client.configuration_naming_context}",  # [MS-ADTS] 6.1.1.2.7
            Scope.ONE_LEVEL,
            Equals("objectClass", CONTROL_ACCESS_RIGHT_CLASS),
            CONTROL_ACCESS_RIGHT_ATTRIBUTES,
        )
        known = schema.derived[object_types] = ObjectTypes.from_entries(schema, entries)
    return known


def find_principals(
    client: Client, sids: Iterable[str], *, visibility: Visibility | None = None
) -> Mapping[str, Principal]:
    """The names and objectGUIDs of principals, by SID.

    Well-known principals have a name and no object. The name is None for principals that the domain does not know (they
    are of another domain, or were deleted) and, with a caller's `visibility`, for those that the caller may not see.
    Without it all are named: a caller who may read access control learns who has it, wherever they are.
    """
    found: dict[str, Principal] = {sid: {"sid": sid, "name": WELL_KNOWN_SIDS.get(sid), "id": None} for sid in sids}
    # `find_any` searches the whole domain: principals may lie outside the connection's base.
    is_one = (Equals("objectSid", text_to_sid(sid)) for sid in found if sid not in WELL_KNOWN_SIDS)
    for entry in client.find_any(is_one, ("objectSid", "objectGUID", "objectClass", "name")):
        if visibility is None or visibility.can_see(entry.dn):
            sid = sid_to_text(entry.values("objectSid")[0])
            # A foreign security principal's own name is only its SID.
            is_foreign = "foreignSecurityPrincipal" in entry.object_classes
            found[sid] = {"sid": sid, "name": None if is_foreign else entry.text("name"), "id": str(entry.guid)}
    return found
