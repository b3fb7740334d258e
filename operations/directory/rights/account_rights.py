"""What the gateway's own account may do in a directory beside what the roles and people in use need: the least that
will do, what of it is missing, and what is too much.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Final, Literal
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext as _
from pydantic import Field
from typing_extensions import TypedDict

from active_directory import Client, InvalidValue, NotFound, sid_to_text
from audit.written_attributes import attributes_written
from core.errors import NotFound as NoSuchConnection
from core.operation import operations
from core.shapes import Query
from core.text.messages import message
from directory.changes.update import permissions_for_attributes
from directory.errors import ObjectNotFound, translated
from directory.lookup.access import is_within_any, parse_reference
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.protection.domain_control import domain_owners
from directory.protection.domain_infrastructure import places_of
from directory.protection.state import administrative_groups
from directory.security.effective_rights import EffectiveRights, account_of
from directory.security.grants import Grants, grants, reading_grants, together
from directory.security.needed_rights import NEEDED, Access, Right, account_name
from directory.security.object_types import object_types
from directory.security.principals import find_principals
from directory.security.readable import Readable, Reading, find_readable
from keys.models import ApiKey, Person
from keys.permission_catalogue import MEANINGS
from operations.directory.rights.holders import find_holders

_WRITTEN_FOR: Final = timedelta(days=90)
"""An attribute that was written in this time is in use."""

_SHOWN: Final = 12
"""Attributes or classes that one line about too much names."""


_KINDS: Final = ("user", "group", "computer", "organizationalunit")
_RESET: Final = Right(Access.EXTENDED, "user", "User-Force-Change-Password")


_TITLES: Final = {
    Reading.OBJECTS: message("Users, groups, computers, organizational units and contacts"),
    Reading.ACCESS_CONTROL: message("Access control lists"),
    Reading.DELETED_OBJECTS: message("Deleted objects"),
    Reading.PASSWORD_POLICIES: message("The domain's password policy"),
    Reading.FINE_GRAINED: message("Fine-grained password policies"),
    Reading.GROUP_POLICIES: message("Group policies"),
    Reading.SCHEMA: message("Schema and configuration"),
}
_READ_FOR: Final[dict[Reading, tuple[str, ...] | None]] = {
    **dict.fromkeys((Reading.OBJECTS, Reading.PASSWORD_POLICIES, Reading.SCHEMA)),
    # Whether an object is protected from deletion, or protects others, its access control list says.
    Reading.ACCESS_CONTROL: (
        "directory.read_acl",
        "directory.move_object",
        *(f"directory.{verb}_{kind}" for verb in ("create", "update", "delete") for kind in (*_KINDS, "object")),
    ),
    Reading.DELETED_OBJECTS: ("directory.read_deleted", "directory.restore_deleted"),
    Reading.FINE_GRAINED: ("directory.reset_password", "directory.change_password"),
    Reading.GROUP_POLICIES: ("directory.read_object",),
}
"""The permissions that cannot be exercised, or not safely, without reading a part; None for all of them."""


class RightsQuery(Query):
    base: Annotated[
        str | None,
        Field(
            max_length=1000,
            description="Where to look: an object of the directory. Without it, wherever what uses a permission may "
            "work: each of the scopes, or the directory's base DN.",
        ),
    ] = None


class NeededRight(TypedDict):
    """`name` is the attribute or the extended right, null for all attributes in use or for objects as a whole.

    `objectClass` is null for rights on the domain itself. `held` is null where it cannot be known, usually because the
    account may not read access control. `without` are the attributes in use that are lacking.
    """

    right: Annotated[str, Field(description="As in access control lists: `write-property`, `create-child` and so on.")]
    name: str | None
    objectClass: str | None
    held: bool | None
    without: list[str]


class PermissionRights(TypedDict):
    """What the account needs so that the gateway can do what a permission allows. `usedBy` are roles and people."""

    permission: str
    title: str
    usedBy: list[str]
    status: Literal["held", "missing", "unknown"]
    needs: list[NeededRight]


class PartRead(TypedDict):
    """A part of the directory that the gateway reads, and whether its account may; null where it cannot be known.

    `usedBy` are roles and people who need it to be read; null for what everything rests on. `without` is what is
    missing: attributes, rights, or objects.
    """

    part: Literal[
        "objects",
        "access-control",
        "deleted-objects",
        "password-policies",
        "fine-grained-policies",
        "group-policies",
        "schema",
    ]
    title: str
    place: str
    usedBy: list[str] | None
    held: bool | None
    without: list[str]


class RightsComparison(TypedDict):
    """`places` are where the permissions in use are needed, and where `grants` grants what is missing of them.

    `excess` are sentences about what nobody in use needs, looked for at `base`.
    """

    base: str
    places: list[str]
    account: str
    permissions: list[PermissionRights]
    reading: list[PartRead]
    excess: list[str]
    grants: Grants


def compare_account_rights(id: UUID, query: RightsQuery) -> RightsComparison:
    """What the gateway's account may do, beside what it needs there."""
    row = DirectoryConnection.objects.filter(pk=id).first()
    if row is None:
        raise NoSuchConnection
    with translated():
        client = get_client(id)
        account = account_of(client)
        further = _find_written(row)
        effective = EffectiveRights.at(client, _base(client, query.base), account, further=further)
        base = effective.base.dn
        used, places = _find_used(row, client, base, everywhere=query.base is None)
        places = {name: some for name, some in places.items() if name in NEEDED}
        at = {base: effective} | {
            place: EffectiveRights.at(client, place, account, further=further)
            for place in {place for some in places.values() for place in some} - {base}
        }
        permissions = [
            _compare(name, rights, used.get(name, []), [at[place] for place in places.get(name, [base])])
            for name, rights in NEEDED.items()
        ]
        missing: dict[str, dict[Right, None]] = defaultdict(dict)
        for name, rights in NEEDED.items():
            for place in places.get(name, ()):
                missing[place].update(dict.fromkeys(each for right in rights for each in _lacking(right, at[place])))
        parts = find_readable(effective)
        reading = [_read(part, used) for part in parts]
        unread = [part for part, told in zip(parts, reading, strict=True) if told["held"] is False and _is_wanted(told)]
        sid, name = account.sid or "SID-OF-THE-ACCOUNT", account_name(row.bind_dn)
        return {
            "base": base,
            "places": sorted(_outermost({place for some in places.values() for place in some})),
            "account": row.bind_dn,
            "permissions": permissions,
            "reading": reading,
            "excess": list(_find_excess(effective, used)),
            "grants": together(
                *(
                    grants(some, sid=sid, account=name, base_dn=place, types=object_types(client))
                    for place, some in _each_once(missing).items()
                ),
                reading_grants(unread, sid=sid, account=name),
            ),
        }


