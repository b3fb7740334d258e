"""Resolve a reference (objectGUID or distinguished name) to an entry inside the caller's scopes, or refuse it.

An object that is absent, forbidden or unreachable raises ObjectNotFound, Forbidden or Unavailable.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from uuid import UUID

from django.db.models import Q

from active_directory import (
    Client,
    DistinguishedName,
    Entry,
    InvalidValue,
    NotFound,
    Scope,
    case_insensitive_pattern,
    fold_case,
    is_on_loop,
    run_in_background,
)
from core.call import Call
from core.errors import Forbidden, InvalidRequest
from core.shapes import parse_guid
from core.text.messages import message
from directory import errors
from directory.lookup.connection import get_client, note_protection_changes
from directory.lookup.prefetch import prefetch_of
from directory.lookup.replication import require_absent, require_all_absent
from directory.shapes.kinds import Kind, kind_of_entry

Reference = UUID | DistinguishedName
"""How a caller names an object."""

_CHECKED_ATTRIBUTES = ("objectGUID", "objectClass")
_MIN_FOR_A_THREAD = 50
"""Reading so many objects takes about as long as another search, so that doing both at once saves time."""


def client_of(call: Call) -> Client:
    """The client of the call's directory. The pipeline has checked that the caller may use it."""
    if call.directory is None:
        raise Forbidden
    client = get_client(call.directory.id)
    note_protection_changes(client, call.directory.protection_changes)
    return client


def parse_reference(text: str, *, pointer: str | None = None, parameter: str | None = None) -> Reference:
    """A UUID or distinguished name; raises InvalidRequest naming the member of the body or the parameter."""
    guid = parse_guid(text)
    if guid is not None:
        return guid
    try:
        name = DistinguishedName.parse(text)
    except InvalidValue:
        name = None
    if name is None or not name.rdns:
        detail = message("must be a UUID or a distinguished name")
        raise InvalidRequest.naming(detail, pointer=pointer, parameter=parameter)
    return name


def find_object(
    call: Call,
    reference: Reference,
    *,
    kinds: Collection[Kind] | None = None,
    attributes: Collection[str] = (),
    computed: Collection[str] = (),
    coalesce: bool = False,
    bases: tuple[str, ...] | None = None,
) -> Entry:
    """The entry a caller names, with these attributes. `bases` are the caller's scopes, if they are known already.

    The `computed` attributes, which the directory computes for base searches only, are missing from an entry that comes
    from a batch's prefetch. `coalesce` allows one search for several callers (`Client.read`). Raises ObjectNotFound for
    an object that does not exist or is not of these kinds, and Forbidden for a name outside the caller's scopes,
    whether or not it exists.
    """
    wanted = (*_CHECKED_ATTRIBUTES, *attributes)
    entry = _find(call, reference, wanted, computed, is_confined=True, coalesce=coalesce)
    if bases is None:
        require_inside_scopes(call, entry.dn)
    elif not is_within_any(entry.dn, bases):
        raise Forbidden
    if kinds is not None and kind_of_entry(entry) not in kinds:
        raise errors.ObjectNotFound
    return entry


def _find(
    call: Call,
    reference: Reference,
    attributes: Collection[str],
    computed: Collection[str] = (),
    *,
    is_confined: bool = False,
    coalesce: bool = False,
) -> Entry:
    """The entry below the connection's base: a GUID would also find objects in other naming contexts."""
    client, prefetch = client_of(call), prefetch_of(call)
    name = reference if isinstance(reference, UUID) else str(reference)
    wanted = tuple(dict.fromkeys(attributes))
    try:
        found = prefetch.find(client, name, wanted) if prefetch is not None and isinstance(name, UUID) else None
        entry = found or client.read(name, (*wanted, *computed), coalesce=coalesce)
    except (NotFound, InvalidValue):  # a well-formed name may still be one that the directory rejects
        # First of all: a caller must not learn whether a name outside the scopes exists.
        if is_confined and isinstance(name, str):
            require_inside_scopes(call, name)
        require_absent(client, name)
        raise errors.ObjectNotFound from None
    base = client.settings.base_dn
    if not (_ends_with(entry.dn, base) or is_within_any(entry.dn, (base,))):
        raise errors.ObjectNotFound
    return entry


def find_objects(
    call: Call, guids: Collection[UUID], *, attributes: Collection[str] = ()
) -> Callable[[], dict[UUID, Entry]]:
    """Begin to read many objects of the domain, and return a function that waits for them.

    It gives the entries that exist, by objectGUID, so that the caller can read something else in the meantime. It
    raises Forbidden when one of them is outside the caller's scopes.
    """
    client = client_of(call)
    wanted = tuple(dict.fromkeys((*_CHECKED_ATTRIBUTES, *attributes)))
    read = partial(client.read_many, guids, wanted, of_domain=True)
    found = run_in_background(read, "objects") if len(guids) > _MIN_FOR_A_THREAD else read

    def entries() -> dict[UUID, Entry]:
        base, objects = client.settings.base_dn, found()
        require_all_absent(client, [guid for guid in guids if guid not in objects])
        # For a thousand objects even a function call each takes a while, and almost all names end as `base` is spelled.
        inside = {
            guid: entry
            for guid, entry in objects.items()
            if _ends_with(entry.dn, base) or is_within_any(entry.dn, (base,))
        }
        require_inside_scopes(call, *(entry.dn for entry in inside.values()))
        return inside

    return entries


