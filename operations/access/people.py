"""People: local accounts are created here, people of a directory at their first sign-in or, prepared, before it."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Lower
from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from active_directory import Equals
from core.call import Call
from core.database import own_rows
from core.database.own_rows import with_version
from core.errors import Conflict, Forbidden, invalid_member
from core.operation import administration, rest_operation
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, Flag, Guid, Id, Moment, PartialUpdate, as_record, example, render_timestamp
from core.text.messages import message
from core.text.names import require_label
from directory.models import DirectoryConnection
from keys.models import Person, SecondFactor
from keys.models.people import GroupScopes
from keys.people.account_status import departure_reason, end_all_sessions, revoke_tokens
from keys.people.local_accounts import check_username, save, set_email, set_password
from keys.permission_catalogue import APPS
from keys.permissions.effective import access_of_person, granted_permissions
from keys.permissions.scopes import find_scopes_now, resolve_scopes
from keys.sign_in import invitations, second_factor
from keys.sign_in.credentials import MAX_PASSWORD, accounts_where, find_or_create_person
from keys.sign_in.sessions import sessions_of
from operations.access.permissions import (
    Permissions,
    ScopeRecord,
    Scopes,
    ScopesRecord,
    acts_as_superuser,
    find_granted,
    names_of,
    require_held,
    scope_names,
    scope_records,
)

Username = Annotated[str, Field(min_length=1, max_length=150)]
DisplayName = Annotated[str, Field(max_length=256), AfterValidator(require_label)]
Email = Annotated[str, Field(max_length=254, description="Where notices go; empty for none.")]
Password = Annotated[
    str, Field(min_length=1, max_length=MAX_PASSWORD, description="Without one an active account gets an invitation.")
]
Groups = Annotated[list[str], Field(max_length=200, description="Names of permission groups, all they are in.")]


class SearchPeople(PageQuery):
    """The filters of the list."""

    name: str | None = Field(None, description="A part of the user name or the display name, in any case.")
    active: Flag | None = Field(None, description="Whether they may sign in.")
    signed_in: Flag | None = Field(None, description="Whether they have ever signed in.")


class CreatePerson(Body):
    """A new local account."""

    model_config = example(
        username="grace",
        displayName="Grace Hopper",
        email="grace@example.com",
        permissions=["directory.read_object", "approvals.decide_change"],
        active=True,
    )

    username: Username
    display_name: DisplayName = ""
    email: Email = ""
    password: Password | None = None
    permissions: Permissions = []
    scopes: Scopes = []
    active: bool = True


class UpdatePerson(CreatePerson, PartialUpdate):
    """The members to change; `permissions` replaces those granted to the person directly, `scopes` their own."""

    model_config = example(active=False)

    groups: Groups = []


class PreparePerson(Body):
    """An account of a connected directory, whose person is to be given permissions before they first sign in."""

    model_config = example(
        directory="7d1c4f0e-5b2a-4c3d-8e9f-0a1b2c3d4e5f", account="1f0a7a52-4c5e-4b5e-9d0a-3a7f6f0d2c11"
    )

    directory: Guid = Field(description="The connection.")
    account: Guid = Field(description="The account's objectGUID.")


class PersonRecord(TypedDict):
    """`directory` is null for a local account; `permissions` are those granted directly, not by groups.
    `directoryGroups` are those of `groups` that the person belongs to because of the groups of their account.

    `scopes` are the last known names of what the person is confined to, also through keys and agents, and
    `scopeObjects` are the objects themselves. Groups may confine the person further.
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


class Invitation(TypedDict):
    """`invitationLink` is shown this once; null if it was mailed. It is good once, for 72 hours, until the next one."""

    invitationLink: str | None


class CreatedPerson(PersonRecord, Invitation):
    pass


class GroupScopesRecord(ScopesRecord):
    group: str


class PersonScopesRecord(ScopesRecord):
    """`groups` are those that also confine the person: an object has to be inside one item of each list.

    Scopes do not restrict a superuser.
    """

    groups: list[GroupScopesRecord]


@rest_operation("people.search", "GET users", "Search people", permission="keys.view_person")
def search_people(call: Call, *, query: SearchPeople) -> Page[PersonRecord]:
    """List the people by name."""
    never = None if query.signed_in is None else not query.signed_in
    people = own_rows.filter_optional(_people(), is_active=query.active, last_login__isnull=never)
    people = people.annotate(lower_name=Lower("username"))
    if query.name is not None:
        people = people.filter(own_rows.containing(query.name, "username", "display_name"))
    return page_of(call, people, query=query, order=("lower_name", "id"), render=_record)


