"""People who may sign in: local accounts are made here, the people of a directory come by signing in."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Lower
from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict

from core.call import Call
from core.database import own_rows
from core.errors import Conflict, Forbidden, invalid_member
from core.operation import administration, rest_operation
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, Changes, Flag, Id, Moment, render_timestamp
from core.text.messages import message
from core.text.names import require_label
from core.versions import with_version
from keys.models import Person, SecondFactor
from keys.models.groups import GroupScopes
from keys.people.local_accounts import check_username, save, set_email, set_password
from keys.people.revocation import end_all
from keys.permission_catalogue import APPS
from keys.permissions.effective import permissions_of_person
from keys.permissions.scopes import look_up
from keys.sign_in import second_factor
from keys.sign_in.credentials import MAX_PASSWORD
from keys.sign_in.sessions import revoke_tokens, sessions_of
from operations.access.effective_permissions import PersonPermissionsRecord, permissions_of
from operations.access.granting import (
    Permissions,
    ScopeRecord,
    Scopes,
    ScopesRecord,
    acts_as_superuser,
    find_granted,
    names_of,
    resolve_scopes,
    scope_names,
    scope_records,
)

Username = Annotated[str, Field(min_length=1, max_length=150)]
DisplayName = Annotated[str, Field(max_length=256), AfterValidator(require_label)]
Email = Annotated[str, Field(max_length=254, description="Where notices go; empty for none.")]
Password = Annotated[str, Field(min_length=1, max_length=MAX_PASSWORD)]
Groups = Annotated[list[str], Field(max_length=200, description="Names of groups of permissions, all they are in.")]


class SearchPeople(PageQuery):
    """The filters of the list."""

    name: Annotated[str | None, Field(description="A part of the user name or the display name, in any case.")] = None
    active: Annotated[Flag | None, Field(description="Whether they may sign in.")] = None


class CreatePerson(Body):
    """A new local account."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "username": "grace",
                    "displayName": "Grace Hopper",
                    "email": "grace@example.com",
                    "password": "a long and unusual phrase",
                    "permissions": ["directory.read_object", "approvals.decide_change"],
                    "active": True,
                }
            ]
        }
    )

    username: Username
    display_name: DisplayName = ""
    email: Email = ""
    password: Password
    permissions: Permissions = Field(default_factory=list)
    scopes: Scopes = Field(default_factory=list)
    active: bool = True