def find_parent(call: Call, reference: Reference, *, attributes: Collection[str] = ()) -> Entry:
    """The container that `parent` of the body names; raises as `find_object`. AD decides which classes it may hold."""
    try:
        return find_object(call, reference, attributes=attributes)
    except errors.ObjectNotFound:
        raise _absent(reference, pointer="#/parent") from None


def find_base(call: Call, reference: Reference, *, pointer: str | None = None, parameter: str | None = None) -> Entry:
    """The object to search below, whatever the caller's scopes: the search itself finds nothing outside of them.

    Raises ObjectNotFound naming the member of the body or the parameter.
    """
    try:
        return _find(call, reference, ("objectGUID",))
    except errors.ObjectNotFound:
        raise _absent(reference, pointer=pointer, parameter=parameter) from None


def _absent(reference: Reference, *, pointer: str | None = None, parameter: str | None = None) -> errors.ObjectNotFound:
    detail = message("There is no object {reference} in the directory.", reference=reference)
    return errors.ObjectNotFound.naming(detail, pointer=pointer, parameter=parameter)


def scope_bases(call: Call) -> tuple[str, ...] | None:
    """The present names of the objects the caller is confined to; None when the caller is not confined.

    A caller may be confined both by a role and as a person, and then has what lies in a base of each. A base that no
    longer exists holds nothing: a caller whose bases are all gone has nothing at all.
    """
    if not call.scopes:
        return None

    def read() -> tuple[str, ...]:
        client, wanted = client_of(call), {guid for bases in call.scopes for guid in bases}
        if is_on_loop():
            found = {guid: client.read(guid, ("objectGUID",), coalesce=True) for guid in wanted}
        else:
            found = client.read_many(wanted, ("objectGUID",))
        return bases_inside_all([found[guid].dn for guid in bases if guid in found] for bases in call.scopes)

    prefetch = prefetch_of(call)
    return read() if prefetch is None else prefetch.get_or_read(("scopes", call.scopes), read)


def bases_inside_all(confinements: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The bases of what lies inside every one of these confinements: where two bases overlap, the inner one."""
    first, *others = confinements
    left = tuple(first)
    for bases in others:
        inner = [name for name in left if is_within_any(name, bases)]
        left = (*inner, *(name for name in bases if name not in inner and is_within_any(name, left)))
    return left


def require_inside_scopes(call: Call, *names: str) -> None:
    """Raise Forbidden unless each of these objects is inside one of the caller's scopes."""
    bases = scope_bases(call)
    if bases is not None and not all(is_within_any(name, bases) for name in names):
        raise Forbidden


def inside_scopes_condition(call: Call, column: str) -> Q:
    """The condition for rows whose `column` holds the name of an object inside the caller's scopes."""
    nowhere = Q(pk__in=())
    bases = scope_bases(call)
    if bases is None:
        return ~nowhere  # an empty Q disappears when it is combined with another by `|`
    inside = nowhere
    for base in bases:
        # A regular expression, because databases fold case by their own rules: `iendswith` would show the objects in
        # `OU=ı` to a caller confined to `OU=I`. An escaped comma belongs to a value and does not end an RDN.
        inside |= Q((f"{column}__regex", rf"(\A|[^\\](\\\\)*,){case_insensitive_pattern(base)}\Z"))
    return inside


def _ends_with(name: str, base: str) -> bool:
    # A comma behind a backslash belongs to a value: `CN=x\\,OU=Sales,DC=corp` is not below `OU=Sales,DC=corp`.
    return name.endswith(base) and (name == base or (name.endswith(f",{base}") and not name.endswith(f"\\,{base}")))


def is_within_any(name: str, bases: Collection[str]) -> bool:
    """Whether the object of this name is one of these bases or below one."""
    # Parsing costs more than all the rest, and is needed only where the directory spells the two names differently.
    if any(_ends_with(name, base) for base in bases):
        return True
    folded = fold_case(name)
    if any(_ends_with(folded, fold_case(base)) for base in bases):
        return True
    parsed = DistinguishedName.parse(name)
    return any(parsed.is_within(DistinguishedName.parse(base)) for base in bases)


def has_children(client: Client, entry: Entry) -> bool:
    """Whether an object lies directly below an entry.

    Samba has an index for the one-level search (1 ms), but reads the whole domain for a subtree search (70 ms among
    10,000 objects), and most objects have nothing below them.
    """
    return any(True for _ in client.search(entry.dn, Scope.ONE_LEVEL, attributes=("objectGUID",), limit=1))
