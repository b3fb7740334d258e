"""How the operations log describes people, groups, roles, API keys and agents, and which changes widen access."""

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any, cast

from django.contrib.auth.models import Group, Permission
from django.db.models import QuerySet

from audit.model_changes.descriptions import Facts, Secret, audited_model, columns_of
from core.shapes import render_timestamp
from core.text.messages import message
from keys.agents.grants import is_freer
from keys.models import ApiKey, CalendarAddress, Person, Role, SecondFactor
from keys.models.agents import AgentClient, AgentGrant
from keys.models.api_keys import BUDGETS
from keys.models.people import DirectoryGroup, kept_scopes
from keys.permission_catalogue import with_full_names
from keys.permissions.effective import granted_permissions
from keys.permissions.scopes import StoredScopes, is_within, stored_scopes_of_person

Access = Mapping[str, Any]
"""What a row gives access to, as described below; None if the row did not exist."""
_NO_ACCESS: Access = {
    "active": True,
    "superuser": False,
    "back_office": False,
    "permissions": (),
    "groups": (),
    "scopes": (),
}


def key_access_widened(before: Access | None, after: Access) -> list[str]:
    """What a key may do after a change but not before, in words."""
    if after["revoked"]:
        return []
    if before is None:
        return [message("a new key may act as its owner")]
    end, more = after["expires_at"], _added("permissions", before, after)
    is_longer = before["expires_at"] is not None and (end is None or end > before["expires_at"])
    return _applicable(
        (more, message("the key's role permits more: {permissions}", permissions=", ".join(more))),
        (_reaches_everything(before, after), message("the key's role reaches everything")),
        (_reaches_further(before, after), message("the key's role reaches further parts of the directory")),
        (before["owner"] != after["owner"], message("the key acts as somebody else")),
        (after["passwords"] > before["passwords"], message("generated passwords go to the key's owner")),
        (after["aggregates"] > before["aggregates"], message("reads of the key are recorded together")),
        _fewer_changes_wait(before, after),
        (_is_budget_raised(before, after), message("more changes of the key may be made without a person")),
        (
            _are_widened(before["addresses"], after["addresses"]),
            message("the key is accepted from further addresses"),
        ),
        (
            is_longer,
            message("the key is valid longer ({until})", until=render_timestamp(end))
            if end
            else message("the key is valid longer (without end)"),
        ),
        (_added("directories", before, after), message("the key reaches a further directory")),
    )


def role_access_widened(before: Access | None, after: Access) -> list[str]:
    """The same for a role. A new role widens nothing until a key gets it."""
    if before is None:
        return []
    more = _added("permissions", before, after)
    return _applicable(
        (more, message("the role permits more: {permissions}", permissions=", ".join(more))),
        (_reaches_everything(before, after), message("the role reaches everything")),
        (_reaches_further(before, after), message("the role reaches further parts of the directory")),
    )


def person_access_widened(before: Access | None, after: Access) -> list[str]:
    """The same for a person. Activating somebody gives them everything that they hold."""
    known = before or _NO_ACCESS
    more = _added("permissions", known, after)
    return _applicable(
        (after["superuser"] > known["superuser"], message("the person becomes a superuser")),
        (after["back_office"] > known["back_office"], message("the person may enter the back office")),
        (_added("groups", known, after), message("the person joins a group")),
        (more, message("the person may do more: {permissions}", permissions=", ".join(more))),
        (
            not after["superuser"] and not is_within(after["scopes"], known["scopes"]),
            message("the person is confined less"),
        ),
        (after["active"] > known["active"], message("the person is activated")),
    )


def group_access_widened(before: Access | None, after: Access) -> list[str]:
    """The same for a permission group. A new one has no members but those of its groups of a directory."""
    if before is None:
        return [message("members of a group of a directory are in it")] if after["directory_groups"] else []
    more = _added("permissions", before, after)
    return _applicable(
        (more, message("its members may do more: {permissions}", permissions=", ".join(more))),
        (_added("directory_groups", before, after), message("members of a further group of a directory are in it")),
        (_reaches_everything(before, after), message("the group reaches everything")),
        (_reaches_further(before, after), message("the group reaches further parts of the directory")),
    )


def agent_access_widened(before: Access | None, after: Access) -> list[str]:
    """The same for an agent. A new one only borrows what its person holds."""
    if before is None or after["ended"]:
        return []
    return _applicable(_fewer_changes_wait(before, after))


