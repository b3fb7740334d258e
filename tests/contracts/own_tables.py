"""Every way to change the gateway's own tables: each operation on `/rest`, and each view and action of Django admin."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.apps import apps
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.utils import timezone

from approvals.models import ChangeRequest
from audit.models import DeliveryState, WebhookDelivery, WebhookEndpoint
from directory.models import ChangeTemplate, DirectoryConnection, MembershipRule
from directory.models.filters_and_templates import SavedFilter
from keys.models import ApiKey, Link, Person, Role, SecondFactor
from keys.models.agents import AgentClient, AgentGrant
from keys.sign_in.credentials import find_account
from lab.accounts.agents import make_client
from lab.directory import random_name
from tests.approvals.proposals import hold
from tests.support.agents import make_agent
from tests.support.cast import Answer, Console, make_integration, make_person, permissions

NOT_ADMINISTERED = {
    *(
        "OperationRecord",
        "LogSeal",
        "UnsealedRecord",
        "DailyCount",
        "CountedSeals",
        "ChangeClaim",
        "LogVerification",
        "VerifiedRange",
        "PersonSession",
        "AccessToken",
        "FailedSignIn",
        "PasswordAttempt",
        "BindPassword",
        "IdempotencyRecord",
        "ShownOnce",
    ),
    *("Notice", "ContentType", "Session", "LogEntry"),
    # Tokens of agents, and the toolkit's codes; its two tables of kinds of tokens that there are not stay empty.
    *("AgentAccessToken", "AgentRefreshToken", "Grant", "IDToken", "DeviceGrant"),
}
"""Tables that people do not administer: the log itself, and what sessions and retries leave."""


def contents() -> list[tuple[str, str]]:
    """All rows of all tables that people administer, those between two tables too, as PostgreSQL writes them.

    In one statement: the ORM takes 50 ms for them, and they are read before and after each change.
    """
    tables = [
        connection.ops.quote_name(table._meta.db_table)
        for table in apps.get_models(include_auto_created=True)
        if table._meta.managed and table.__name__ not in NOT_ADMINISTERED
    ]
    rows = (f"SELECT '{table}', row::text FROM {table} AS row" for table in tables)  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(rows))
        return sorted(cursor.fetchall())


@dataclass
class World:
    """A superuser on `/rest` and in the back office, and one thing of each kind for them to change."""

    console: Console
    connection: DirectoryConnection
    admin: Client = field(init=False)
    before: list[tuple[str, str]] = field(init=False)
    """The tables at the moment of the last request: what was made for it to change is in them."""

    def __post_init__(self) -> None:
        self.admin = Client()
        self.admin.force_login(self.console.person)

    def role(self) -> Role:
        role = Role.objects.create(name=random_name("role"))
        role.permissions.set(permissions(["directory.read_object"]))
        return role

    def key(self, **fields: Any) -> ApiKey:
        return make_integration(self.connection, owner=self.console.person, **fields).key

    def agent(self) -> AgentGrant:
        return make_agent(self.connection, person=self.console.person).grant

    def agent_client(self) -> AgentClient:
        return make_client()

    def disabled_client(self) -> AgentClient:
        return make_client(disabled_at=timezone.now())

    def person(self) -> Person:
        return make_person(may=["directory.read_object"])

    def person_with_second_factor(self) -> Person:
        person = self.person()
        SecondFactor.objects.create(person=person, secret="JBSWY3DPEHPK3PXP", confirmed_at="2030-01-01T00:00Z")
        return person

    def group(self) -> Group:
        return Group.objects.create(name=random_name("group"))

    def directory(self) -> DirectoryConnection:
        fields = {"urls": ["ldaps://127.0.0.1:1"], "base_dn": "DC=a", "bind_dn": "CN=b,DC=a", "bind_password": "c"}
        return DirectoryConnection.objects.create(name=random_name("corp"), enabled=False, **fields)

    def saved_filter(self) -> SavedFilter:
        return SavedFilter.objects.create(
            connection=self.connection,
            owner=self.console.person,
            name=random_name("filter"),
            kind="users",
            filter="(cn=*)",
            scope="subtree",
        )

    def change_template(self) -> ChangeTemplate:
        values = {"description": ["Left on {today}"]}
        return ChangeTemplate.objects.create(
            connection=self.connection, name=random_name("template"), occasion="leaver", attributes=values
        )

    def membership_rule(self) -> MembershipRule:
        return MembershipRule.objects.create(
            connection=self.connection, group_guid=uuid4(), group_dn="CN=Operators", max_duration=timedelta(hours=8)
        )

    def endpoint(self) -> WebhookEndpoint:
        return WebhookEndpoint.objects.create(name=random_name("hook"), url="https://hook.example/", events=["reads"])

    def delivery(self) -> WebhookDelivery:
        endpoint = self.endpoint()
        endpoint.enabled = False
        endpoint.save()
        return WebhookDelivery.objects.create(endpoint=endpoint, event="a", body="{}", state=DeliveryState.DEAD)

    def own_request(self) -> ChangeRequest:
        held = hold()
        ChangeRequest.objects.filter(pk=held.pk).update(requester_id=self.console.person.pk)
        return held

    def applied_with_secret(self) -> ChangeRequest:
        held = hold()
        held.status, held.secret, held.secret_until = "applied", "geheim", "2099-01-01T00:00Z"
        held.decided_by_id = self.console.person.pk
        held.save()
        return held

    def rest(self, method: str, path: str, body: Any = None) -> Answer:
        self.before = contents()
        return self.console.call(method, f"/rest/{path}", body)

    def post(self, path: str, form: dict[str, Any] | None = None) -> Answer:
        """Send a form of the back office."""
        self.before = contents()
        response = self.admin.post(f"/admin/{path}", form or {})
        assert response.status_code == 302, (path, response.status_code, _errors(response))
        return Answer(response.status_code, None, response.headers)


def _errors(response: Any) -> Any:
    shown = response.context and response.context.get("adminform")
    return shown.form.errors if shown else response.content.decode()[-2000:]


Change = Callable[[World], tuple[str, UUID | None]]
"""Changes one thing; the attribute by which its record shows it, and the identifier of the thing."""

NEW_DIRECTORY = {
    "urls": ["ldaps://127.0.0.1:1"], "baseDn": "DC=a", "bindDn": "CN=b,DC=a", "bindPassword": "c", "enabled": False
}  # fmt: skip


def _ok(answer: Answer) -> Any:
    assert answer.status in (200, 201, 204), answer
    return answer.body


def _rest_create(resource: str, path: str, body: Callable[[World], dict[str, Any]]) -> Change:
    def change(world: World) -> tuple[str, UUID | None]:
        made = _ok(world.rest("POST", path, body(world)))
        return next(name for name in ("name", "username", "group") if name in made), UUID(made["id"])

    return change


def _rest(make: Callable[[World], Any], method: str, path: str, attribute: str, body: Any = None) -> Change:
    def change(world: World) -> tuple[str, UUID | None]:
        row = make(world)
        id = _identifier(row)
        given = body(world, row) if callable(body) else body
        place = path.format(id=id, link=_link_of(row))
        _ok(world.rest(method, place, given))
        return attribute, id

    return change


def _link_of(row: Any) -> str:
    link = Link.objects.filter(api_key=row).first() if isinstance(row, ApiKey) else None
    return str(link.client_id) if link else ""


def _digest(_: World, row: ChangeRequest) -> dict[str, str]:
    return {"digest": row.digest}


def _unlinked(world: World) -> ApiKey:
    return make_integration(None, owner=world.console.person).key


def _new_key(world: World) -> dict[str, Any]:
    return {"name": "HR", "owner": world.console.person.username, "role": str(world.role().pk)}


def _new_person(_: World) -> dict[str, Any]:
    return {"username": random_name("ada")}


def _an_account(world: World) -> dict[str, Any]:
    account = find_account(world.connection, "Administrator").entry
    assert account is not None
    return {"directory": str(world.connection.pk), "account": str(account.guid)}


def _held(_: World) -> ChangeRequest:
    return hold()


def _an_approver(*_: Any) -> dict[str, Any]:
    return {"username": make_person(may=["approvals.decide_change"]).username}


ON_REST: dict[str, Change] = {
    "roles.create": _rest_create("roles", "roles", lambda _: {"name": random_name("role")}),
    "roles.update": _rest(World.role, "PATCH", "roles/{id}", "description", {"description": "x"}),
    "roles.delete": _rest(World.role, "DELETE", "roles/{id}", "permissions"),
    "api-keys.create": _rest_create("api-keys", "api-keys", _new_key),
    "api-keys.update": _rest(
        World.key, "PATCH", "api-keys/{id}", "supervisionLevel", {"supervisionLevel": "ask_every_change"}
    ),
    "api-keys.delete": _rest(_unlinked, "DELETE", "api-keys/{id}", "value"),
    "api-keys.revoke": _rest(World.key, "POST", "api-keys/{id}/revoke", "revokedAt"),
    "api-keys.rotate": _rest(World.key, "POST", "api-keys/{id}/rotate", "value", {"graceSeconds": 60}),
    "api-keys.create-link": _rest(
        _unlinked, "POST", "api-keys/{id}/links", "links", lambda world, _: {"directory": str(world.connection.pk)}
    ),
    "api-keys.delete-link": _rest(World.key, "DELETE", "api-keys/{id}/links/{link}", "links"),
    "people.create": _rest_create("people", "users", _new_person),
    "people.update": _rest(World.person, "PATCH", "users/{id}", "active", {"active": False}),
    "people.invite": _rest(World.person, "POST", "users/{id}/invite", "password"),
    "people.delete": _rest(World.person, "DELETE", "users/{id}", "permissions"),
    "people.reset-second-factor": _rest(
        World.person_with_second_factor, "POST", "users/{id}/reset-second-factor", "secondFactor"
    ),
    "people.end-sessions": _rest(World.person, "POST", "users/{id}/end-sessions", "sessionsEnded"),
    "permission-groups.create": _rest_create(
        "permission-groups", "permission-groups", lambda _: {"name": random_name("group")}
    ),
    "permission-groups.update": _rest(
        World.group, "PATCH", "permission-groups/{id}", "permissions", {"permissions": ["directory.read_object"]}
    ),
    "permission-groups.delete": _rest(World.group, "DELETE", "permission-groups/{id}", "name"),
    "agents.update": _rest(
        World.agent, "PATCH", "agents/{id}", "supervisionLevel", {"supervisionLevel": "ask_every_change"}
    ),
    "agents.revoke": _rest(World.agent, "POST", "agents/{id}/revoke", "endedFor"),
    "agents.revoke-own": _rest(World.agent, "POST", "agents/own/{id}/revoke", "endedFor"),
    "agent-clients.create": _rest_create(
        "agent-clients", "agent-clients", lambda _: {"name": "Helper", "redirectUris": ["http://127.0.0.1/cb"]}
    ),
    "agent-clients.disable": _rest(World.agent_client, "POST", "agent-clients/{id}/disable", "disabledAt"),
    "agent-clients.enable": _rest(World.disabled_client, "POST", "agent-clients/{id}/enable", "disabledAt"),
    "agent-clients.delete": _rest(World.agent_client, "DELETE", "agent-clients/{id}", "redirectUris"),
    "directories.create": _rest_create("directories", "directories", lambda _: {"name": "Corp", **NEW_DIRECTORY}),
    "directories.update": _rest(World.directory, "PATCH", "directories/{id}", "name", {"name": "Renamed"}),
    "directories.delete": _rest(World.directory, "DELETE", "directories/{id}", "bindPassword"),
    "saved-filters.delete": _rest(World.saved_filter, "DELETE", "ad/saved-filters/{id}", "filter"),
    "change-templates.delete": _rest(World.change_template, "DELETE", "ad/change-templates/{id}", "attributes"),
    "membership-rules.delete": _rest(World.membership_rule, "DELETE", "membership-rules/{id}", "maxDuration"),
    "change-requests.approve": _rest(_held, "POST", "change-requests/{id}/approve", "decidedBy", _digest),
    "change-requests.reject": _rest(_held, "POST", "change-requests/{id}/reject", "comment", {"comment": "no"}),
    "change-requests.comment": _rest(
        _held, "POST", "change-requests/{id}/comment", "comments", {"comment": "Which ticket?"}
    ),
    "change-requests.assign": _rest(_held, "POST", "change-requests/{id}/assign", "assignedTo", _an_approver),
    "change-requests.cancel": _rest(World.own_request, "POST", "change-requests/{id}/cancel", "status"),
    "change-requests.reveal-secret": _rest(
        World.applied_with_secret, "POST", "change-requests/{id}/secret", "secret"
    ),
}  # fmt: skip
"""By the operation's name."""

