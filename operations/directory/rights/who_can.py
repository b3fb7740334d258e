"""Who can do what to a directory object through the gateway: keys and people, and whether their changes would be held.

The answer rests on what the pipeline checks: the permissions that operations need, the role's permissions that the
owner holds too, the scopes of both, the object's protection and the key's level of supervision.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple
from uuid import UUID

from django.db.models import Q
from pydantic import Field
from typing_extensions import TypedDict

from active_directory import Client, Entry
from approvals.supervision import must_wait
from core.call import Call, Scopes, SupervisionLevel
from core.errors import Forbidden, InvalidRequest
from core.operation import Effect, Operation, Risk, Target, operations
from core.paging import Page, PageQuery, open_cursor, seal_cursor
from core.shapes import Id, Moment, documented_as, render_timestamp
from core.text.messages import message
from directory.lookup.access import client_of, find_object, has_children, is_within_any
from directory.protection.rules import contains_protected, is_protected
from directory.shapes.kinds import RESOURCES, Kind, kind_of, permission_for, resource_of
from directory.shapes.record import PROTECTION_ATTRIBUTES
from keys.models import ApiKey, Person
from keys.models.api_keys import valid_keys
from keys.permission_catalogue import GRANTABLE
from keys.permissions.effective import permissions_of_people, permissions_of_roles
from keys.permissions.scopes import bases_inside_scopes, scopes_of, scopes_of_people

_REQUIRED_PERMISSIONS = frozenset({"directory.read_object", "keys.view_apikey", "keys.view_person"})


@dataclass(frozen=True, slots=True)
class Holder:
    """A key or a person. `places` are the DNs that their scopes confine them to, None if nothing does."""

    row: ApiKey | Person
    permissions: frozenset[str]
    places: tuple[str, ...] | None

    @property
    def name(self) -> str:
        return self.row.name if isinstance(self.row, ApiKey) else self.row.username


def find_holders(client: Client, connection_id: UUID) -> list[Holder]:
    """The valid keys linked to a directory, its people and local accounts, each with permissions and places.

    All scopes are read in one search. A scope whose object no longer exists contains nothing.
    """
    keys = valid_keys().filter(owner__is_active=True, links__connection_id=connection_id)
    keys = keys.select_related("owner", "role").distinct()
    people = Person.objects.filter(Q(connection=None) | Q(connection_id=connection_id), is_active=True)
    everybody = {*people, *(key.owner for key in keys)}
    of_roles = permissions_of_roles({key.role_id for key in keys})
    of_people, of_person = permissions_of_people(everybody), scopes_of_people(everybody)
    found: list[tuple[ApiKey | Person, frozenset[str], Scopes]] = [
        *(
            (
                key,
                of_roles[key.role_id] & of_people[key.owner.pk] & GRANTABLE,
                (*scopes_of(key.role.scopes), *of_person[key.owner.pk]),
            )
            for key in keys
        ),
        *((person, of_people[person.pk], of_person[person.pk]) for person in people),
    ]
    wanted = {guid for *_, scopes in found for bases in scopes for guid in bases}
    bases = client.read_many(wanted, ("objectGUID",)) if wanted else {}
    names = {guid: base.dn for guid, base in bases.items()}
    return [Holder(row, permissions, bases_inside_scopes(scopes, names)) for row, permissions, scopes in found]


class WhoCanQuery(PageQuery):
    """`action` leaves those who can do this."""

    action: str | None = Field(None, description="A verb, such as `disable` or `reset-password`.")


class PossibleAction(TypedDict):
    """`held` tells whether even the least such change waits for a person; riskier ones may wait in any case."""

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


class _Action(NamedTuple):
    """An operation on the object: the permissions that it needs here, and the least risk of such a change."""

    operation: Operation
    needs: frozenset[str]
    risk: Risk


def find_who_can(call: Call, *, resource: str, id: UUID, query: WhoCanQuery) -> Page[WhoCan]:
    """The keys and people who can do something to an object; raises Forbidden for callers who may not see people."""
    if not call.permissions >= _REQUIRED_PERMISSIONS:
        raise Forbidden
    entry = find_object(call, id, kinds=RESOURCES[resource].kinds, attributes=(*PROTECTION_ATTRIBUTES, "objectClass"))
    actions = list(_actions_on(call, entry))
    if query.action is not None:
        named = [action for action in actions if action.operation.action == query.action]
        if not named:
            detail = message(
                "must be one of {names}", names=", ".join(sorted(action.operation.action for action in actions))
            )
            raise InvalidRequest.naming(detail, parameter="action")
        actions = named
    assert call.directory is not None
    reaching = (
        holder
        for holder in find_holders(client_of(call), call.directory.id)
        if holder.places is None or is_within_any(entry.dn, holder.places)
    )
    found = [told for told in (_who_can(holder, actions) for holder in reaching) if told["actions"]]
    return _page(call, query, sorted(found, key=_sort_key), bound_to=str(id))


def _sort_key(item: WhoCan) -> list[str]:
    return [item["kind"], item["name"].casefold(), item["id"]]


def _page(call: Call, query: WhoCanQuery, found: Sequence[WhoCan], *, bound_to: str) -> Page[WhoCan]:
    """A page after the cursor's sort key, so that nobody is skipped or repeated if others come or go between pages."""
    rest = list(found)
    if query.cursor is not None:
        position = open_cursor(call, query, query.cursor, bound_to=bound_to)
        rest = [item for item in found if _sort_key(item) > position]
    items = rest[: query.page_size]
    more = len(rest) > len(items)
    next_cursor = seal_cursor(call, query, _sort_key(items[-1]), bound_to=bound_to) if more else None
    return {"items": items, "nextCursor": next_cursor, "total": len(found), "truncated": False}


