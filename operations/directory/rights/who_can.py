"""Who can do what to a directory object: keys and people, who approves what they ask for, and who needs no gateway.

What keys and people can do rests on what the pipeline checks: the permissions that operations need, the role's
permissions that the owner holds too, the scopes of both, the object's protection and the key's level of supervision.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple
from uuid import UUID

from django.db.models import Q
from pydantic import Field
from typing_extensions import TypedDict

from active_directory import Client, Entry
from approvals.models import ChangeRequest
from approvals.review.deciders import ConflictChecker, active_deciders, find_barred_keys
from approvals.review.decisions import needs_two
from approvals.supervision import must_wait
from core.call import Call, Scopes, SupervisionLevel
from core.errors import Forbidden, InvalidRequest
from core.operation import Effect, Operation, Risk, Target, operations
from core.paging import Page, PageQuery, open_cursor, seal_cursor
from core.shapes import Id, Moment, documented_as, render_timestamp
from core.text.messages import message
from directory.lookup.access import client_of, find_object, has_children, is_within_any
from directory.protection.rules import contains_protected, is_protected
from directory.security.trustees import Trustee, find_trustees
from directory.shapes.kinds import RESOURCES, Kind, kind_of_entry, permission_for, resource_of
from directory.shapes.record import PROTECTION_ATTRIBUTES
from keys.models import ApiKey, Person
from keys.models.api_keys import valid_keys
from keys.permission_catalogue import GRANTABLE
from keys.permissions.effective import permissions_of_people, permissions_of_roles
from keys.permissions.scopes import bases_inside_scopes, is_confined, scopes_of, scopes_of_people

_REQUIRED_PERMISSIONS = frozenset({"directory.read_object", "keys.view_apikey", "keys.view_person"})
_MAX_APPROVERS = 50


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


class Approver(TypedDict):
    """A person who may decide changes of the object that wait, except those that the keys `barredKeys` ask for."""

    id: Id
    name: str
    barredKeys: list[Id]


class WhoCanPage(TypedDict):
    """A page of keys and people, and on every page those who have a say besides.

    `approvers` are up to 50; their `barredKeys` are among the keys of this page. `approvalsNeeded` is the most that any
    of the actions needs. `trustees` may change the object without the gateway: null for callers without
    `directory.read_acl`, and where the gateway's account may not read access control.
    """

    items: list[WhoCan]
    nextCursor: str | None
    total: int | None
    truncated: bool
    approvers: list[Approver]
    approvalsNeeded: int
    trustees: list[Trustee] | None


class _Action(NamedTuple):
    """An operation on the object: the permissions that it needs here, and the least risk of such a change."""

    operation: Operation
    needs: frozenset[str]
    risk: Risk


def find_who_can(call: Call, *, resource: str, id: UUID, query: WhoCanQuery) -> WhoCanPage:
    """Who can do something to an object, with the gateway or without; raises Forbidden for who may not see people."""
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
    client = client_of(call)
    holders = find_holders(client, call.directory.id)
    reaching = [holder for holder in holders if holder.places is None or is_within_any(entry.dn, holder.places)]
    able = {told["id"]: (holder, told) for holder in reaching if (told := _who_can(holder, actions))["actions"]}
    page = _page(call, query, sorted((told for _, told in able.values()), key=_sort_key), bound_to=str(id))
    changes = [action for action in actions if action.operation.effect is Effect.CHANGE]
    keys = [row for told in page["items"] if isinstance(row := able[told["id"]][0].row, ApiKey)]
    is_protected_change = any("directory.manage_protected" in action.needs for action in changes)
    return {
        **page,
        "approvers": _find_approvers(holders, reaching, keys) if changes else [],
        "approvalsNeeded": 2 if needs_two(ChangeRequest(protected=is_protected_change)) else 1,
        "trustees": find_trustees(client, entry, [action.operation.action for action in changes])
        if call.may("directory.read_acl")
        else None,
    }


def _find_approvers(holders: Sequence[Holder], reaching: Sequence[Holder], keys: Sequence[ApiKey]) -> list[Approver]:
    """The people who may decide a change of the object, with those of some keys whose changes they may not decide."""
    near = {holder.row.pk for holder in reaching if isinstance(holder.row, Person)}
    # People of another directory are no holders here: they decide unless something confines them.
    known = {holder.row.pk for holder in holders if isinstance(holder.row, Person)}
    conflicts = ConflictChecker()
    return [
        {
            "id": str(person.public_id),
            "name": person.username,
            "barredKeys": [str(key.id) for key in find_barred_keys(person, keys, conflicts)],
        }
        for person in active_deciders()[:_MAX_APPROVERS]
        if person.pk in near or (person.pk not in known and not is_confined(person))
    ]


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
    client, kind = client_of(call), kind_of_entry(entry)
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
