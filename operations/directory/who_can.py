"""Who can do what to a directory object through the gateway: every key and person, and whether they would be held.

It is answered by what the pipeline asks: the permissions that the registry's operations need, the role's permissions
that the owner holds too, the scopes of both, the object's protection and the key's level of supervision.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeVar
from uuid import UUID

from django.db.models import Q
from django.utils import timezone
from pydantic import Field
from typing_extensions import TypedDict

from active_directory import Entry
from approvals.supervision import must_wait
from core.call import Call, Scopes, SupervisionLevel
from core.errors import Forbidden, InvalidRequest
from core.operation import Effect, Operation, Risk, Target, operations
from core.paging import Page, PageQuery, open_cursor, seal_cursor
from core.shapes import Id, Moment, documented_as, render_timestamp
from directory.lookup.access import client_of, find_object, is_within_any
from directory.lookup.children import has_children
from directory.protection.rules import holds_protected, is_protected
from directory.shapes.kinds import RESOURCES, Kind, kind_of, permission_for, resource_of
from directory.shapes.record import PROTECTION_ATTRIBUTES
from keys.models import ApiKey, Person
from keys.models.assignable import GRANTABLE
from keys.permissions.effective import permissions_of_people, permissions_of_roles
from keys.permissions.scoping import inside_all, scopes_of, scopes_of_people

_Id = TypeVar("_Id", UUID, int)
_NEEDED: Final = frozenset({"directory.read_object", "keys.view_apikey", "keys.view_person"})


class WhoCanQuery(PageQuery):
    """`action` leaves those who can do this."""

    action: Annotated[str | None, Field(description="A verb, such as `disable` or `reset-password`.")] = None


class PossibleAction(TypedDict):
    """`held` tells whether even the least such change waits for a person; others may wait besides."""

    action: str
    operation: str
    held: bool


class WhoCan(TypedDict):
    """A key with its owner, role and level, or a person, who is never held and has none of these."""

    kind: Literal["apiKey", "person"]
    id: Id
    name: str
    owner: str | None
    role: str | None
    supervisionLevel: Annotated[str, documented_as(SupervisionLevel)] | None
    expiresAt: Moment | None
    actions: list[PossibleAction]


@dataclass(frozen=True, slots=True)
class _Action:
    """Something that can be done to the object: the permissions that it needs, and the least risk that it is."""

    operation: Operation
    needs: frozenset[str]
    risk: Risk

    def for_holder(self, permissions: frozenset[str], level: SupervisionLevel | None) -> PossibleAction | None:
        if not self.needs <= permissions:
            return None
        is_change = self.operation.effect is Effect.CHANGE
        held = is_change and must_wait(level, self.risk)
        return {"action": self.operation.action, "operation": self.operation.name, "held": held}


def find_who_can(call: Call, *, resource: str, id: UUID, query: WhoCanQuery) -> Page[WhoCan]:
    """The keys and people who can do something to an object; raises Forbidden for whoever may not see people."""
    if not call.permissions >= _NEEDED:
        raise Forbidden
    entry = find_object(call, id, kinds=RESOURCES[resource].kinds, attributes=(*PROTECTION_ATTRIBUTES, "objectClass"))
    actions = list(_actions_on(call, entry))
    if query.action is not None:
        named = [action for action in actions if action.operation.action == query.action]
        if not named:
            detail = f"must be one of {', '.join(sorted(action.operation.action for action in actions))}"
            raise InvalidRequest.naming(detail, parameter="action")
        actions = named
    found = [*_keys(call, entry, actions), *_people(call, entry, actions)]
    return _page(call, query, sorted(found, key=_place), bound_to=str(id))


def _place(item: WhoCan) -> list[str]:
    return [item["kind"], item["name"].casefold(), item["id"]]


def _page(call: Call, query: WhoCanQuery, found: Sequence[WhoCan], *, bound_to: str) -> Page[WhoCan]:
    """By key: who comes or goes meanwhile makes nobody else appear twice or not at all."""
    rest = list(found)
    if query.cursor is not None:
        position = open_cursor(call, query, query.cursor, bound_to=bound_to)
        rest = [item for item in found if _place(item) > position]
    items = rest[: query.page_size]
    more = len(rest) > len(items)
    next_cursor = seal_cursor(call, query, _place(items[-1]), bound_to=bound_to) if more else None
    return {"items": items, "nextCursor": next_cursor, "total": len(found), "truncated": False}


def _actions_on(call: Call, entry: Entry) -> Iterator[_Action]:
    """What the registry has for an object of this kind, with what its protection asks for."""
    client, kind = client_of(call), kind_of(entry.object_classes)
    resource = resource_of(kind)
    protected = is_protected(client, entry)
    holds = protected or (has_children(client, entry) and holds_protected(client, entry.dn))
    for item in operations():
        is_read = item.route == f"GET ad/{resource}/{{id}}"
        is_change = item.effect is Effect.CHANGE and not item.is_creation
        if item.resource != resource or not (is_read or is_change):
            continue
        needs, risk = _needs(item, kind), item.risk
        if is_change and (holds if item.target is Target.SUBTREE else protected):
            needs, risk = needs | {"directory.manage_protected"}, Risk.SECURITY
        yield _Action(item, needs, risk)


def _needs(item: Operation, kind: Kind) -> frozenset[str]:
    """What admits to an operation, of several permissions the one of the object's own kind, and what it requires."""
    own = {permission_for(action, kind) for action in ("create", "update", "delete")}
    needs = item.permission if len(item.permission) == 1 else item.permission & own
    return needs | item.requires


