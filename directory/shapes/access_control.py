"""The shapes of access control and delegations (docs/api.md#access-control)."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from active_directory import Subject
from core.shapes import Flag, Id, Query

EntryType = Literal["allow", "deny"]


class Principal(TypedDict):
    """An account or group. `name` is null where the domain knows none, `id` where it is no object of the domain."""

    sid: str
    name: str | None
    id: Id | None


class AppliesTo(TypedDict):
    """What the rights are confined to. `name` is null when neither schema nor extended rights know the identifier."""

    kind: Subject
    guid: Id
    name: str | None


class ObjectClassName(TypedDict):
    """A class of the schema; `name` is null when it has none of that identifier."""

    guid: Id
    name: str | None


class AccessControlEntry(TypedDict):
    """One entry of the access control list.

    `rights` are those of `mask`, generic ones as what they stand for. An entry that holds under a condition only has
    `condition`: the condition in hexadecimal, as the directory keeps it.
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
    """An entry of a type that neither grants nor denies anything here: its place in the list, its type and content."""

    position: int
    aceType: int
    flags: list[str]
    content: str


class AccessControl(TypedDict):
    """Who may do what with an object. Auditing is not included: reading it needs a privilege of its own.

    `sddl` is null when an entry has no form in that language. `nullDacl` is there, and true, when the object has no
    list at all, so that everybody may do everything; with an empty list nobody may do anything. `unreadEntries` is
    there when the list has entries of types that are not understood.
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
    """What the entries let the principal do, or keep it from. `source` is null if nothing above has such an entry,
    or what has it lies outside the caller's scopes."""

    name: str
    type: EntryType
    source: Source | None
    entries: list[AccessControlEntry]


class Delegation(TypedDict):
    principal: Principal
    tasks: list[DelegatedTask]


class Delegations(TypedDict):
    """What was given to whom beyond the defaults of the class, without the protection from accidental deletion."""

    items: list[Delegation]


class DelegationsQuery(Query):
    inherited: Annotated[Flag, Field(description="Include what was given above and comes down to the unit.")] = False