NEED_A_DIRECTORY: dict[str, Change] = {
    "people.prepare": _rest_create("people", "users/prepare", _an_account),
    "saved-filters.create": _rest_create(
        "saved-filters", "ad/saved-filters", lambda _: {"name": "Leavers", "filter": "(department=Left)"}
    ),
    "saved-filters.update": _rest(World.saved_filter, "PATCH", "ad/saved-filters/{id}", "shared", {"shared": True}),
    "change-templates.create": _rest_create(
        "change-templates", "ad/change-templates", lambda _: {"name": "Leaver", "occasion": "leaver"}
    ),
    "membership-rules.create": _rest_create(
        "membership-rules",
        "membership-rules",
        lambda world: {"group": f"CN=Guests,CN=Builtin,{world.connection.base_dn}", "reasonRequired": True},
    ),
    "membership-rules.update": _rest(
        World.membership_rule, "PATCH", "membership-rules/{id}", "maxDuration", {"maxDuration": "PT1H"}
    ),
    "change-templates.update": _rest(
        World.change_template, "PATCH", "ad/change-templates/{id}", "account", {"account": "disable"}
    ),
}
"""The same of those that ask the directory."""


def _form(make: Callable[[World], Any] | None, path: str, attribute: str, fields: Any) -> Change:
    def change(world: World) -> tuple[str, UUID | None]:
        row = make(world) if make else None
        given = fields(world, row) if callable(fields) else fields
        world.post(path.format(id=row.pk if row else ""), given)
        return attribute, _identifier(row)

    return change


