"""Reading one object as a record: what every single read, and the answer of every write, comes from."""

from collections.abc import Callable, Collection
from time import monotonic, sleep
from typing import TypeVar, cast
from uuid import UUID

from active_directory import DistinguishedName, Entry
from core.call import Call
from core.errors import InvalidRequest
from core.text.messages import message
from directory import errors
from directory.lookup.access import Reference, client_of, find_object, parse_reference
from directory.lookup.visibility import may_see_confidential, may_see_values, visibility_of
from directory.outcomes.evidence import SECONDS_TO_COME_BACK
from directory.policies.known_policies import computed_control, policies_lately_known
from directory.protection.rules import is_protected
from directory.protection.state import SHOWN_AGE
from directory.shapes.kinds import Kind, kind_of
from directory.shapes.proposal import Target
from directory.shapes.record import DirectoryObject, ObjectIdentity, renderer_for, version_of

_Answer = TypeVar("_Answer")


def read_record(
    call: Call, reference: Reference, *, kinds: Collection[Kind], attributes: Collection[str] | None = None
) -> DirectoryObject:
    """The record of the object a caller names; raises as `find_object` and `select`.

    Raises DirectoryDenied when the gateway's account may list the object but not read it: nothing could be told of it.
    Of a version that the caller of a read knows (`Call.knows`) no more than an ObjectIdentity is read: the surface that
    says so in the call answers that nothing changed. To whoever may not read objects no more is told of any version,
    such as of an object that they have changed.
    """
    client = client_of(call)
    if not may_see_values(call):
        return _identity(call, _read_version(call, reference, kinds=kinds))
    renderer = renderer_for(client.schema, attributes, kinds, confidential=may_see_confidential(call))
    if call.if_none_match is not None:
        known = _identity(call, _read_version(call, reference, kinds=kinds))
        if call.knows(known["version"]):
            return known
    policies = policies_lately_known(client) if renderer.to_read_with_policies else None
    # Where none are known the domain controller computes, in the same read, what they would spare it.
    names = renderer.selection.to_read if policies is None else renderer.to_read_with_policies
    names = (*names, *_of_version(call, kinds))
    entry = _require_readable(find_object(call, reference, kinds=kinds, attributes=names))
    control = None
    if policies is not None:
        control = computed_control(client, entry, policies)
    protected = is_protected(client, entry, max_age=SHOWN_AGE)
    if not call.scopes:
        return renderer.render_whole(entry, protected=protected, computed_control=control)
    visibility = visibility_of(call)
    seen = visibility.confined(entry)
    version = visibility.version(seen) or version_of(entry)
    return renderer.render_whole(seen, protected=protected, computed_control=control, version=version)


def version_seen_by(call: Call, target: Target) -> str | None:
    """The version of a change's target as its caller knows it; None for an object still to be made."""
    if not call.scopes or target.kind != Kind.GROUP or target.id is None:
        return target.version
    try:
        return _version(call, _read_version(call, target.id, kinds=frozenset(Kind)))
    except errors.ObjectNotFound:  # a deleted one
        return target.version


def _read_version(call: Call, reference: Reference, *, kinds: Collection[Kind]) -> Entry:
    names = ("uSNChanged", *_of_version(call, kinds))
    return _require_readable(find_object(call, reference, kinds=kinds, attributes=names))


def _of_version(call: Call, kinds: Collection[Kind]) -> tuple[str, ...]:
    """What a version is made of besides the change number (`Visibility.version`)."""
    return ("*",) if call.scopes and Kind.GROUP in kinds else ()


def _version(call: Call, entry: Entry) -> str:
    if not call.scopes:
        return version_of(entry)
    visibility = visibility_of(call)
    return visibility.version(visibility.confined(entry)) or version_of(entry)


def _identity(call: Call, entry: Entry) -> DirectoryObject:
    identity: ObjectIdentity = {
        "id": str(entry.guid),
        "kind": kind_of(entry.object_classes),
        "distinguishedName": entry.dn,
        "version": _version(call, entry),
    }
    return cast(DirectoryObject, identity)


def _require_readable(entry: Entry) -> Entry:
    if "objectGUID" not in entry:
        raise errors.DirectoryDenied(message("The gateway's own account may not read this object."))
    return entry


def read_by_name(
    call: Call, dn: str, *, kinds: Collection[Kind], attributes: Collection[str] | None
) -> DirectoryObject:
    """The record of the object with a distinguished name from the query."""
    reference = parse_reference(dn, parameter="dn")
    if isinstance(reference, UUID):
        raise InvalidRequest.naming(
            message("must be a distinguished name"),
            parameter="dn",
            subject="dn",
        )
    return read_record(call, reference, kinds=kinds, attributes=attributes)


def read_created(call: Call, dn: str) -> DirectoryObject:
    """The record of an object just created."""
    return read_record(call, DistinguishedName.parse(dn), kinds=frozenset(Kind))


def read_changed(call: Call, guid: UUID) -> DirectoryObject:
    """The record of an object just changed."""
    return read_record(call, guid, kinds=frozenset(Kind))


def await_answer(read: Callable[[], _Answer]) -> _Answer:
    """The answer to a change that is made: the domain controller gets a moment to come back for it.

    Raises OutcomeUnknown when it does not: "unavailable" would say that nothing was done.
    """
    deadline = monotonic() + SECONDS_TO_COME_BACK
    while True:
        try:
            with errors.translated():
                return read()
        except errors.Unavailable as away:
            if monotonic() >= deadline:
                detail = message("The change was made, but the directory does not answer any more.")
                raise errors.OutcomeUnknown(detail) from away
        sleep(0.2)
