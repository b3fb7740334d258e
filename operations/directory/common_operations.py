"""What all resources of directory objects have: find, read, create, update, delete, move, rename, and who can do which.

Each resource's module declares them for it, and adds those that only it has.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from core.call import Call, Surface
from core.operation import NO_INVERSE, Effect, RateCategory, Risk, Target, operation
from core.paging import Page
from core.text.messages import message
from directory.changes.accounts import propose_enabled, propose_unlocked
from directory.changes.create import propose_create
from directory.changes.delete import propose_delete
from directory.changes.move import propose_move, propose_rename
from directory.changes.update import propose_update
from directory.lookup.access import parse_reference
from directory.queries.member_lists import MembershipQuery, list_groups
from directory.queries.reading import read_by_name, read_record
from directory.queries.searches.definitions import SEARCHES
from directory.queries.searches.search import SearchQuery, run_search
from directory.shapes.attribute_updates import RequestedUpdates
from directory.shapes.inputs import (
    ByDnQuery,
    CreateNamed,
    CreateObject,
    DeleteQuery,
    MoveObject,
    ReadQuery,
    RenameObject,
    UpdateAccount,
    UpdateGroup,
    UpdateObject,
)
from directory.shapes.kinds import RESOURCES
from directory.shapes.proposal import Proposal
from directory.shapes.record import DirectoryObject
from operations.directory.rights.who_can import WhoCan, WhoCanQuery, find_who_can

F = TypeVar("F", bound=Callable[..., Any])


def declare_ordinary_operations(
    resource: str,
    *,
    create: type[CreateNamed],
    update: type[RequestedUpdates],
    documentation: Mapping[str, str] = MappingProxyType({}),
    move_risk: Risk = Risk.ORDINARY,
    batchable: bool = True,
) -> None:
    """Declare them for a resource of `RESOURCES`.

    `create` and `update` are the shapes of those bodies. `documentation` has what users read of an operation, by its
    action, where the kind's words alone do not say it. `batchable` ones are create, update and delete.
    """
    declared = RESOURCES[resource]
    path = f"ad/{resource}"
    which = "" if len(declared.kinds) == 1 else " of any class"
    one, many, singular = (words + which for words in (declared.one, declared.many, declared.singular))
    object = declared.one
    labels = {
        "search": message("Search {objects}", objects=declared.many),
        "read-by-dn": message("Read {{{object}}} by distinguished name", object=object),
        "read": message("Read {{{object}}}", object=object),
        "create": message("Create {{{object}}}", object=object),
        "update": message("Update {{{object}}}", object=object),
        "delete": message("Delete {{{object}}}", object=object),
        "move": message("Move {{{object}}}", object=object),
        "rename": message("Rename {{{object}}}", object=object),
        "who-can": message("List who can change {{{object}}}", object=object),
    }
    words = {
        "search": f"Search {many} by text, filter and place.",
        "read-by-dn": f"Look up one {singular} by distinguished name.",
        "read": f"Read one {singular}.",
        "create": f"Create {one}.",
        "update": f"Update attributes of {one}, all in one atomic change.",
        "delete": f"Delete {one}.",
        "move": f"Move {one} to another parent.",
        "rename": f"Give {one} another name.",
        "who-can": """List the keys and people who can do something to this object, what, and whether it would be held.

        Needs `directory.read_object` and `keys.view_person` besides. A key's allowed addresses are not considered, nor
        what single values of a change ask for besides.
        """,
        **documentation,
    }

    def declared_as(action: str, route: str, **options: Any) -> Callable[[F], F]:
        return _declared_as(f"{resource}.{action}", route, labels[action], words[action], **options)

    @declared_as(
        "search",
        f"GET {path}",
        permission="directory.read_object",
        rate=RateCategory.DIRECTORY_SEARCH,
        query=SearchQuery,
        output=Page[DirectoryObject],
    )
    def search(call: Call, *, query: SearchQuery) -> Page[DirectoryObject]:
        return run_search(call, SEARCHES[resource], query)

    @declared_as(
        "read-by-dn",
        f"GET {path}/by-dn",
        permission="directory.read_object",
        rate=RateCategory.DIRECTORY_SEARCH,
        query=ByDnQuery,
        output=DirectoryObject,
    )
    def read_by_dn(call: Call, *, query: ByDnQuery) -> DirectoryObject:
        return read_by_name(call, query.dn, kinds=declared.kinds, attributes=query.attributes)

    @declared_as(
        "read",
        f"GET {path}/{{id}}",
        permission="directory.read_object",
        query=ReadQuery,
        output=DirectoryObject,
    )
    def read(call: Call, *, id: UUID, query: ReadQuery) -> DirectoryObject:
        return read_record(call, id, kinds=declared.kinds, attributes=query.attributes)

    @declared_as(
        "create",
        f"POST {path}",
        permission=declared.permissions("create"),
        effect=Effect.CHANGE,
        inverse="delete",
        creates=True,
        body=create,
        output=DirectoryObject,
        batchable=batchable,
    )
    def create_one(call: Call, *, body: CreateNamed) -> Proposal:
        object_class = body.object_class if isinstance(body, CreateObject) else str(declared.object_class)
        return propose_create(call, object_class=object_class, body=body)

    @declared_as(
        "update",
        f"PATCH {path}/{{id}}",
        permission=declared.permissions("update"),
        effect=Effect.CHANGE,
        inverse="update",
        body=update,
        output=DirectoryObject,
        batchable=batchable,
    )
    def update_one(call: Call, *, id: UUID, body: RequestedUpdates) -> Proposal:
        return propose_update(
            call,
            resource=resource,
            id=id,
            updates=body,
            account=body.account if isinstance(body, UpdateAccount | UpdateObject) else None,
            group=body.group if isinstance(body, UpdateGroup | UpdateObject) else None,
        )

    @declared_as(
        "delete",
        f"DELETE {path}/{{id}}",
        permission=declared.permissions("delete"),
        effect=Effect.CHANGE,
        target=Target.SUBTREE,
        inverse="restore",
        risk=Risk.DESTRUCTIVE,
        query=DeleteQuery,
        batchable=batchable,
    )
    def delete(call: Call, *, id: UUID, query: DeleteQuery) -> Proposal:
        return propose_delete(call, resource=resource, id=id, recursive=query.recursive)

    @declared_as(
        "move",
        f"POST {path}/{{id}}/move",
        permission="directory.move_object",
        effect=Effect.CHANGE,
        target=Target.SUBTREE,
        inverse="move",
        risk=move_risk,
        body=MoveObject,
        output=DirectoryObject,
    )
    def move(call: Call, *, id: UUID, body: MoveObject) -> Proposal:
        return propose_move(call, resource=resource, id=id, parent=parse_reference(body.parent, pointer="#/parent"))

    @declared_as(
        "rename",
        f"POST {path}/{{id}}/rename",
        permission=declared.permissions("update"),
        effect=Effect.CHANGE,
        target=Target.SUBTREE,
        inverse="rename",
        body=RenameObject,
        output=DirectoryObject,
    )
    def rename(call: Call, *, id: UUID, body: RenameObject) -> Proposal:
        return propose_rename(call, resource=resource, id=id, name=body.name)

    @declared_as(
        "who-can",
        f"GET {path}/{{id}}/who-can",
        permission="keys.view_apikey",
        rate=RateCategory.DIRECTORY_SEARCH,
        query=WhoCanQuery,
        output=Page[WhoCan],
        surfaces=frozenset({Surface.REST}),
    )
    def list_who_can(call: Call, *, id: UUID, query: WhoCanQuery) -> Page[WhoCan]:
        return find_who_can(call, resource=resource, id=id, query=query)


def declare_account_operations(resource: str) -> None:
    """Declare what is done with accounts alone, for a resource of `RESOURCES`: enable, disable, unlock, list groups."""
    path, one = f"ad/{resource}/{{id}}", RESOURCES[resource].one

    def declare_switch(action: str, label: str, inverse: str, risk: Risk) -> None:
        @_declared_as(
            f"{resource}.{action}",
            f"POST {path}/{action}",
            label,
            f"{action.capitalize()} {one}'s account.",
            permission=f"directory.{action}_account",
            effect=Effect.CHANGE,
            inverse=inverse,
            risk=risk,
            output=DirectoryObject,
        )
        def switch(call: Call, *, id: UUID) -> Proposal:
            return propose_enabled(call, resource=resource, id=id, enabled=action == "enable")

    declare_switch("enable", message("Enable {{{object}}}", object=one), "disable", Risk.SECURITY)
    declare_switch("disable", message("Disable {{{object}}}", object=one), "enable", Risk.DESTRUCTIVE)

    @_declared_as(
        f"{resource}.unlock",
        f"POST {path}/unlock",
        message("Unlock {{{object}}}", object=one),
        f"Unlock {one}'s account after too many wrong passwords.",
        permission="directory.unlock_account",
        effect=Effect.CHANGE,
        inverse=NO_INVERSE,
        output=DirectoryObject,
    )
    def unlock(call: Call, *, id: UUID) -> Proposal:
        return propose_unlocked(call, resource=resource, id=id)

    @_declared_as(
        f"{resource}.list-groups",
        f"GET {path}/groups",
        message("List the groups of {{{object}}}", object=one),
        f"List the groups {one} belongs to, the primary group included.",
        permission="directory.read_object",
        query=MembershipQuery,
        output=Page[DirectoryObject],
    )
    def list_groups_of(call: Call, *, id: UUID, query: MembershipQuery) -> Page[DirectoryObject]:
        return list_groups(call, resource=resource, id=id, query=query)


def _declared_as(
    name: str, route: str, label: str, documentation: str, *, target: Target = Target.OBJECT, **options: Any
) -> Callable[[F], F]:
    """Declare a function, whose documentation is put together, as an operation on an object."""

    def declare(function: F) -> F:
        function.__doc__ = documentation
        return operation(name, route, label, target=target, **options)(function)

    return declare