def _identifier(row: Any) -> UUID | None:
    if row is None:
        return None
    if isinstance(row, Person):
        return row.public_id
    if isinstance(row, Link):
        return row.api_key_id
    return row.pk if isinstance(row.pk, UUID) else UUID(int=row.pk)


def _action(make: Callable[[World], Any], path: str, name: str, attribute: str, **more: str) -> Change:
    def change(world: World) -> tuple[str, UUID | None]:
        row = make(world)
        world.post(path, {"action": name, "_selected_action": [str(row.pk)], **more})
        return attribute, _identifier(row)

    return change


def _key_form(world: World, key: ApiKey | None) -> dict[str, Any]:
    return {
        "name": "Payroll",
        "owner": world.console.person.username,
        "role": str(key.role_id if key else world.role().pk),
        "supervisionLevel": "ask_every_change",
    }


def _link_form(world: World, _: None) -> dict[str, Any]:
    return {"key": str(_unlinked(world).pk), "directory": str(world.connection.pk)}


def _link(world: World) -> Link:
    return world.key().links.get()


def _role_form(_: World, role: Role | None) -> dict[str, Any]:
    return {"name": role.name if role else "Readers", "description": "x", "permissions": [], "scopes": ""}


def _connection_form(_: World, row: DirectoryConnection | None) -> dict[str, Any]:
    return {
        "name": row.name if row else "Corp",
        "urls": "ldaps://127.0.0.1:1",
        "baseDn": "DC=a",
        "bindDn": "CN=b,DC=a",
        "bindPassword": "another",
    }


