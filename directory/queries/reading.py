"""Reading one object as a record, for single reads and for the answers of writes."""

from collections.abc import Callable, Collection
from time import monotonic, sleep
from typing import Final, TypeVar, cast
from uuid import UUID

from active_directory import Entry, Equals, Filter, Or, guid_to_text, require_thread
from core.call import Call
from core.errors import InvalidRequest
from core.shapes import EncodedWhole, load_query
from core.text.messages import message
from directory import errors
from directory.lookup.access import Reference, client_of, find_object, parse_reference
from directory.lookup.visibility import Visibility, may_see_confidential, may_see_values, visibility_of
from directory.outcomes.evidence import RECOVERY_SECONDS
from directory.policies.known_policies import cached_policies, computed_control
from directory.protection.rules import is_protected
from directory.protection.state import MAX_SHOWN_AGE
from directory.queries.member_counts import member_counts
from directory.queries.searches.definitions import SEARCHES, SearchQuery
from directory.queries.searches.search import run_search
from directory.shapes.encoded import encoder_of
from directory.shapes.kinds import Kind, kind_of_entry
from directory.shapes.proposal import Target
from directory.shapes.record import (
    COMPUTED_CONTROL,
    PARENT_ID,
    DirectoryObject,
    ObjectIdentity,
    Renderer,
    readable_name,
    renderer_for,
    version_of,
)

_Answer = TypeVar("_Answer")

IDENTIFIERS: Final = {
    "samAccountName": "sAMAccountName",
    "userPrincipalName": "userPrincipalName",
    "sid": "objectSid",
    "employeeID": "employeeID",
}
"""The attributes by which other systems know an object, by the names that callers use."""


def read_record(
    call: Call,
    reference: Reference,
    *,
    kinds: Collection[Kind] = frozenset(Kind),
    attributes: Collection[str] | None = None,
    also: tuple[str, ...] = (),
    extend: Callable[[DirectoryObject, Entry], None] | None = None,
    encode: bool = False,
) -> DirectoryObject:
    """The record of the object a caller names; raises as `find_object` and `select`.

    `extend` adds to it from the entry, as the caller may see it, which is read with `also`, too. `encode` allows an
    EncodedWhole, with the members of ObjectIdentity.

    The answer is only an ObjectIdentity where the caller already has this version (`Call.knows`; the surface then
    answers 304), and where the caller may not read objects, such as after a change of one. Raises DirectoryDenied when
    the gateway's account may list the object but not read it.
    """
    client = client_of(call)
    if not may_see_values(call):
        return _read_identity(call, reference, kinds)
    renderer = renderer_for(client.schema, attributes, kinds, confidential=may_see_confidential(call))
    if call.if_none_match is not None:
        # A read of the version alone costs a fraction of a whole record.
        known = _read_identity(call, reference, kinds)
        if call.has_version(known["version"]):
            return known
    policies = cached_policies(client) if renderer.to_read_with_policies else None
    # Known policies tell whether an account is locked out. Otherwise the same read asks the domain controller for it.
    names = renderer.selection.to_read if policies is None else renderer.to_read_with_policies
    names = (*names, *also, *_version_attributes(call, kinds))
    coalesce = renderer.may_coalesce and not (Kind.GROUP in kinds or also)
    entry, visibility = _find(call, reference, kinds, names, coalesce=coalesce)
    control = None if policies is None else computed_control(client, entry, policies)
    protected = is_protected(client, entry, max_age=MAX_SHOWN_AGE)
    seen, version = entry, None
    if visibility is not None:
        seen = visibility.confined_to_shown(entry, {*renderer.shown_of(entry), *also, PARENT_ID})
        version = visibility.version(seen) or version_of(entry)
    if encode and not (extend or Kind.GROUP in kinds):
        return _encoded(renderer, seen, protected=protected, computed_control=control)
    record = renderer.render_whole(seen, protected=protected, computed_control=control, version=version)
    if record["group"] is not None:
        (record["group"]["memberCount"],) = member_counts(client, visibility or visibility_of(call), [entry])
    if extend is not None:
        extend(record, seen)
    return record


def _encoded(renderer: Renderer, entry: Entry, *, protected: bool, computed_control: int | None) -> DirectoryObject:
    parents = entry.values(PARENT_ID)
    whole = EncodedWhole(
        id=guid_to_text(entry.values("objectGUID")[0]),
        kind=kind_of_entry(entry),
        distinguishedName=entry.dn,
        version=version_of(entry),
    )
    whole.json = encoder_of(renderer).encode(
        entry,
        protected=protected,
        parent_id=guid_to_text(parents[0]) if parents else None,
        computed_control=(entry.integer(COMPUTED_CONTROL) or 0) if computed_control is None else computed_control,
    )
    return cast(DirectoryObject, whole)


