"""Who can do what to a directory object through the gateway: every key and person, and whether they would be held.

It is answered by what the pipeline asks: the permissions that the registry's operations need, the role's permissions
that the owner holds too, the scopes of both, the object's protection and the key's level of supervision.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, NamedTuple
from uuid import UUID

from pydantic import Field
from typing_extensions import TypedDict

from active_directory import Entry
from approvals.supervision import must_wait
from core.call import Call, SupervisionLevel
from core.errors import Forbidden, InvalidRequest
from core.operation import Effect, Operation, Risk, Target, operations
from core.paging import Page, PageQuery, open_cursor, seal_cursor
from core.shapes import Id, Moment, documented_as, render_timestamp
from core.text.messages import message
from directory.lookup.access import client_of, find_object, is_within_any
from directory.lookup.children import has_children
from directory.protection.rules import holds_protected, is_protected
from directory.shapes.kinds import RESOURCES, Kind, kind_of, permission_for, resource_of
from directory.shapes.record import PROTECTION_ATTRIBUTES
from keys.models import ApiKey
from operations.directory.rights.holders import Holder, find_holders

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


class _Action(NamedTuple):
    """Something that can be done to the object: the permissions that it needs, and the least risk that it is."""

    operation: Operation
    needs: frozenset[str]
    risk: Risk


def find_who_can(call: Call, *, resource: str, id: UUID, query: WhoCanQuery) -> Page[WhoCan]:
    """The keys and people who can do something to an object; raises Forbidden for whoever may not see people."""
    if not call.permissions >= _NEEDED:
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
    found = [told for told in (_told(holder, actions) for holder in reaching) if told["actions"]]
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


def _told(holder: Holder, actions: Sequence[_Action]) -> WhoCan:
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