def _endpoint_form(_: World, row: WebhookEndpoint | None) -> dict[str, Any]:
    name = row.name if row else "Alerts"
    return {"name": name, "url": "https://other.example/", "format": "standard", "events": ["reads"]}


_YES = {"post": "yes"}

IN_ADMIN: dict[tuple[str, str], Change] = {
    ("keys.role", "add"): _form(None, "keys/role/add/", "name", _role_form),
    ("keys.role", "change"): _form(World.role, "keys/role/{id}/change/", "permissions", _role_form),
    ("keys.role", "delete"): _form(World.role, "keys/role/{id}/delete/", "permissions", _YES),
    ("keys.role", "delete_selected"): _action(World.role, "keys/role/", "delete_selected", "name", **_YES),
    ("keys.apikey", "add"): _form(None, "keys/apikey/add/", "value", _key_form),
    ("keys.apikey", "change"): _form(World.key, "keys/apikey/{id}/change/", "supervisionLevel", _key_form),
    ("keys.apikey", "delete"): _form(_unlinked, "keys/apikey/{id}/delete/", "value", _YES),
    ("keys.apikey", "delete_selected"): _action(_unlinked, "keys/apikey/", "delete_selected", "value", **_YES),
    ("keys.apikey", "revoke"): _action(World.key, "keys/apikey/", "revoke", "revokedAt"),
    ("keys.link", "add"): _form(None, "keys/link/add/", "links", _link_form),
    ("keys.link", "delete"): _form(_link, "keys/link/{id}/delete/", "links", _YES),
    ("keys.link", "delete_selected"): _action(_link, "keys/link/", "delete_selected", "links", **_YES),
    ("keys.person", "change"): _form(World.person, "keys/person/{id}/change/", "superuser", {"is_superuser": "on"}),
    ("directory.directoryconnection", "add"): _form(
        None, "directory/directoryconnection/add/", "bindPassword", _connection_form
    ),
    ("directory.directoryconnection", "change"): _form(
        World.directory, "directory/directoryconnection/{id}/change/", "bindPassword", _connection_form
    ),
    ("directory.directoryconnection", "delete"): _form(
        World.directory, "directory/directoryconnection/{id}/delete/", "name", _YES
    ),
    ("directory.directoryconnection", "delete_selected"): _action(
        World.directory, "directory/directoryconnection/", "delete_selected", "name", **_YES
    ),
    ("directory.savedfilter", "delete"): _form(
        World.saved_filter, "directory/savedfilter/{id}/delete/", "filter", _YES
    ),
    ("directory.savedfilter", "delete_selected"): _action(
        World.saved_filter, "directory/savedfilter/", "delete_selected", "filter", **_YES
    ),
    ("audit.webhookendpoint", "add"): _form(None, "audit/webhookendpoint/add/", "url", _endpoint_form),
    ("audit.webhookendpoint", "change"): _form(
        World.endpoint, "audit/webhookendpoint/{id}/change/", "url", _endpoint_form
    ),
    ("audit.webhookendpoint", "delete"): _form(World.endpoint, "audit/webhookendpoint/{id}/delete/", "url", _YES),
    ("audit.webhookendpoint", "delete_selected"): _action(
        World.endpoint, "audit/webhookendpoint/", "delete_selected", "url", **_YES
    ),
    ("audit.webhookendpoint", "renew_secret"): _action(
        World.endpoint, "audit/webhookendpoint/", "renew_secret", "secret"
    ),
    ("audit.webhookdelivery", "try_again"): _action(World.delivery, "audit/webhookdelivery/", "try_again", "state"),
}  # fmt: skip
"""By the model and the name of the view or action."""

CHANGES_NOTHING = {
    ("audit.webhookendpoint", "audit_webhookendpoint_secrets"),
    ("audit.webhookdelivery", "change"),  # shows it: no field of it can be changed
}