def visible_version(call: Call, target: Target) -> str | None:
    """The version of a change's target as the caller sees it; None for an object that does not exist yet."""
    if not call.scopes or target.kind != Kind.GROUP or target.id is None:
        return target.version
    try:
        return _read_identity(call, target.id, frozenset(Kind))["version"]
    except errors.ObjectNotFound:  # it is deleted
        return target.version


def _version_attributes(call: Call, kinds: Collection[Kind]) -> tuple[str, ...]:
    """The attributes that a version depends on besides uSNChanged (`Visibility.version`)."""
    return ("*",) if call.scopes and Kind.GROUP in kinds else ()


def _read_identity(call: Call, reference: Reference, kinds: Collection[Kind]) -> DirectoryObject:
    names = ("uSNChanged", *_version_attributes(call, kinds))
    coalesce = "*" not in names
    entry, visibility = _find(call, reference, kinds, names, coalesce=coalesce)
    version = visibility.version(visibility.confined_to_shown(entry, ())) if visibility else None
    identity: ObjectIdentity = {
        "id": str(entry.guid),
        "kind": kind_of_entry(entry),
        "distinguishedName": entry.dn,
        "version": version or version_of(entry),
    }
    return cast(DirectoryObject, identity)


def _find(
    call: Call, reference: Reference, kinds: Collection[Kind], names: tuple[str, ...], *, coalesce: bool
) -> tuple[Entry, Visibility | None]:
    """The entry, and what a confined caller may see of it; None for others. The scopes are looked up once for both."""
    visibility = visibility_of(call) if call.scopes else None
    bases = None if visibility is None else visibility.bases
    entry = find_object(call, reference, kinds=kinds, attributes=names, coalesce=coalesce, bases=bases)
    if "objectGUID" not in entry:
        raise errors.DirectoryDenied(message("The gateway's own account may not read this object."))
    return entry, visibility


def reference_of_name(dn: str) -> Reference:
    """The reference to the object whose distinguished name the query has."""
    reference = parse_reference(dn, parameter="dn")
    if isinstance(reference, UUID):
        raise InvalidRequest.naming(message("must be a distinguished name"), parameter="dn", subject="dn")
    return reference


def find_by_identifier(call: Call, resource: str, identifier: str, value: str) -> UUID:
    """The one object of a resource that has this value of one of IDENTIFIERS.

    A computer is found with or without the `$` of its sAMAccountName. Raises ObjectNotFound, also for what is outside
    the caller's scopes, and ObjectAmbiguous if several objects have the value.
    """
    if identifier not in IDENTIFIERS:
        detail = message("must be one of {names}", names=", ".join(IDENTIFIERS))
        raise InvalidRequest.naming(detail, parameter="identifier", subject="identifier")
    schema, confidential = client_of(call).schema, may_see_confidential(call)
    name = readable_name(schema, IDENTIFIERS[identifier], parameter="identifier", confidential=confidential)
    condition: Filter = Equals(name, value)
    if resource == "computers" and identifier == "samAccountName" and not value.endswith("$"):
        condition = Or(condition, Equals(name, f"{value}$"))
    query = load_query(SearchQuery, {"filter": str(condition), "attributes": (), "pageSize": 2})
    try:
        found = run_search(call, SEARCHES[resource], query)["items"]
    except errors.FilterValueInvalid:
        detail = message("is no value of {name}", name=name)
        raise InvalidRequest.naming(detail, parameter="value", subject="value") from None
    if not found:
        raise errors.ObjectNotFound
    if len(found) > 1:
        raise errors.ObjectAmbiguous
    return UUID(found[0]["id"])


def read_after_change(read: Callable[[], _Answer]) -> _Answer:
    """Read the answer of a change that was made, and retry while the domain controller is away for a moment.

    Raises OutcomeUnknown when it does not come back: Unavailable would mean that nothing was changed.
    """
    require_thread()
    deadline = monotonic() + RECOVERY_SECONDS
    while True:
        try:
            with errors.translate_ldap_errors():
                return read()
        except errors.Unavailable as away:
            if monotonic() >= deadline:
                detail = message("The change was made, but the directory does not answer any more.")
                raise errors.OutcomeUnknown(detail) from away
        sleep(0.2)
