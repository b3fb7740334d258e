"""Reading one object as a record: what every single read, and the answer of every write, comes from."""

from collections.abc import Callable, Collection
from time import monotonic, sleep
from typing import TypeVar
from uuid import UUID

from directory import errors
from directory.ldap import DistinguishedName
from directory.lookup.access import Reference, client_of, find_object, parse_reference
from directory.lookup.visibility import may_see_confidential, sight_of
from directory.outcomes.evidence import SECONDS_TO_COME_BACK
from directory.protection.rules import is_protected
from directory.protection.state import SHOWN_AGE
from directory.shapes.kinds import Kind
from directory.shapes.record import DirectoryObject, renderer_for
from gateway.core.call import Call
from gateway.core.errors import FieldError, InvalidRequest

_Answer = TypeVar("_Answer")


def read_record(
    call: Call, reference: Reference, *, kinds: Collection[Kind], attributes: Collection[str] | None = None
) -> DirectoryObject:
    """The record of the object a caller names; raises as `find_object` and `select`.

    Raises DirectoryDenied when the gateway's account may list the object but not read it: nothing could be told of it.
    """
    client = client_of(call)
    renderer = renderer_for(client.schema, attributes, kinds, confidential=may_see_confidential(call))
    entry = find_object(call, reference, kinds=kinds, attributes=renderer.selection.to_read)
    if "objectGUID" not in entry:
        raise errors.DirectoryDenied("The gateway's own account may not read this object.")
    protected = is_protected(client, entry, max_age=SHOWN_AGE)
    return renderer.render_whole(sight_of(call).confined(entry) if call.scopes else entry, protected=protected)


def read_by_name(
    call: Call, dn: str, *, kinds: Collection[Kind], attributes: Collection[str] | None
) -> DirectoryObject:
    """The record of the object with a distinguished name from the query."""
    reference = parse_reference(dn, parameter="dn")
    if isinstance(reference, UUID):
        raise InvalidRequest(
            "dn: must be a distinguished name",
            errors=[FieldError(InvalidRequest.code, "must be a distinguished name", parameter="dn")],
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
                detail = "The change was made, but the directory does not answer any more."
                raise errors.OutcomeUnknown(detail) from away
        sleep(0.2)