@rest_operation("people.read", "GET users/{id}", "Read {a person}", permission="keys.view_person")
def read_person(_: Call, *, id: UUID) -> PersonRecord:
    """Read one person."""
    return _record(find_person(id))


@rest_operation(
    "people.read-scopes", "GET users/{id}/scopes", "Read the scopes of {a person}", permission="keys.view_person"
)
def read_person_scopes(_: Call, *, id: UUID) -> PersonScopesRecord:
    """Read the scopes of a person and of each of their groups, with the names that their objects have now."""
    person = find_person(id)
    if person.is_superuser:
        return {"items": [], "groups": []}
    of_groups = GroupScopes.objects.filter(group__user=person.pk).select_related("group").order_by("group__name")
    return {
        "items": find_scopes_now(person.scopes),
        "groups": [{"group": each.group.name, "items": find_scopes_now(each.scopes)} for each in of_groups],
    }


@administration("people.create", "POST users", "Create {a person}", permission="keys.add_person", creates=True)
def create_person(call: Call, *, body: CreatePerson) -> CreatedPerson:
    """Create a local account with permissions you hold yourself; an active one without a password is invited."""
    permissions = find_granted(call, body.permissions, only_grantable=False)
    person = Person(
        username=Person.normalize_username(body.username),
        display_name=body.display_name,
        is_active=body.active,
        scopes=resolve_scopes(body.scopes),
    )
    check_username(person)
    set_email(person, body.email)
    if body.password is not None:
        set_password(person, body.password)
    else:
        person.set_unusable_password()
    save(person)
    person.user_permissions.set(permissions)
    link = invitations.invite(call.person, person) if person.is_active and body.password is None else None
    return {**_record(find_person(person.public_id)), "invitationLink": link}


@administration(
    "people.prepare",
    "POST users/prepare",
    "Prepare {a person} before their first sign-in",
    permission="keys.add_person",
    creates=True,
)
def prepare_person(call: Call, *, body: PreparePerson) -> PersonRecord:
    """Enter somebody of a directory before they first sign in. They have no password here, only what you give them.

    Needs `directory.read_object` too, since the answer names the account.
    """
    require_held(call, frozenset({"directory.read_object"}))
    connection = DirectoryConnection.objects.filter(pk=body.directory, enabled=True).first()
    if connection is None:
        raise invalid_member("directory", message("there is no such directory"))
    found = accounts_where(connection, Equals("objectGUID", body.account.bytes_le))
    if not found:
        raise invalid_member("account", message("there is no such account of a person in the directory"))
    if Person.objects.filter(connection=connection, object_guid=body.account).exists():
        raise Conflict(message("This person has been added already."))
    if reason := departure_reason(found[0].client, found[0].entry):
        raise Conflict(reason)
    return _record(find_person(find_or_create_person(found[0]).public_id))


@administration("people.update", "PATCH users/{id}", "Update {a person}", permission="keys.change_person")
def update_person(call: Call, *, id: UUID, body: UpdatePerson) -> PersonRecord:
    """Change a person. Deactivating one ends their sessions, their tokens and all their API keys at once."""
    person = find_person(id)
    _require_not_above(call, person)
    given = body.model_fields_set
    columns = _change(call, person, body)
    permissions = find_granted(call, body.permissions, only_grantable=False) if "permissions" in given else None
    groups = _find_groups(call, body.groups) if "groups" in given else None
    save(person, columns=columns)  # the gateway may deactivate them at the same time, or they set a password
    if permissions is not None:
        others = person.user_permissions.exclude(content_type__app_label__in=APPS)  # Django's own, such as on groups
        person.user_permissions.set([*permissions, *others])
    if groups is not None:
        person.groups.set(groups)
    if not person.is_active:
        end_all_sessions(person.pk)
    elif body.password is not None:  # sessions end by themselves, since Django hashes the password into them
        revoke_tokens(person_id=person.pk)
    return _record(find_person(id))


@administration("people.invite", "POST users/{id}/invite", "Invite {a person}", permission="keys.change_person")
def invite_person(call: Call, *, id: UUID) -> Invitation:
    """Have somebody choose how they sign in: their password ends at once, and a link lets them set another one."""
    person = find_person(id)
    _require_not_above(call, person)
    return {"invitationLink": invitations.invite(call.person, person)}


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
)
def list_user_sessions(call: Call, *, id: UUID, query: PageQuery) -> Page[ForeignSessionRecord]:
    """List where a person is signed in, the most recently used first."""
    person = find_person(id)
    _require_not_above(call, person)
    living, render = sessions_of(person.pk), partial(as_record, ForeignSessionRecord)
    return page_of(call, living, query=query, order=("-last_seen_at", "id"), render=render, bound_to=f"of {id}")


