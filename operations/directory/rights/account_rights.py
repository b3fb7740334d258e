"""Compares the rights of the gateway's own account in a directory with those that roles and people in use need: what is
missing, and what nobody needs.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Annotated, Literal
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext as _
from pydantic import Field
from typing_extensions import TypedDict

from active_directory import Client, InvalidValue, NotFound, sid_to_text
from audit.log_queries import attributes_written
from core.database import own_rows
from core.operation import operations
from core.shapes import Query
from core.text.messages import message
from directory.changes.update import permissions_for_attributes
from directory.errors import ObjectNotFound, translate_ldap_errors
from directory.lookup.access import is_within_any, parse_reference
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.protection.domain_control import critical_containers, domain_owners
from directory.protection.state import administrative_groups
from directory.security.access_control import find_principals, object_types
from directory.security.effective_rights import EffectiveRights, find_candidates, session_account
from directory.security.grants import Grants, account_name, grant_lines, merged_grants, reading_grant_lines
from directory.security.needed_rights import NEEDED, Access, Right
from directory.security.readable_parts import DirectoryPart, ReadCheck, check_readable_parts
from keys.models import ApiKey, Person
from keys.permission_catalogue import MEANINGS
from operations.directory.rights.who_can import find_holders

_IN_USE_FOR = timedelta(days=90)
"""An attribute that was written within this time is in use."""

_MAX_LISTED = 12
"""How many attributes or classes a sentence about excess names."""


_KINDS = ("user", "group", "computer", "organizationalunit")
_RESET = Right(Access.EXTENDED, "user", "User-Force-Change-Password")


_TITLES = {
    DirectoryPart.OBJECTS: message("Users, groups, computers, organizational units and contacts"),
    DirectoryPart.ACCESS_CONTROL: message("Access control lists"),
    DirectoryPart.DELETED_OBJECTS: message("Deleted objects"),
    DirectoryPart.PASSWORD_POLICIES: message("The domain's password policy"),
    DirectoryPart.FINE_GRAINED: message("Fine-grained password policies"),
    DirectoryPart.GROUP_POLICIES: message("Group policies"),
    DirectoryPart.SCHEMA: message("Schema and configuration"),
}
_READ_FOR = {
    # The access control list says whether an object is protected from deletion.
    DirectoryPart.ACCESS_CONTROL: (
        "directory.read_acl",
        "directory.move_object",
        *(f"directory.{verb}_{kind}" for verb in ("create", "update", "delete") for kind in (*_KINDS, "object")),
    ),
    DirectoryPart.DELETED_OBJECTS: ("directory.read_deleted", "directory.restore_deleted"),
    DirectoryPart.FINE_GRAINED: ("directory.reset_password", "directory.change_password"),
    DirectoryPart.GROUP_POLICIES: ("directory.read_object",),
}
"""The permissions that need a part to be read. A part that is not listed is needed by all."""


class RightsQuery(Query):
    base: str | None = Field(
        None,
        max_length=1000,
        description="Where to look: an object of the directory. Without it, wherever what uses a permission may "
        "work: each of the scopes, or the directory's base DN.",
    )


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
    """Compare what the gateway's account may do with what it needs."""
    row = own_rows.find(DirectoryConnection.objects.all(), pk=id)
    with translate_ldap_errors():
        client = get_client(id)
        account = session_account(client)
        additional = _find_written(row)
        rights_at = partial(
            EffectiveRights.at, client, account=account, candidates=find_candidates(client), additional=additional
        )
        effective = rights_at(_base_dn(client, query.base))
        base = effective.base.dn
        used, places = _find_used(row, client, base, everywhere=query.base is None)
        places = {name: some for name, some in places.items() if name in NEEDED}
        at = {base: effective} | {
            place: rights_at(place) for place in {place for some in places.values() for place in some} - {base}
        }
        permissions = [
            _compare(name, rights, used.get(name, []), [at[place] for place in places.get(name, [base])])
            for name, rights in NEEDED.items()
        ]
        parts = check_readable_parts(effective)
        reading = [_part_read(part, used) for part in parts]
        unread = [
            part
            for part, shown in zip(parts, reading, strict=True)
            if shown["held"] is False and (shown["usedBy"] is None or shown["usedBy"])
        ]
        sid, name = account.sid or "SID-OF-THE-ACCOUNT", account_name(row.bind_dn)
        return {
            "base": base,
            "places": sorted(_outermost({place for some in places.values() for place in some})),
            "account": row.bind_dn,
            "permissions": permissions,
            "reading": reading,
            "excess": list(_find_excess(effective, used)),
            "grants": merged_grants(
                *(
                    grant_lines(rights, sid=sid, account=name, base_dn=place, types=object_types(client))
                    for place, rights in _missing_rights(places, at).items()
                ),
                reading_grant_lines(unread, sid=sid, account=name),
            ),
        }