def _actions_on(call: Call, entry: Entry) -> Iterator[_Action]:
    """The operations for an object of this kind, with what its protection requires."""
    client, kind = client_of(call), kind_of(entry.object_classes)
    resource = resource_of(kind)
    protected = is_protected(client, entry)
    holds = protected or (has_children(client, entry) and contains_protected(client, entry.dn))
    for item in operations():
        is_read = item.route == f"GET ad/{resource}/{{id}}"
        is_change = item.effect is Effect.CHANGE and not item.is_creation
        if item.resource != resource or not (is_read or is_change):
            continue
        needs, risk = _needed_permissions(item, kind), item.risk
        if is_change and (holds if item.target is Target.SUBTREE else protected):
            needs, risk = needs | {"directory.manage_protected"}, Risk.SECURITY
        yield _Action(item, needs, risk)


def _needed_permissions(item: Operation, kind: Kind) -> frozenset[str]:
    """The permissions for an operation: of alternatives the one of the object's kind, and all that it requires."""
    own = {permission_for(action, kind) for action in ("create", "update", "delete")}
    needs = item.permission if len(item.permission) == 1 else item.permission & own
    return needs | item.requires


def _who_can(holder: Holder, actions: Sequence[_Action]) -> WhoCan:
    key = holder.row if isinstance(holder.row, ApiKey) else None
    level = None if key is None else SupervisionLevel(key.supervision_level)
    possible: list[PossibleAction] = [
        {
            "action": operation.action,
            "operation": operation.name,
            "held": operation.effect is Effect.CHANGE and must_wait(level, risk),
        }
        for operation, needs, risk in actions
        if needs <= holder.permissions
    ]
    return {
        "kind": "apiKey" if key else "person",
        "id": str(holder.row.id if isinstance(holder.row, ApiKey) else holder.row.public_id),
        "name": holder.name,
        "owner": key.owner.username if key else None,
        "role": key.role.name if key else None,
        "supervisionLevel": level,
        "expiresAt": render_timestamp(key.expires_at) if key else None,
        "actions": possible,
    }