def _base(client: Client, given: str | None) -> str:
    """The name of the base, which is in the directory that was connected; raises ObjectNotFound."""
    if given is None:
        return client.settings.base_dn
    reference = parse_reference(given, parameter="base")
    try:
        found = client.read(reference if isinstance(reference, UUID) else str(reference), ("objectGUID",))
    except (NotFound, InvalidValue):
        raise _absent(given) from None
    if not is_within_any(found.dn, (client.settings.base_dn,)):
        raise _absent(given)
    return found.dn


def _absent(given: str) -> ObjectNotFound:
    return ObjectNotFound.naming(message("There is no object {given} in the directory.", given=given), parameter="base")


def _compare(
    name: str, rights: tuple[Right, ...], used_by: list[str], places: Sequence[EffectiveRights]
) -> PermissionRights:
    needs = [_needed(right, places) for right in rights]
    held = _all(need["held"] for need in needs)
    return {
        "permission": name,
        "title": MEANINGS[name].title,
        "usedBy": used_by,
        "status": "missing" if held is False else "unknown" if held is None else "held",
        "needs": needs,
    }


def _needed(right: Right, places: Sequence[EffectiveRights]) -> NeededRight:
    """What a right needs at every one of the places."""
    is_of_many = right.access is Access.WRITE and not right.name
    without = [name for place in places for name in place.unwritable(right) or ()] if is_of_many else []
    return {
        "right": right.access.value,
        "name": right.name or None,
        "objectClass": right.object_class,
        "held": _all(place.holds(right) for place in places),
        "without": list(dict.fromkeys(without)),
    }


def _all(answers: Iterable[bool | None]) -> bool | None:
    """False if one is, else None if one is not known."""
    known = set(answers)
    return False if False in known else None if None in known else True


def _lacking(right: Right, effective: EffectiveRights) -> tuple[Right, ...]:
    """What of a right the account lacks: single attributes of those that it should be able to write."""
    if right.access is Access.WRITE:
        missing = effective.unwritable(right) or ()
        return tuple(Right(Access.WRITE, right.object_class, name) for name in missing)
    return (right,) if effective.holds(right) is False else ()


def _each_once(missing: Mapping[str, Iterable[Right]]) -> dict[str, tuple[Right, ...]]:
    """The same by place, with a right on the domain itself at the first place that needs it alone."""
    seen: set[Right] = set()
    result = {}
    for place, rights in missing.items():
        result[place] = tuple(right for right in rights if right.object_class is not None or right not in seen)
        seen.update(rights)
    return result