@administration(
    *("people.end-sessions", "POST users/{id}/end-sessions", "End the sessions of {a person}"),
    permission="keys.change_person",
)
def end_user_sessions(call: Call, *, id: UUID) -> None:
    """Sign somebody out everywhere: all of their sessions and access tokens end. They can sign in again."""
    person = find_person(id)
    _require_not_above(call, person)
    person.session_epoch += 1
    person.save(update_fields=["session_epoch"])
    end_all_sessions(person.pk)


def _change(call: Call, person: Person, body: UpdatePerson) -> set[str]:
    """Set the given members of a person that are columns of its own; return the columns."""
    given = body.model_fields_set
    columns = given & {"username", "display_name", "email", "scopes"}
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
        person.left_directory_at = None  # an administrator has decided, so a sign-in must not reactivate them
        columns |= {"is_active", "left_directory_at"}
    if body.password is not None:
        set_password(person, body.password)
        columns.add("password")
    if "scopes" in given:
        _confine(call, person, body.scopes)
    return columns


def _confine(call: Call, person: Person, scopes: Sequence[str]) -> None:
    """Set or clear a person's scopes; raises Conflict for superusers, and for the caller, who could lift their own."""
    if person.is_superuser and scopes:
        raise Conflict(message("A superuser cannot be restricted to scopes."))
    if person.pk == call.person.id:
        raise Conflict(message("Nobody can confine themselves, or lift what confines them."))
    person.scopes = resolve_scopes(scopes)


def _find_groups(call: Call, names: Sequence[str]) -> list[Group]:
    """The groups with these names; raises InvalidRequest for an unknown one, Forbidden unless a superuser calls.

    Members also get what the group is granted later, so it is not enough that the caller holds what it grants now.
    """
    if not acts_as_superuser(call):
        raise Forbidden
    found = {group.name: group for group in Group.objects.filter(name__in=names)}
    for index, name in enumerate(names):
        if name not in found:
            raise invalid_member(f"groups/{index}", message("There is no such permission group."))
    return list(found.values())


def _people() -> QuerySet[Person]:
    confirmed = SecondFactor.objects.filter(person=OuterRef("pk"), confirmed_at__isnull=False)
    people = Person.objects.annotate(has_second_factor=Exists(confirmed)).select_related("connection")
    return people.prefetch_related("user_permissions__content_type", "groups", "directory_memberships__group")


def find_person(id: UUID) -> Person:
    """The person with related rows; raises NotFound."""
    return own_rows.find(_people(), public_id=id)


def _require_not_above(call: Call, person: Person) -> None:
    """Raise Forbidden for a person with rights that the caller lacks: whoever sets their password can act as them."""
    if person.pk == call.person.id:
        return
    if not granted_permissions(person) <= call.permissions or (person.is_superuser and not acts_as_superuser(call)):
        raise Forbidden


def _record(person: Any) -> PersonRecord:
    record = as_record(
        PersonRecord,
        person,
        id=str(person.public_id),
        version="",
        directory=person.connection.name if person.connection else None,
        active=person.is_active,
        superuser=person.is_superuser,
        secondFactor=person.has_second_factor,
        permissions=names_of(person.user_permissions.all()),
        groups=sorted(group.name for group in person.groups.all()),
        directoryGroups=sorted(item.group.name for item in person.directory_memberships.all()),
        scopes=scope_names(person.scopes),
        scopeObjects=scope_records(person.scopes),
        createdAt=render_timestamp(person.date_joined),
        lastSignInAt=render_timestamp(person.last_login),
    )
    return with_version(record, ignoring=("lastSignInAt",))


class PersonPermission(TypedDict):
    """`groups` are those that grant it. A superuser holds all permissions, even ones that were never granted."""

    name: str
    direct: bool
    groups: list[str]


class PersonPermissionsRecord(TypedDict):
    permissions: list[PersonPermission]


@rest_operation(
    "people.read-effective-permissions",
    "GET users/{id}/permissions",
    "Read the effective permissions of {a person}",
    permission="keys.view_person",
)
def read_person_permissions(_: Call, *, id: UUID) -> PersonPermissionsRecord:
    """Read what a person may do now, and whether it was granted directly or by groups."""
    person = find_person(id)
    direct = names_of(person.user_permissions.select_related("content_type"))
    by_group = {
        group.name: names_of(group.permissions.select_related("content_type"))
        for group in person.groups.order_by("name")
    }
    return {
        "permissions": [
            {
                "name": name,
                "direct": name in direct,
                "groups": [group for group, names in by_group.items() if name in names],
            }
            for name in sorted(access_of_person(person).permissions)
        ]
    }