def client_access_widened(before: Access | None, after: Access) -> list[str]:
    """The same for an agent's client: where its codes go, and whether it gets any. A new one has no consent yet."""
    if before is None:
        return []
    return _applicable(
        (
            _added("addresses", before, after),
            message("what people let the agent do is handed out at further addresses"),
        ),
        (before["disabled"] and not after["disabled"], message("people can connect the agent again")),
    )


def _applicable(*reasons: tuple[Any, str]) -> list[str]:
    return [reason for holds, reason in reasons if holds]


def _fewer_changes_wait(before: Access, after: Access) -> tuple[bool, str]:
    level, known = after["level"], before["level"]
    sentence = message("fewer changes wait for a person ({before} before, {after} now)", before=known, after=level)
    return is_freer(level, than=known), sentence


def _is_budget_raised(before: Access, after: Access) -> bool:
    """Whether a budget is greater, or is no longer the key's own: all keys may have a greater one tomorrow."""
    pairs = [(before["budgets"][name], after["budgets"][name]) for name in BUDGETS]
    return any(known is not None and (now is None or now > known) for known, now in pairs)


def _added(member: str, before: Access, after: Access) -> list[str]:
    """The values of a member that are new."""
    return sorted(set(after[member]) - set(before[member]))


def _reaches_everything(before: Access, after: Access) -> bool:
    return bool(before["scopes"]) and not after["scopes"]


def _reaches_further(before: Access, after: Access) -> bool:
    """Whether a scope is new. It may lie inside an old one, but the directory can move it out tomorrow."""
    return bool(before["scopes"] and after["scopes"] and _added("scopes", before, after))


