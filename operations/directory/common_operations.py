"""The operations that all resources of directory objects have: search, read, create, update, delete, move, rename and
who-can.

Each resource's module declares them for itself, and adds its own.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from core.call import Call, Surface
from core.operation import NO_INVERSE, Effect, RateCategory, Risk, Target, operation
from core.paging import Page
from core.text.messages import message
from directory.changes.create import propose_create
from directory.changes.tree import propose_delete, propose_move, propose_rename
from directory.changes.update import propose_enabled, propose_unlock, propose_update
from directory.lookup.access import Reference, parse_reference
from directory.queries.managers import ReadUser, SearchUsers, UserByDn, read_with_manager, with_managers
from directory.queries.member_lists import MembershipQuery, list_groups
from directory.queries.reading import find_by_identifier, read_record, reference_of_name
from directory.queries.searches.conditions import everyday_conditions
from directory.queries.searches.definitions import SEARCHES, SearchQuery
from directory.queries.searches.search import run_search
from directory.shapes.inputs import (
    ByDnQuery,
    CreateNamed,
    CreateObject,
    DeleteQuery,
    MoveObject,
    ReadQuery,
    RenameObject,
    RequestedUpdates,
    UpdateAccount,
    UpdateGroup,
    UpdateObject,
)
from directory.shapes.kinds import RESOURCES, Kind
from directory.shapes.proposal import Proposal
from directory.shapes.record import DirectoryObject
from operations.directory.rights.who_can import WhoCanPage, WhoCanQuery, find_who_can

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
    """Declare the operations that every kind has, for a resource of `RESOURCES`, and those of accounts if it has one.

    `create` and `update` are the shapes of the bodies. `documentation` replaces the generated documentation of an
    action. `batchable` concerns create, update and delete.
    """
    declared = RESOURCES[resource]
    path = f"ad/{resource}"
    which = "" if len(declared.kinds) == 1 else " of any class"
    one, many, singular = (words + which for words in (declared.one, declared.many, declared.singular))
    object, is_user = declared.one, declared.kind is Kind.USER

    def declare_as(action: str, route: str, label: str, words: str, **options: Any) -> Callable[[F], F]:
        return _declare_as(f"{resource}.{action}", route, label, documentation.get(action, words), **options)

    @declare_as(
        "search",
        f"GET {path}",
        message("Search {objects}", objects=declared.many),
        f"Search {many} by text, filter and place.",
        permission="directory.read_object",
        rate=RateCategory.DIRECTORY_SEARCH,
        query=type(
            "SearchQuery", (SearchUsers if is_user else SearchQuery,), {"documented": everyday_conditions(declared)}
        ),
    )
    def search(call: Call, *, query: SearchQuery) -> Page[DirectoryObject]:
        is_expanded = isinstance(query, SearchUsers) and query.expand is not None
        return run_search(call, with_managers(call, SEARCHES[resource]) if is_expanded else SEARCHES[resource], query)

    def read_one(call: Call, reference: Reference, query: ReadQuery) -> DirectoryObject:
        if isinstance(query, ReadUser) and query.expand is not None:
            return read_with_manager(call, reference, kinds=declared.kinds, attributes=query.attributes)
        # A single answer of /api is sent as it is, and nothing else looks into it.
        encode = call.surface is Surface.API
        return read_record(call, reference, kinds=declared.kinds, attributes=query.attributes, encode=encode)

    @declare_as(
        "read-by-dn",
        f"GET {path}/by-dn",
        message("Read {{{object}}} by distinguished name", object=object),
        f"Look up one {singular} by distinguished name.",
        permission="directory.read_object",
        rate=RateCategory.DIRECTORY_SEARCH,
        query=UserByDn if is_user else ByDnQuery,
    )
    def read_by_dn(call: Call, *, query: ByDnQuery) -> DirectoryObject:
        return read_one(call, reference_of_name(query.dn), query)

    if declared.has_account or declared.kind in (Kind.GROUP, Kind.OBJECT):

        @declare_as(
            "read-by",
            f"GET {path}/by/{{identifier}}/{{value}}",
            message("Read {{{object}}} by another identifier", object=object),
            f"Look up one {singular} by `samAccountName`, `userPrincipalName`, `sid` or `employeeID`.",
            permission="directory.read_object",
            rate=RateCategory.DIRECTORY_SEARCH,
            query=ReadUser if is_user else ReadQuery,
        )
        def read_by(call: Call, *, identifier: str, value: str, query: ReadQuery) -> DirectoryObject:
            return read_one(call, find_by_identifier(call, resource, identifier, value), query)

    @declare_as(
        "read",
        f"GET {path}/{{id}}",
        message("Read {{{object}}}", object=object),
        f"Read one {singular}.",
        permission="directory.read_object",
        query=ReadUser if is_user else ReadQuery,
    )
    def read(call: Call, *, id: UUID, query: ReadQuery) -> DirectoryObject:
        return read_one(call, id, query)

    @declare_as(
        "create",
        f"POST {path}",
        message("Create {{{object}}}", object=object),
        f"Create {one}.",
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

    @declare_as(
        "update",
        f"PATCH {path}/{{id}}",
        message("Update {{{object}}}", object=object),
        f"Update attributes of {one}, all in one atomic change.",
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

    @declare_as(
        "delete",
        f"DELETE {path}/{{id}}",
        message("Delete {{{object}}}", object=object),
        f"Delete {one}.",
        permission=declared.permissions("delete"),
        effect=Effect.CHANGE,
        target=Target.SUBTREE,
        inverse="restore",
        risk=Risk.DESTRUCTIVE,
        batchable=batchable,
    )
    def delete(call: Call, *, id: UUID, query: DeleteQuery) -> Proposal:
        return propose_delete(call, resource=resource, id=id, recursive=query.recursive)

    @declare_as(
        "move",
        f"POST {path}/{{id}}/move",
        message("Move {{{object}}}", object=object),
        f"Move {one} to another parent.",
        permission="directory.move_object",
        effect=Effect.CHANGE,
        target=Target.SUBTREE,
        inverse="move",
        risk=move_risk,
        output=DirectoryObject,
    )
    def move(call: Call, *, id: UUID, body: MoveObject) -> Proposal:
        return propose_move(call, resource=resource, id=id, parent=parse_reference(body.parent, pointer="#/parent"))

    @declare_as(
        "rename",
        f"POST {path}/{{id}}/rename",
        message("Rename {{{object}}}", object=object),
        f"Give {one} another name.",
        permission=declared.permissions("update"),
        effect=Effect.CHANGE,
        target=Target.SUBTREE,
        inverse="rename",
        output=DirectoryObject,
    )
    def rename(call: Call, *, id: UUID, body: RenameObject) -> Proposal:
        return propose_rename(call, resource=resource, id=id, name=body.name)

    @declare_as(
        "who-can",
        f"GET {path}/{{id}}/who-can",
        message("List who can change {{{object}}}", object=object),
        """List the keys and people who can do something to this object, who approves that, and who needs no gateway.

        Also needs `directory.read_object` and `keys.view_person`, and for those whom the directory itself lets do it
        `directory.read_acl`. The answer ignores a key's allowed addresses, and permissions that only some values of a
        change need.
        """,
        permission="keys.view_apikey",
        rate=RateCategory.DIRECTORY_SEARCH,
        surfaces=frozenset({Surface.REST}),
    )
    def list_who_can(call: Call, *, id: UUID, query: WhoCanQuery) -> WhoCanPage:
        return find_who_can(call, resource=resource, id=id, query=query)

    if declared.has_account:
        _declare_account_operations(resource)


def _declare_account_operations(resource: str) -> None:
    """Declare the operations that accounts have besides: enable, disable, unlock, list groups."""
    path, one = f"ad/{resource}/{{id}}", RESOURCES[resource].one

    def declare_switch(action: str, label: str, inverse: str, risk: Risk) -> None:
        @_declare_as(
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

    @_declare_as(
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
        return propose_unlock(call, resource=resource, id=id)

    @_declare_as(
        f"{resource}.list-groups",
        f"GET {path}/groups",
        message("List the groups of {{{object}}}", object=one),
        f"List the groups {one} belongs to, the primary group included.",
        permission="directory.read_object",
    )
    def list_groups_of(call: Call, *, id: UUID, query: MembershipQuery) -> Page[DirectoryObject]:
        return list_groups(call, resource=resource, id=id, query=query)


def _declare_as(
    name: str, route: str, label: str, documentation: str, *, target: Target = Target.OBJECT, **options: Any
) -> Callable[[F], F]:
    """Declare a function with generated documentation as an operation on an object."""

    def declare(function: F) -> F:
        function.__doc__ = documentation
        return operation(name, route, label, target=target, **options)(function)

    return declare