class UpdatePerson(CreatePerson, Changes):
    """What is to be different; `permissions` replaces the ones given to the person directly, `scopes` their own."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"active": False}]})

    groups: Groups = Field(default_factory=list)


class PersonRecord(TypedDict):
    """`directory` is null for a local account; `permissions` are those given directly, not by groups. Into those of
    `groups` that are `directoryGroups`, too, the groups of their account have put them.

    `scopes` are the names last known of what the person is confined to, whatever they do and by whatever key or agent;
    `scopeObjects` what these are, whatever it is called now. Their groups may confine them besides.
    """

    id: Id
    version: str
    username: str
    displayName: str
    email: str
    directory: str | None
    active: bool
    superuser: bool
    secondFactor: bool
    permissions: list[str]
    groups: list[str]
    directoryGroups: list[str]
    scopes: list[str]
    scopeObjects: list[ScopeRecord]
    createdAt: Moment | None
    lastSignInAt: Moment | None


class GroupScopesRecord(ScopesRecord):
    group: str


class PersonScopesRecord(ScopesRecord):
    """`groups` are those that confine the person besides: whatever they touch has to be inside one item of each list.

    Scopes do not restrict a superuser.
    """

    groups: list[GroupScopesRecord]


@rest_operation(
    "people.search",
    "GET users",
    "Search people",
    permission="keys.view_person",
    query=SearchPeople,
    output=Page[PersonRecord],
)
def search_people(call: Call, *, query: SearchPeople) -> Page[PersonRecord]:
    """List the people by name."""
    people = _people().annotate(lower_name=Lower("username"))
    if query.name is not None:
        people = people.filter(Q(username__icontains=query.name) | Q(display_name__icontains=query.name))
    if query.active is not None:
        people = people.filter(is_active=query.active)
    return page_of(call, people, query=query, order=("lower_name", "id"), render=_record)


@rest_operation("people.read", "GET users/{id}", "Read {a person}", permission="keys.view_person", output=PersonRecord)
def read_person(_: Call, *, id: UUID) -> PersonRecord:
    """Read one person."""
    return _record(find_person(id))


@rest_operation(
    "people.read-scopes",
    "GET users/{id}/scopes",
    "Read the scopes of {a person}",
    permission="keys.view_person",
    output=PersonScopesRecord,
)
def read_person_scopes(_: Call, *, id: UUID) -> PersonScopesRecord:
    """Read what a person is confined to by its names of now, by themselves and by each of their groups."""
    person = find_person(id)
    if person.is_superuser:
        return {"items": [], "groups": []}
    of_groups = GroupScopes.objects.filter(group__user=person.pk).select_related("group").order_by("group__name")
    return {
        "items": look_up(person.scopes),
        "groups": [{"group": each.group.name, "items": look_up(each.scopes)} for each in of_groups],
    }


@administration(
    "people.create",
    "POST users",
    "Create {a person}",
    permission="keys.add_person",
    creates=True,
    body=CreatePerson,
    output=PersonRecord,
)
def create_person(call: Call, *, body: CreatePerson) -> PersonRecord:
    """Create a local account with permissions you hold yourself."""
    permissions = find_granted(call, body.permissions, only_grantable=False)
    person = Person(
        username=Person.normalize_username(body.username),
        display_name=body.display_name,
        is_active=body.active,
        scopes=resolve_scopes(body.scopes),
    )
    check_username(person)
    set_email(person, body.email)
    set_password(person, body.password)
    save(person)
    person.user_permissions.set(permissions)
    return _record(find_person(person.public_id))


@administration(
    "people.update",
    "PATCH users/{id}",
    "Update {a person}",
    permission="keys.change_person",
    body=UpdatePerson,
    output=PersonRecord,
)
def update_person(call: Call, *, id: UUID, body: UpdatePerson) -> PersonRecord:
    """Change a person. Deactivating one ends their sessions, their tokens and all their API keys at once."""
    person = find_person(id)
    _require_not_above(call, person)
    given = body.model_fields_set
    _change(call, person, body)
    permissions = find_granted(call, body.permissions, only_grantable=False) if "permissions" in given else None
    groups = _find_groups(call, body.groups) if "groups" in given else None
    save(person)
    if permissions is not None:
        others = person.user_permissions.exclude(content_type__app_label__in=APPS)  # Django's own, such as on groups
        person.user_permissions.set([*permissions, *others])
    if groups is not None:
        person.groups.set(groups)
    if not person.is_active:
        end_all(person.pk)
    elif "password" in given:
        revoke_tokens(person)
    return _record(find_person(id))


@administration("people.delete", "DELETE users/{id}", "Delete {a person}", permission="keys.delete_person")
def delete_person(call: Call, *, id: UUID) -> None:
    """Delete a person who owns no API key. Deactivating keeps their name for the log's readers."""
    person = find_person(id)
    _require_not_above(call, person)
    if person.pk == call.person.id:
        raise Conflict(message("Nobody can delete themselves."))
    own_rows.delete(person, used=message("The person owns API keys."))


@administration(
    "people.reset-second-factor",
    "POST users/{id}/reset-second-factor",
    "Reset the second factor of {a person}",
    permission="keys.change_person",
)
def reset_second_factor(call: Call, *, id: UUID) -> None:
    """Turn somebody's second factor off, say because their telephone is lost. Your own is removed with a code."""
    person = find_person(id)
    _require_not_above(call, person)
    second_factor.reset(person, by=call.person)


class ForeignSessionRecord(TypedDict):
    """Where somebody is signed in: `address` and `userAgent` are those last seen."""

    id: Id
    startedAt: Moment | None
    lastSeenAt: Moment | None
    address: str
    userAgent: str


@rest_operation(
    "people.list-sessions",
    "GET users/{id}/sessions",
    "List the sessions of {a person}",
    permission="keys.change_person",
    query=PageQuery,
    output=Page[ForeignSessionRecord],
)
def list_user_sessions(call: Call, *, id: UUID, query: PageQuery) -> Page[ForeignSessionRecord]:
    """List where a person is signed in, the most recently used first."""
    person = find_person(id)
    _require_not_above(call, person)

    def render(session: Any) -> ForeignSessionRecord:
        return {
            "id": str(session.id),
            "startedAt": render_timestamp(session.started_at),
            "lastSeenAt": render_timestamp(session.last_seen_at),
            "address": session.address,
            "userAgent": session.user_agent,
        }

    living = sessions_of(person.pk)
    return page_of(call, living, query=query, order=("-last_seen_at", "id"), render=render, bound_to=f"of {id}")