def _are_widened(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    """Whether an address is allowed that was not allowed before."""
    if not before:
        return False
    if not after:
        return True
    known = [ip_network(text) for text in before]
    return not all(
        any(network.version == other.version and cast("Any", network).subnet_of(other) for other in known)
        for network in map(ip_network, after)
    )


def _permission_names(permissions: QuerySet[Permission]) -> tuple[str, ...]:
    return tuple(sorted(with_full_names(permissions).values_list("full_name", flat=True)))


def _guids(scopes: StoredScopes) -> tuple[str, ...]:
    return tuple(sorted(scope["guid"] for scope in scopes))


def _shown_scopes(scopes: StoredScopes) -> dict[str, tuple[str, ...]]:
    return {
        "scopes": tuple(scope["distinguishedName"] for scope in scopes),
        "scopeObjects": tuple(scope["guid"] for scope in scopes),
    }


@audited_model(
    "api-keys",
    ApiKey,
    one=message("an API key"),
    members=tuple("owner role roleName links value previousValue previousValidUntil revokedAt revokedBy".split()),
    widened_access=key_access_widened,
)
def describe_key(key: ApiKey) -> Facts:
    """A key may do what its owner and role permit, from `addresses` and in `scopes` (empty: all), until it expires."""
    owner, role = key.owner, key.role
    links = list(key.links.select_related("connection").order_by("connection__name", "pk"))
    held = granted_permissions(owner)
    return Facts(
        name=key.name,
        shown={
            **columns_of(key),
            "owner": owner.username,
            "role": key.role_id,
            "roleName": role.name,
            "links": [f"{link.connection.name} ({link.client_id})" for link in links],
            "value": Secret(key.digest),
            "previousValue": Secret(key.previous_digest),
            "previousValidUntil": key.previous_valid_until,
            "revokedAt": key.revoked_at,
            "revokedBy": key.revoked_by and key.revoked_by.username,
        },
        access={
            "owner": owner.pk,
            "held_by_owner": tuple(sorted(held)),
            "role": str(key.role_id),
            "permissions": _permission_names(role.permissions.all()),
            "scopes": _guids(role.scopes),
            "addresses": tuple(key.allowed_addresses),
            "expires_at": key.expires_at,
            "level": key.supervision_level,
            "passwords": key.passwords_to_requester,
            "aggregates": key.aggregates_reads,
            "budgets": {name: getattr(key, name) for name in BUDGETS},
            "directories": tuple(sorted(str(link.connection_id) for link in links)),
            "revoked": key.revoked_at is not None,
        },
    )


@audited_model(
    "roles",
    Role,
    one=message("a role"),
    members=("permissions", "scopes", "scopeObjects"),
    widened_access=role_access_widened,
)
def describe_role(role: Role) -> Facts:
    permissions = _permission_names(role.permissions.all())
    return Facts(
        name=role.name,
        shown={**columns_of(role), "permissions": permissions, **_shown_scopes(role.scopes)},
        access={"permissions": permissions, "scopes": _guids(role.scopes)},
    )


@audited_model(
    "people",
    Person,
    one=message("a person"),
    columns=("username", "display_name", "email"),
    members=tuple(
        """
        directory password active superuser staff permissions groups scopes scopeObjects
        secondFactor passkeys sessionsEnded recoveryCodes calendarAddress
        """.split()
    ),
    widened_access=person_access_widened,
    identifier="public_id",
)
def describe_person(person: Person) -> Facts:
    """A person may do what they and their groups are granted, confined by each of the `scopes`."""
    direct = _permission_names(person.user_permissions.all())
    groups = list(person.groups.order_by("name"))
    by_groups = _permission_names(Permission.objects.filter(group__in=groups).distinct())
    factor = SecondFactor.objects.filter(person=person, confirmed_at__isnull=False).first()
    calendar = CalendarAddress.objects.filter(person=person).values_list("digest", flat=True).first()
    codes = sorted(factor.recovery_codes.values_list("digest", flat=True)) if factor else []
    return Facts(
        name=person.username,
        shown={
            **columns_of(person),
            "directory": person.connection and person.connection.name,
            "password": Secret(person.password),
            "active": person.is_active,
            "superuser": person.is_superuser,
            "staff": person.is_staff,
            "permissions": direct,
            "groups": [group.name for group in groups],
            **_shown_scopes(person.scopes),
            "secondFactor": factor is not None,
            "passkeys": list(factor.passkeys.values_list("name", flat=True)) if factor else [],
            "sessionsEnded": person.session_epoch or None,
            "recoveryCodes": Secret(" ".join(codes)),
            "calendarAddress": Secret(calendar or ""),
        },
        access={
            "active": person.is_active,
            "superuser": person.is_superuser,
            "back_office": person.is_staff,
            "permissions": tuple(sorted({*direct, *by_groups})),
            "groups": tuple(sorted(str(group.pk) for group in groups)),
            # Superusers are not confined, so this is empty for them: whoever stops being one gains no access by it.
            "scopes": tuple(sorted(map(_guids, stored_scopes_of_person(person)))),
        },
    )


@audited_model(
    "permission-groups",
    Group,
    one=message("a permission group"),
    columns=("name",),
    members=("permissions", "members", "scopes", "scopeObjects", "directoryGroups", "directoryGroupObjects"),
    widened_access=group_access_widened,
)
def describe_group(group: Group) -> Facts:
    permissions, scopes = _permission_names(group.permissions.all()), kept_scopes(group)
    mapped = list(DirectoryGroup.objects.filter(group=group))
    members = Person.objects.filter(groups=group).order_by("username").values_list("username", flat=True)
    return Facts(
        name=group.name,
        shown={
            **columns_of(group),
            "permissions": permissions,
            "members": list(members),
            **_shown_scopes(scopes),
            "directoryGroups": [item.distinguished_name for item in mapped],
            "directoryGroupObjects": [item.object_guid for item in mapped],
        },
        access={
            "permissions": permissions,
            "scopes": _guids(scopes),
            "directory_groups": tuple(sorted(f"{item.connection_id}/{item.object_guid}" for item in mapped)),
        },
    )


@audited_model(
    "agents",
    AgentGrant,
    one=message("an agent"),
    columns=("scopes", "permissions", "refused_scopes", "supervision_level", "ended_at", "ended_for"),
    members=("client", "clientName", "person", "directory"),
    widened_access=agent_access_widened,
)
def describe_agent(grant: AgentGrant) -> Facts:
    client, person = grant.client, grant.person
    return Facts(
        name=f"{client.name} for {person.username}",
        shown={
            "client": client.client_id,
            "clientName": client.name,
            "person": person.username,
            "directory": grant.connection.name,
            **columns_of(grant),
        },
        access={"level": grant.supervision_level, "ended": grant.ended_at is not None},
    )


@audited_model(
    "agent-clients",
    AgentClient,
    one=message("an agent client"),
    columns=("name", "client_id", "created_address", "disabled_at"),
    members=("redirectUris", "source"),
    widened_access=client_access_widened,
)
def describe_client(client: AgentClient) -> Facts:
    addresses = tuple(client.redirect_uris.split())
    return Facts(
        name=client.name,
        shown={
            **columns_of(client),
            "redirectUris": addresses,
            "source": client.registration_source,
        },
        access={"addresses": addresses, "disabled": client.disabled_at is not None},
    )