def _base_dn(client: Client, given: str | None) -> str:
    """The distinguished name of the base; raises ObjectNotFound unless it is inside the connection's base."""
    if given is None:
        return client.settings.base_dn
    reference = parse_reference(given, parameter="base")
    with suppress(NotFound, InvalidValue):
        found = client.read(reference if isinstance(reference, UUID) else str(reference), ("objectGUID",))
        if is_within_any(found.dn, (client.settings.base_dn,)):
            return found.dn
    absent = message("There is no object {given} in the directory.", given=given)
    raise ObjectNotFound.naming(absent, parameter="base")


def _compare(
    name: str, rights: tuple[Right, ...], used_by: list[str], places: Sequence[EffectiveRights]
) -> PermissionRights:
    needs = [_needed_right(right, places) for right in rights]
    held = _all_held(need["held"] for need in needs)
    return {
        "permission": name,
        "title": MEANINGS[name].title,
        "usedBy": used_by,
        "status": "missing" if held is False else "unknown" if held is None else "held",
        "needs": needs,
    }


def _needed_right(right: Right, places: Sequence[EffectiveRights]) -> NeededRight:
    """A right as the answer describes it, held only if the account has it at every place."""
    is_of_many = right.access is Access.WRITE and not right.name
    without = [name for effective in places for name in effective.unwritable(right) or ()] if is_of_many else []
    return {
        "right": right.access.value,
        "name": right.name or None,
        "objectClass": right.object_class,
        "held": _all_held(effective.has_right(right) for effective in places),
        "without": list(dict.fromkeys(without)),
    }


def _all_held(answers: Iterable[bool | None]) -> bool | None:
    """False if one is False, else None if one is unknown, else True."""
    known = set(answers)
    return False if False in known else None if None in known else True


def _missing_rights(places: Mapping[str, list[str]], at: Mapping[str, EffectiveRights]) -> dict[str, tuple[Right, ...]]:
    """The rights that the account lacks, by place; a right on the domain itself only at the first place that needs it.

    `places` are those where each permission is used, `at` the account's effective rights at each place.
    """
    missing: dict[str, dict[Right, None]] = defaultdict(dict)
    for name, rights in NEEDED.items():
        for place in places.get(name, ()):
            missing[place].update(dict.fromkeys(each for right in rights for each in _lacking(right, at[place])))
    seen: set[Right] = set()
    result = {}
    for place, lacking in missing.items():
        result[place] = tuple(right for right in lacking if right.object_class is not None or right not in seen)
        seen.update(lacking)
    return result


def _lacking(right: Right, effective: EffectiveRights) -> tuple[Right, ...]:
    """What the account lacks of a right; for a right to write several attributes, the single ones."""
    if right.access is Access.WRITE:
        missing = effective.unwritable(right) or ()
        return tuple(Right(Access.WRITE, right.object_class, name) for name in missing)
    return (right,) if effective.has_right(right) is False else ()


def _part_read(part: ReadCheck, used: Mapping[str, list[str]]) -> PartRead:
    needing = _READ_FOR.get(part.part)
    by = None if needing is None else sorted({who for name in needing for who in used.get(name, ())})
    return {
        "part": part.part.value,
        "title": _TITLES[part.part],
        "place": part.place,
        "usedBy": by,
        "held": part.held,
        "without": list(part.without),
    }


def _find_written(row: DirectoryConnection) -> Mapping[str, frozenset[str]]:
    """The attributes recently written, by class, without those that have a permission of their own."""
    updates = (each.name for each in operations() if each.names_object and each.action == "update")
    found = attributes_written(row.pk, updates, since=timezone.now() - _IN_USE_FOR)
    return {
        kind: frozenset(name for name in names if not permissions_for_attributes(frozenset({name.lower()})))
        for kind, names in found.items()
    }


def _find_used(
    row: DirectoryConnection, client: Client, base: str, *, everywhere: bool
) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
    """The roles and people that hold each permission, and the places where they use it.

    A place is the base, for those who may work there, or with `everywhere` each of their scopes. Superusers are left
    out: they hold everything, which says nothing about what the gateway is used for.
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
    """The places that are not below another one; rights are inherited from there."""
    return (place for place in places if not is_within_any(place, [other for other in places if other != place]))


def _find_excess(effective: EffectiveRights, used: Mapping[str, list[str]]) -> Iterator[str]:
    """What the account may do but nobody in use needs, the gravest first."""
    yield from (f"The account {words}." for words in _administrative_roles(effective))
    needed = {right for name in used for right in NEEDED.get(name, ())}
    if effective.may_change_access():
        yield _("It may change the access control list of the base, and so give itself every right below.")
    if _RESET not in needed and effective.has_right(_RESET):
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


def _administrative_roles(effective: EffectiveRights) -> list[str]:
    """What gives the account the whole domain: administrative groups, and rights on the domain's head."""
    client, sids = effective.client, effective.account.sids
    administrative = {sid_to_text(sid) for sid in administrative_groups(critical_containers(client).domain_sid)}
    groups = find_principals(client, sorted(sids & administrative))
    by_groups = {f"is in {principal['name'] or sid}" for sid, principal in groups.items()}
    return sorted(by_groups | {words for sid, words in domain_owners(client).items() if sid_to_text(sid) in sids})


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_MAX_LISTED])
    more = len(names) - _MAX_LISTED
    return _("{names} and {n} more").format(names=shown, n=more) if more > 0 else shown