def _read(part: Readable, used: Mapping[str, list[str]]) -> PartRead:
    needing = _READ_FOR[part.part]
    by = None if needing is None else sorted({who for name in needing for who in used.get(name, ())})
    return {
        "part": part.part.value,
        "title": _TITLES[part.part],
        "place": part.place,
        "usedBy": by,
        "held": part.held,
        "without": list(part.without),
    }


def _is_wanted(part: PartRead) -> bool:
    return part["usedBy"] is None or bool(part["usedBy"])


def _find_written(row: DirectoryConnection) -> Mapping[str, frozenset[str]]:
    """By class, the attributes that the log shows as written, but for those that have a permission of their own."""
    updates = (each.name for each in operations() if each.names_object and each.action == "update")
    found = attributes_written(row.pk, updates, since=timezone.now() - _WRITTEN_FOR)
    return {
        kind: frozenset(name for name in names if not permissions_for_attributes(frozenset({name.lower()})))
        for kind, names in found.items()
    }


def _find_used(
    row: DirectoryConnection, client: Client, base: str, *, everywhere: bool
) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
    """By permission: the roles of keys and the people who hold it, and the places where they need it.

    These are the base, for whoever may work there; everywhere, whatever they are confined to. Superusers hold
    everything, which says nothing of what is done through the gateway.
    """
    used: dict[str, set[str]] = defaultdict(set)
    places: dict[str, set[str]] = defaultdict(set)
    for holder in find_holders(client, row.pk):
        if isinstance(holder.row, Person) and holder.row.is_superuser:
            continue
        where = set(_places_at(base, holder.places, everywhere=everywhere))
        for name in holder.permissions if where else ():
            used[name].add(holder.row.role.name if isinstance(holder.row, ApiKey) else holder.name)
            places[name] |= where
    return (
        {name: sorted(some) for name, some in used.items()},
        {name: sorted(_outermost(some)) for name, some in places.items()},
    )


def _places_at(base: str, inside: Sequence[str] | None, *, everywhere: bool) -> Sequence[str]:
    if inside is None:
        return (base,)
    if everywhere:
        return [place for place in inside if is_within_any(place, (base,))]
    return (base,) if any(is_within_any(base, (it,)) or is_within_any(it, (base,)) for it in inside) else ()


def _outermost(places: Collection[str]) -> Iterator[str]:
    """Those that are not below another one: what is granted there holds below."""
    return (place for place in places if not is_within_any(place, [other for other in places if other != place]))


def _find_excess(effective: EffectiveRights, used: Mapping[str, list[str]]) -> Iterator[str]:
    """What the account may do and nobody in use needs, the gravest first."""
    yield from (f"The account {words}." for words in _administration(effective))
    needed = {right for name in used for right in NEEDED.get(name, ())}
    if effective.may_change_access():
        yield _("It may change the access control list of the base, and so give itself every right below.")
    if _RESET not in needed and effective.holds(_RESET):
        yield _("It may reset passwords of users.")
    if "directory.create_object" not in used:
        wanted = {(right.object_class or "").lower() for right in needed if right.access is Access.CREATE}
        if surplus := sorted(name for name in effective.creatable if name.lower() not in wanted):
            yield _("It may create objects that nobody needs to: {classes}.").format(classes=_listed(surplus))
    for object_class in ("user", "group", "computer", "organizationalUnit"):
        written = {
            name
            for right in needed
            if right.object_class == object_class and right.access is Access.WRITE
            for name in effective.attributes_of(right)
        }
        if surplus := sorted(effective.writable(object_class) - written):
            text = _("It may write attributes of {kind} objects that nobody needs to: {attributes}.")
            yield text.format(kind=object_class, attributes=_listed(surplus))
        if effective.may_change_access(object_class):
            yield _("It may change access control lists of {kind} objects.").format(kind=object_class)


def _administration(effective: EffectiveRights) -> list[str]:
    """By what the account holds the whole domain: administrative groups by name, and rights on the domain's head."""
    client, sids = effective.client, effective.account.sids
    administrative = {sid_to_text(sid) for sid in administrative_groups(places_of(client).domain_sid)}
    groups = find_principals(client, sorted(sids & administrative))
    by_groups = {f"is in {principal['name'] or sid}" for sid, principal in groups.items()}
    return sorted(by_groups | {words for sid, words in domain_owners(client).items() if sid_to_text(sid) in sids})


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    more = len(names) - _SHOWN
    return _("{names} and {n} more").format(names=shown, n=more) if more > 0 else shown
