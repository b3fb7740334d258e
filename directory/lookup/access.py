"""From a reference (objectGUID or distinguished name) to an entry inside the caller's scopes, or a refusal.

Absent, forbidden and unreachable are three different answers: ObjectNotFound, Forbidden, Unavailable.
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
    fold,
    pattern_of,
    run_in_background,
)
from core.call import Call
from core.errors import Forbidden, InvalidRequest
from core.shapes import parse_guid
from core.text.messages import message
from directory import errors
from directory.lookup.connection import get_client
from directory.lookup.prefetch import prefetch_of
from directory.lookup.protection_changes import show_nothing_before
from directory.lookup.replication import require_absent, require_all_absent
from directory.shapes.kinds import Kind, kind_of

Reference = UUID | DistinguishedName
"""How a caller names an object."""

_FOR_THE_CHECK = ("objectGUID", "objectClass")
_WORTH_A_THREAD = 50
"""So many objects take about as long to be read as one other search does."""


def client_of(call: Call) -> Client:
    """The client of the call's directory, which the pipeline has made sure of."""
    if call.directory is None:
        raise Forbidden
    client = get_client(call.directory.id)
    show_nothing_before(client, call.directory.protection_changes)
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
) -> Entry:
    """The entry a caller names, with the attributes asked for.

    Those that are `computed` of no search but of a single object come with one that is read by itself.
    Raises ObjectNotFound when there is none, or one of another kind than `kinds`; Forbidden when it is outside the
    caller's scopes, where no name is told to be taken or free.
    """
    entry = _find(call, reference, (*_FOR_THE_CHECK, *attributes), computed, is_confined=True)
    require_inside_scopes(call, entry.dn)
    if kinds is not None and kind_of(entry.object_classes) not in kinds:
        raise errors.ObjectNotFound
    return entry


def _find(
    call: Call,
    reference: Reference,
    attributes: Collection[str],
    computed: Collection[str] = (),
    *,
    is_confined: bool = False,
) -> Entry:
    """The entry in the directory that was connected: a GUID also finds what other naming contexts hold."""
    client, prefetch = client_of(call), prefetch_of(call)
    name = reference if isinstance(reference, UUID) else str(reference)
    wanted = tuple(dict.fromkeys(attributes))
    try:
        found = prefetch.find(client, name, wanted) if prefetch is not None and isinstance(name, UUID) else None
        entry = found or client.read(name, (*wanted, *computed))
    except (NotFound, InvalidValue):  # a name may be well-formed and still none that the directory could give
        if is_confined and isinstance(name, str):
            require_inside_scopes(call, name)
        require_absent(client, name)
        raise errors.ObjectNotFound from None
    if not is_within_any(entry.dn, (client.settings.base_dn,)):
        raise errors.ObjectNotFound
    return entry


def find_objects(
    call: Call, guids: Collection[UUID], *, attributes: Collection[str] = ()
) -> Callable[[], dict[UUID, Entry]]:
    """Those of many objects of the domain that exist, by objectGUID, and nothing of the forest's configuration.

    Reading them is begun, for a caller who has something else to read meanwhile: what is given back waits for them.
    Forbidden when one of them is outside the caller's scopes.
    """
    client = client_of(call)
    wanted = tuple(dict.fromkeys((*_FOR_THE_CHECK, *attributes)))
    read = partial(client.read_many, guids, wanted, of_domain=True)
    found = run_in_background(read, "objects") if len(guids) > _WORTH_A_THREAD else read

    def entries() -> dict[UUID, Entry]:
        base, objects = client.settings.base_dn, found()
        require_all_absent(client, [guid for guid in guids if guid not in objects])
        # Of a thousand objects even a call for each takes a while, and hardly any has the name in another spelling.
        inside = {
            guid: entry
            for guid, entry in objects.items()
            if _ends_with(entry.dn, base) or is_within_any(entry.dn, (base,))
        }
        require_inside_scopes(call, *(entry.dn for entry in inside.values()))
        return inside

    return entries


def find_parent(call: Call, reference: Reference, *, attributes: Collection[str] = ()) -> Entry:
    """The container that `parent` of the body names, raised for as by `find_object`; AD decides what may hold what."""
    try:
        return find_object(call, reference, attributes=attributes)
    except errors.ObjectNotFound:
        raise _absent(reference, pointer="#/parent") from None


def find_base(call: Call, reference: Reference, *, pointer: str | None = None, parameter: str | None = None) -> Entry:
    """The object to search below. Scopes do not matter here: a search finds nothing outside of them.

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

    Confined twice, by a role and as a person, the caller is to be inside both: what lies in one base of each is left.
    A base that no longer exists holds nothing; without any left the caller is inside nothing at all.
    """
    if not call.scopes:
        return None

    def read() -> tuple[str, ...]:
        wanted = {guid for bases in call.scopes for guid in bases}
        found = client_of(call).read_many(wanted, ("objectGUID",))
        return bases_inside_all([found[guid].dn for guid in bases if guid in found] for bases in call.scopes)

    prefetch = prefetch_of(call)
    return read() if prefetch is None else prefetch.keep(("scopes", call.scopes), read)


def bases_inside_all(confinements: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The bases of what lies in each of some parts of the directory: of two that overlap it is the inner one."""
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


def named_inside_scopes(call: Call, column: str) -> Q:
    """The rows of a table whose `column` holds the name of an object inside the caller's scopes."""
    nowhere = Q(pk__in=())
    bases = scope_bases(call)
    if bases is None:
        return ~nowhere  # an empty condition would be lost beside another one
    inside = nowhere
    for base in bases:
        # A database folds case by rules of its own, and would show what lies in `OU=ı` to those confined to `OU=I`.
        # A comma that is escaped belongs to a name, not to the path.
        inside |= Q((f"{column}__regex", rf"(\A|[^\\](\\\\)*,){pattern_of(base)}\Z"))
    return inside


def _ends_with(name: str, base: str) -> bool:
    # A comma behind a backslash belongs to a value: `CN=x\\,OU=Sales,DC=corp` is not below `OU=Sales,DC=corp`.
    return name.endswith(base) and (name == base or (name.endswith(f",{base}") and not name.endswith(f"\\,{base}")))


def is_within_any(name: str, bases: Collection[str]) -> bool:
    """Whether an object is one of these or below one."""
    # Parsing costs more than the rest of a check, and is needed only where the directory spells the two differently.
    if any(_ends_with(name, base) for base in bases):
        return True
    folded = fold(name)
    if any(_ends_with(folded, fold(base)) for base in bases):
        return True
    parsed = DistinguishedName.parse(name)
    return any(parsed.is_within(DistinguishedName.parse(base)) for base in bases)