def _keys(call: Call, entry: Entry, actions: Sequence[_Action]) -> Iterator[WhoCan]:
    """The keys that are good now, linked to this directory, whose scopes and whose owner's hold the object."""
    assert call.directory is not None
    now = timezone.now()
    rows = list(
        ApiKey.objects.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None, owner__is_active=True)
        .filter(links__connection_id=call.directory.id, links__connection__enabled=True)
        .select_related("owner", "role")
        .distinct()
    )
    of_roles = permissions_of_roles({row.role_id for row in rows})
    of_owners = permissions_of_people({row.owner for row in rows})
    of_owner = scopes_of_people({row.owner for row in rows})
    scopes = {row.pk: (*scopes_of(row.role.scopes), *of_owner[row.owner.pk]) for row in rows}
    reached = _reaching(call, entry, scopes)
    for row in rows:
        if row.pk not in reached:
            continue
        held = of_roles[row.role_id] & of_owners[row.owner.pk] & GRANTABLE
        if possible := _possible(actions, held, SupervisionLevel(row.supervision_level)):
            yield {
                "kind": "apiKey",
                "id": str(row.id),
                "name": row.name,
                "owner": row.owner.username,
                "role": row.role.name,
                "supervisionLevel": row.supervision_level,
                "expiresAt": render_timestamp(row.expires_at),
                "actions": possible,
            }


def _reaching(call: Call, entry: Entry, scopes: Mapping[_Id, Scopes]) -> set[_Id]:
    """Whose scopes hold the object. All are looked up in one search; one that no longer exists holds nothing."""
    wanted = {guid for some in scopes.values() for bases in some for guid in bases}
    found = client_of(call).read_many(wanted, ("objectGUID",)) if wanted else {}
    names = {guid: base.dn for guid, base in found.items()}
    places = {whose: inside_all(some, names) for whose, some in scopes.items()}
    return {whose for whose, bases in places.items() if bases is None or is_within_any(entry.dn, bases)}


def _people(call: Call, entry: Entry, actions: Sequence[_Action]) -> Iterator[WhoCan]:
    """Local accounts and the directory's own people: each works on what they sign in to, where they may."""
    assert call.directory is not None
    may_work_here = Q(connection=None) | Q(connection_id=call.directory.id, connection__enabled=True)
    people = list(Person.objects.filter(may_work_here, is_active=True))
    held = permissions_of_people(people)
    reached = _reaching(call, entry, scopes_of_people(people))
    for person in people:
        if person.pk in reached and (possible := _possible(actions, held[person.pk], None)):
            yield {
                "kind": "person",
                "id": str(person.public_id),
                "name": person.username,
                "owner": None,
                "role": None,
                "supervisionLevel": None,
                "expiresAt": None,
                "actions": possible,
            }


def _possible(
    actions: Sequence[_Action], permissions: frozenset[str], level: SupervisionLevel | None
) -> list[PossibleAction]:
    found = (action.for_holder(permissions, level) for action in actions)
    return [action for action in found if action is not None]
