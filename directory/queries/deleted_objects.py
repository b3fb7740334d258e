"""Deleted objects: how they are found, and what their records show besides. Restoring is in `changes.restoring`.

A deleted object lies in the container of deleted objects under a name made of its own and its objectGUID
([MS-ADTS] 3.1.1.5.5.1); it belongs to where its last known parent is.
"""

from collections.abc import Collection
from uuid import UUID

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
from core.text.messages import message
from directory import errors
from directory.lookup.access import client_of, is_within_any, require_inside_scopes
from directory.lookup.visibility import may_see_confidential, visibility_of
from directory.protection.rules import is_protected
from directory.protection.state import SHOWN_AGE
from directory.queries.original_locations import LAST_KNOWN_PARENT, above_by_reading, former_place
from directory.queries.searches.definitions import Search
from directory.shapes.deleted import DeletedObject, Deletion
from directory.shapes.kinds import Kind
from directory.shapes.record import renderer_for, version_of

# [MS-ADTS] 6.1.1.4: found by this GUID whatever it is called.
_CONTAINER = "<WKGUID=18E2EA80684F11D2B9AA00C04F79F805,{}>"
_MANGLED_VALUE = "\nDEL:"
DELETION_ATTRIBUTES = ("isDeleted", "isRecycled", LAST_KNOWN_PARENT, "msDS-LastKnownRDN", "whenChanged", "objectClass")
"""What a deleted object is read with to tell all about its deletion."""


def deleted_search(call: Call) -> Search:
    """The search for deleted objects of any kind."""
    client = client_of(call)
    schema, recycle_bin = client.schema, is_recycle_bin_enabled(client)
    container = deleted_objects_container(client)
    return Search(
        name="deleted-objects",
        kinds=frozenset(Kind),
        # The container itself carries the mark too.
        condition=And(Equals("isDeleted", "TRUE"), Not(AnyGuid(container.values("objectGUID")))),
        needs=DELETION_ATTRIBUTES,
        extend=lambda entry, _: _deletion(entry, schema, recycle_bin=recycle_bin),
        show_deleted=True,
        base=container.dn,
    )


def deleted_objects_container(client: Client) -> Entry:
    """The container of the domain's deleted objects; DirectoryDenied when the gateway's account may not see it."""
    try:
        return client.read(_CONTAINER.format(client.default_naming_context), ("objectGUID",), deleted=True)
    except NotFound:
        raise errors.DirectoryDenied(message("The gateway's own account may not list the deleted objects.")) from None


def find_deleted(call: Call, id: UUID, attributes: Collection[str] = (), *, identities: bool = False) -> Entry:
    """The deleted object with the attributes asked for and DELETION_ATTRIBUTES, and `identities` as `Client.read` has.

    Raises ObjectNotFound for an object that is not there or is not deleted, Forbidden when its last known parent is, or
    was before it was deleted itself, outside the caller's scopes.
    """
    client = client_of(call)
    wanted = tuple(dict.fromkeys((*attributes, *DELETION_ATTRIBUTES, "objectGUID")))
    entry = client.find(id, wanted, deleted=True, identities=identities)
    if entry is None or not entry.boolean("isDeleted"):
        raise errors.ObjectNotFound
    container = deleted_objects_container(client)
    if entry.guid == container.guid or not is_within_any(entry.dn, (container.dn,)):
        raise errors.ObjectNotFound
    parent = former_parent(client, entry)
    if parent is None:
        if call.scopes:
            raise Forbidden
        return entry
    if not is_within_any(parent, (client.settings.base_dn,)):
        raise errors.ObjectNotFound
    require_inside_scopes(call, parent)
    return entry


def former_parent(client: Client, entry: Entry) -> str | None:
    """Where a deleted object was: the name of its last known parent, or the one that had before it was deleted too."""
    last_parent = entry.text(LAST_KNOWN_PARENT)
    if last_parent is None:
        return None
    return former_place(last_parent, deleted_objects_container(client).dn, above_by_reading(client))


def read_deleted(call: Call, id: UUID, *, attributes: Collection[str] | None) -> DeletedObject:
    """The record of a deleted object; raises as `find_deleted` and `select`."""
    client = client_of(call)
    schema = client.schema
    renderer = renderer_for(schema, attributes, frozenset(Kind), confidential=may_see_confidential(call))
    entry = find_deleted(call, id, renderer.selection.to_read)
    protected = is_protected(client, entry, max_age=SHOWN_AGE)
    seen = visibility_of(call).confined(entry) if call.scopes else entry
    record = renderer.render_whole(seen, protected=protected, version=version_of(entry))
    recycle_bin = is_recycle_bin_enabled(client)
    return {**record, **_deletion(entry, schema, recycle_bin=recycle_bin)}


def _deletion(entry: Entry, schema: Schema, *, recycle_bin: bool) -> Deletion:
    return {
        "deletedAt": deleted_at(entry, schema),
        "lastKnownParent": entry.text(LAST_KNOWN_PARENT),
        "lastKnownName": last_known_name(entry),
        "recyclable": is_recyclable(entry, recycle_bin=recycle_bin),
    }


def deleted_at(entry: Entry, schema: Schema) -> str | None:
    """When the object was deleted, as RFC 3339."""
    values = entry.values("whenChanged")
    return decode(schema.attribute("whenChanged"), values[:1])[0] if values else None


def last_known_name(entry: Entry) -> str:
    """The name before the deletion; msDS-LastKnownRDN is kept by the recycle bin only."""
    known = entry.text("msDS-LastKnownRDN")
    return known if known is not None else DistinguishedName.parse(entry.dn).rdn_value.rpartition(_MANGLED_VALUE)[0]


def last_known_rdn(entry: Entry) -> str:
    """The first component of its name before the deletion, as the directory spelled it where that is known."""
    name = last_known_name(entry)
    spelled = entry.dn.rpartition(MANGLED)[0]
    if DistinguishedName.parse(spelled).rdn_value == name:
        return spelled
    return make_rdn(DistinguishedName.parse(entry.dn).rdn_attribute, name)


def is_recyclable(entry: Entry, *, recycle_bin: bool) -> bool:
    """Whether the object still has what it had: it is in the recycle bin, and its time there is not over."""
    return recycle_bin and not entry.boolean("isRecycled")
