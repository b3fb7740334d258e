"""Finding and reading deleted objects. Restoring them is in `changes.restore`.

A deleted object lies in the Deleted Objects container under a name made of its own name and its objectGUID ([MS-ADTS]
3.1.1.5.5.1). For scopes and for a search's base it counts as lying below its last known parent.
"""

from collections.abc import Collection
from uuid import UUID

from typing_extensions import TypedDict

from active_directory import (
    MANGLED,
    And,
    AnyGuid,
    Client,
    DistinguishedName,
    Entry,
    Equals,
    Not,
    NotFound,
    Schema,
    decode,
    is_recycle_bin_enabled,
    make_rdn,
)
from core.call import Call
from core.errors import Forbidden
from core.shapes import Moment
from core.text.messages import message
from directory import errors
from directory.lookup.access import client_of, is_within_any, require_inside_scopes
from directory.lookup.visibility import may_see_confidential, visibility_of
from directory.protection.rules import is_protected
from directory.protection.state import MAX_SHOWN_AGE
from directory.queries.searches.area import LAST_KNOWN_PARENT, original_location, parent_reader
from directory.queries.searches.definitions import Search
from directory.shapes.kinds import Kind
from directory.shapes.record import DirectoryObject, renderer_for, version_of

# The container has a well-known GUID, whatever it is called ([MS-ADTS] 6.1.1.4).
_DELETED_OBJECTS_CONTAINER = "<WKGUID=18E2EA80684F11D2B9AA00C04F79F805,{}>"
_DELETED_NAME_SUFFIX = "\nDEL:"
DELETION_ATTRIBUTES = ("isDeleted", "isRecycled", LAST_KNOWN_PARENT, "msDS-LastKnownRDN", "whenChanged", "objectClass")
"""The attributes that a `Deletion` is made from."""


class Deletion(TypedDict):
    """What is known of an object's deletion.

    `deletedAt` is when the object last changed, as a deleted object does not change any more. `lastKnownParent` is a
    distinguished name, which lies in the container of deleted objects if the parent was deleted itself. `recyclable`
    is false for a tombstone, which has lost most attributes, its memberships and its password.
    """

    deletedAt: Moment | None
    lastKnownParent: str | None
    lastKnownName: str
    recyclable: bool


class DeletedObject(DirectoryObject, Deletion):
    """A deleted object. The directory gave it its distinguished name at the deletion; `name` is what it was before."""


class _NamedDeletion(Deletion):
    name: str


def deleted_search(call: Call) -> Search:
    """The search for deleted objects of any kind."""
    client = client_of(call)
    schema, recycle_bin = client.schema, is_recycle_bin_enabled(client)
    container = deleted_objects_container(client)
    return Search(
        name="deleted-objects",
        kinds=frozenset(Kind),
        # The container itself has isDeleted too.
        condition=And(Equals("isDeleted", "TRUE"), Not(AnyGuid(container.values("objectGUID")))),
        needs=DELETION_ATTRIBUTES,
        extend=lambda entry, _: _deletion(entry, schema, recycle_bin=recycle_bin),
        show_deleted=True,
        base=container.dn,
    )


def deleted_objects_container(client: Client) -> Entry:
    """The domain's Deleted Objects container; raises DirectoryDenied when the gateway's account may not see it."""
    try:
        return client.read(
            _DELETED_OBJECTS_CONTAINER.format(client.default_naming_context), ("objectGUID",), deleted=True
        )
    except NotFound:
        raise errors.DirectoryDenied(message("The gateway's own account may not list the deleted objects.")) from None


def find_deleted(call: Call, id: UUID, attributes: Collection[str] = (), *, identities: bool = False) -> Entry:
    """The deleted object, with these attributes and DELETION_ATTRIBUTES; `identities` is passed to `Client.find`.

    Raises ObjectNotFound for an object that does not exist or is not deleted, and Forbidden for one whose original
    parent lies outside the caller's scopes.
    """
    client = client_of(call)
    wanted = tuple(dict.fromkeys((*attributes, *DELETION_ATTRIBUTES, "objectGUID")))
    entry = client.find(id, wanted, deleted=True, identities=identities)
    if entry is None or not entry.boolean("isDeleted"):
        raise errors.ObjectNotFound
    container = deleted_objects_container(client)
    # A GUID also finds objects that were deleted from other naming contexts, which have containers of their own.
    if entry.guid == container.guid or not is_within_any(entry.dn, (container.dn,)):
        raise errors.ObjectNotFound
    parent = original_parent(client, entry)
    if parent is None:
        # Nobody can tell whether it was inside the caller's scopes.
        if call.scopes:
            raise Forbidden
        return entry
    if not is_within_any(parent, (client.settings.base_dn,)):
        raise errors.ObjectNotFound
    require_inside_scopes(call, parent)
    return entry


def original_parent(client: Client, entry: Entry) -> str | None:
    """The distinguished name of a deleted object's last known parent; of a deleted parent, the name it used to have."""
    last_parent = entry.text(LAST_KNOWN_PARENT)
    if last_parent is None:
        return None
    return original_location(last_parent, deleted_objects_container(client).dn, parent_reader(client))


def read_deleted(call: Call, id: UUID, *, attributes: Collection[str] | None) -> DeletedObject:
    """The record of a deleted object; raises as `find_deleted` and `select`."""
    client = client_of(call)
    schema = client.schema
    renderer = renderer_for(schema, attributes, frozenset(Kind), confidential=may_see_confidential(call))
    entry = find_deleted(call, id, renderer.selection.to_read)
    protected = is_protected(client, entry, max_age=MAX_SHOWN_AGE)
    seen = visibility_of(call).confined(entry) if call.scopes else entry
    record = renderer.render_whole(seen, protected=protected, version=version_of(entry))
    recycle_bin = is_recycle_bin_enabled(client)
    return {**record, **_deletion(entry, schema, recycle_bin=recycle_bin)}


def _deletion(entry: Entry, schema: Schema, *, recycle_bin: bool) -> _NamedDeletion:
    name = last_known_name(entry)
    return {
        "name": name,
        "deletedAt": deleted_at(entry, schema),
        "lastKnownParent": entry.text(LAST_KNOWN_PARENT),
        "lastKnownName": name,
        "recyclable": is_recyclable(entry, recycle_bin=recycle_bin),
    }


def deleted_at(entry: Entry, schema: Schema) -> str | None:
    """When the object was deleted, as RFC 3339."""
    values = entry.values("whenChanged")
    return decode(schema.attribute("whenChanged"), values[:1])[0] if values else None


def last_known_name(entry: Entry) -> str:
    """The name before the deletion. Only with the recycle bin does the directory keep msDS-LastKnownRDN."""
    known = entry.text("msDS-LastKnownRDN")
    return (
        known if known is not None else DistinguishedName.parse(entry.dn).rdn_value.rpartition(_DELETED_NAME_SUFFIX)[0]
    )


def last_known_rdn(entry: Entry) -> str:
    """The RDN before the deletion, in the directory's own spelling where that is known."""
    name = last_known_name(entry)
    spelled = entry.dn.rpartition(MANGLED)[0]
    if DistinguishedName.parse(spelled).rdn_value == name:
        return spelled
    return make_rdn(DistinguishedName.parse(entry.dn).rdn_attribute, name)


def is_recyclable(entry: Entry, *, recycle_bin: bool) -> bool:
    """Whether the object is in the recycle bin with all its attributes: a recycled one has lost most of them."""
    return recycle_bin and not entry.boolean("isRecycled")