@administration(
    "people.end-sessions",
    "POST users/{id}/end-sessions",
    "End the sessions of {a person}",
    permission="keys.change_person",
)
def end_user_sessions(call: Call, *, id: UUID) -> None:
    """Sign somebody out everywhere: all of their sessions and access tokens end. They can sign in again."""
    person = find_person(id)
    _require_not_above(call, person)
    person.session_epoch += 1
    person.save(update_fields=["session_epoch"])
    end_all(person.pk)


def _change(call: Call, person: Person, body: UpdatePerson) -> None:
    """Give a person the values that a body names, all but what is in tables of its own."""
    given = body.model_fields_set
    for member in ("username", "password"):
        if member in given and not person.is_local:
            raise invalid_member(member, message("is the directory's to change"))
    if "username" in given:
        person.username = Person.normalize_username(body.username)
        check_username(person)
    if "display_name" in given:
        person.display_name = body.display_name
    if "email" in given:
        set_email(person, body.email)
    if "active" in given:
        if person.pk == call.person.id and not body.active:
            raise Conflict(message("Nobody can deactivate themselves."))
        person.is_active = body.active
        person.left_directory_at = None  # an administrator has decided: signing in does not take it back
    if "password" in given:
        set_password(person, body.password)
    if "scopes" in given:
        _confine(call, person, body.scopes)


def _confine(call: Call, person: Person, scopes: Sequence[str]) -> None:
    """Confine a person to these, or to nothing; raises Conflict where it would not hold or could not be undone."""
    if person.is_superuser and scopes:
        raise Conflict(message("A superuser cannot be restricted to scopes."))
    if person.pk == call.person.id:
        raise Conflict(message("Nobody can confine themselves, or lift what confines them."))
    person.scopes = resolve_scopes(scopes)


def _find_groups(call: Call, names: Sequence[str]) -> list[Group]:
    """The groups of these names; raises InvalidRequest for an unknown one, Forbidden for who is no superuser.

    Whoever joins a group gets what it is given later, too: so it is not enough to hold what it gives now.
    """
    if not acts_as_superuser(call):
        raise Forbidden
    found = {group.name: group for group in Group.objects.filter(name__in=names)}
    for index, name in enumerate(names):
        if name not in found:
            raise invalid_member(f"groups/{index}", message("There is no such group of permissions."))
    return list(found.values())


def _people() -> QuerySet[Person]:
    confirmed = SecondFactor.objects.filter(person=OuterRef("pk"), confirmed_at__isnull=False)
    people = Person.objects.annotate(has_second_factor=Exists(confirmed)).select_related("connection")
    return people.prefetch_related("user_permissions__content_type", "groups", "directory_memberships__group")


def find_person(id: UUID) -> Person:
    """A person with what is shown of them; raises NotFound."""
    return own_rows.find(_people(), public_id=id)


def _require_not_above(call: Call, person: Person) -> None:
    """Whoever sets somebody's password can be them: so only people with nothing that the caller does not hold."""
    if person.pk == call.person.id:
        return
    held = permissions_of_person(person.pk, is_active=True, is_superuser=person.is_superuser)
    if not held <= call.permissions or (person.is_superuser and not acts_as_superuser(call)):
        raise Forbidden


def _record(person: Any) -> PersonRecord:
    record: PersonRecord = {
        "id": str(person.public_id),
        "version": "",
        "username": person.username,
        "displayName": person.display_name,
        "email": person.email,
        "directory": person.connection.name if person.connection else None,
        "active": person.is_active,
        "superuser": person.is_superuser,
        "secondFactor": person.has_second_factor,
        "permissions": names_of(person.user_permissions.all()),
        "groups": sorted(group.name for group in person.groups.all()),
        "directoryGroups": sorted(item.group.name for item in person.directory_memberships.all()),
        "scopes": scope_names(person.scopes),
        "scopeObjects": scope_records(person.scopes),
        "createdAt": render_timestamp(person.date_joined),
        "lastSignInAt": render_timestamp(person.last_login),
    }
    return with_version(record, passing=("lastSignInAt",))


@rest_operation(
    "people.read-effective-permissions",
    "GET users/{id}/permissions",
    "Read the effective permissions of {a person}",
    permission="keys.view_person",
    output=PersonPermissionsRecord,
)
def read_person_permissions(_: Call, *, id: UUID) -> PersonPermissionsRecord:
    """Read what a person may do now, and which of it they were given themselves or by groups."""
    return permissions_of(find_person(id))
