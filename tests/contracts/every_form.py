"""Every address of the console that takes a form, with a form that succeeds there."""

import re
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.test import Client
from django.urls import reverse

from approvals.models import ChangeRequest
from core.database.own_rows import version_of
from keys import first_administrator
from keys.models import Link, Person
from lab.directory import random_name
from tests.approvals.proposals import hold
from tests.console.access_pages import fields_of, make_unreachable
from tests.contracts.own_tables import World
from tests.contracts.site import Site
from tests.keys.agents.sign_in import Program
from tests.keys.authenticator import code_of
from tests.support.cast import PASSWORD, Console, make_integration, make_person

NEW_PASSWORD = "a long and unusual phrase"


Sent = Callable[[Site], Any]
"""Sends a form; the response."""


def _form(name: str, at: Callable[[Site], Mapping[str, Any]] | None = None, /, **fields: Any) -> Sent:
    """A form; of its fields those that are functions take the site."""

    def send(site: Site) -> Any:
        arguments = at(site) if at else {}
        typed = {name: value(site, arguments) if callable(value) else value for name, value in fields.items()}
        return site.submit(name, arguments, **typed)

    return send


def _of(argument: str, find: Callable[[Site], Any]) -> Callable[[Site], Mapping[str, Any]]:
    def at(site: Site) -> Mapping[str, Any]:
        found = find(site)
        if isinstance(found, Person):
            return {argument: found.public_id}
        key = getattr(found, "pk", found)
        return {argument: UUID(int=key) if isinstance(key, int) else key}

    return at


def _version(path: str) -> Callable[[Site, Mapping[str, Any]], str]:
    return lambda site, at: site.version(path.format(next(iter(at.values()))))


def _ada(site: Site, _: Any) -> str:
    return str(site.ada)


def _held(name: str, /, **fields: Any) -> Sent:
    return _form(name, _of("request_id", lambda _: _new_request()), **fields)


def _new_request() -> ChangeRequest:
    return hold()


def _digest(_: Site, at: Mapping[str, Any]) -> str:
    return ChangeRequest.objects.get(pk=at["request_id"]).digest


def _sign_in(_: Site) -> Any:
    return Client().post("/console/sign-in", {"username": make_person().username, "password": PASSWORD})


def _sign_in_with_code(site: Site) -> Any:
    secret = site.enrolled()
    site.console.submit("/console/account/second-factor/confirm", code=code_of(secret))
    client = Client()
    client.post("/console/sign-in", {"username": site.console.person.username, "password": PASSWORD})
    return client.post("/console/sign-in/code", {"code": code_of(secret, steps=1)})


def _set_up(_: Site) -> Any:
    Person.objects.all().delete()
    typed = {"username": "grace", "displayName": "", "email": "", "password": NEW_PASSWORD, "again": NEW_PASSWORD}
    return Client().post("/console/setup", {"code": first_administrator.set_up_code(), **typed})


def _accept_invitation(site: Site) -> Any:
    made = site.console.post(f"/rest/users/{make_person().public_id}/invite")
    code = made.body["invitationLink"].partition("#")[2]
    return Client().post("/console/invitation", {"code": code, "password": NEW_PASSWORD, "again": NEW_PASSWORD})


def _inactive(_: Site) -> Person:
    person = make_person()
    Person.objects.filter(pk=person.pk).update(is_active=False)
    return person


def _end_session(site: Site) -> Any:
    Console(site.console.person)
    sessions = site.console.get("/rest/sessions").body["items"]
    other = next(item["id"] for item in sessions if not item["current"])
    return site.submit("session-end", {"session_id": other})


def _end_calendar(site: Site) -> Any:
    site.submit("calendar-make", {})
    return site.submit("calendar-end", {})


def _connect_agent(site: Site) -> Any:
    program = Program()
    program.register()
    address = program.address()
    seal = re.findall(r'name="seal" value="([^"]+)"', site.console.client.get(address).content.decode())[0]
    typed = {"decision": "allow", "seal": seal, "scope": ["read"], "directory": str(site.connection.client_id)}
    return site.send(address, typed)


def _decide_together(site: Site) -> Any:
    held = _new_request()
    return site.submit("changes-decide", change=f"{held.id}:{held.digest}", ids=str(held.id), decision="approve")


def _start_run(site: Site) -> Any:
    assert site.ada
    query = f"action=disable&now=true&unit={site.tree.guid(site.unit)}"
    page = site.console.get(f"/console/runs/new?{query}").body.decode()
    fields = dict(re.findall(r'<input type="hidden" name="(planId|unit|action|kinds|scope)" value="([^"]*)"', page))
    return site.submit("run-new", reason="Everybody left", **fields)


def _make_key(site: Site) -> Any:
    steps: dict[str, dict[str, Any]] = {
        "role": {"choice": "new", "name": "HR", "permissions": ["directory.read_object"], "scopes": ""},
        "key": {"name": "HR import", "owner": site.console.person.username},
        "directory": {"directory": str(site.connection.pk)},
        "addresses": {"allowedAddresses": ""},
        "level": {"supervisionLevel": "ask_destructive_security"},
    }
    for step, fields in steps.items():
        assert site.submit("key-new-step", {"step": step}, go="on", **fields).status_code in (302, 204)
    page = fields_of(site.console.get("/console/keys/new/check"))
    digest = re.findall(r'name="digest" value="(\w+)"', page)[0]
    return site.submit("key-new-step", {"step": "check"}, go="on", digest=digest)


def _wider_role(site: Site) -> Any:
    role, more = site.role(), ["directory.read_object", "directory.unlock_account"]
    known = {
        "name": role.name,
        "permissions": more,
        "version": site.version(f"roles/{role.pk}"),
        "consequences": version_of({"permissions": more, "scopes": []}),
    }
    return site.submit("role-edit", {"role_id": role.pk}, **known)


def _unlink(site: Site) -> Any:
    key = site.key()
    return site.submit("key-unlink", {"key_id": key.pk, "client_id": Link.objects.get(api_key=key).client_id})


def _unlinked_key(site: Site) -> Any:
    return make_integration(None, owner=site.console.person).key


def _new_object(site: Site, kind: str, **fields: Any) -> Any:
    name = random_name("ida")
    typed = {"name": name, "parent": site.unit, "attributes.sAMAccountName": name, **fields}
    return site.send(f"{reverse('console:object-new')}?kind={kind}", typed)


def _object(name: str, find: Callable[[Site], UUID], /, **fields: Any) -> Sent:
    return _form(name, _of("object_id", find), **fields)


_CONNECTION: dict[str, Any] = {
    "name": "Other", "urls": "ldaps://127.0.0.1:1", "baseDn": "DC=a", "bindDn": "CN=b,DC=a", "bindPassword": "c"
}  # fmt: skip
_FILTER: dict[str, Any] = {"name": "Counts", "kind": "users", "filter": "(title=*)", "scope": "subtree"}
_TEMPLATE: dict[str, Any] = {"name": "Leavers", "occasion": "leaver", "account": "disable"}
_APPROVER: dict[str, Any] = {"username": "ida", "displayName": "", "email": ""}

DOES: dict[str, Sent] = {
    "sign-in": _sign_in,
    "sign-in-code": _sign_in_with_code,
    "sign-out": _form("sign-out"),
    "set-up": _set_up,
    "invitation": _accept_invitation,
    "account-password": _form("account-password", current=PASSWORD, new=NEW_PASSWORD, again=NEW_PASSWORD),
    "second-factor-set-up": _form("second-factor-set-up", password=PASSWORD),
    "second-factor-confirm": lambda site: site.submit("second-factor-confirm", code=code_of(site.enrolled())),
    "second-factor-replace": lambda site: site.submit("second-factor-replace", code=site.confirmed()),
    "second-factor-remove": lambda site: site.submit("second-factor-remove", code=site.confirmed()),
    "own-agent-revoke": _form("own-agent-revoke", _of("agent_id", World.agent)),
    "sessions-end-others": _form("sessions-end-others"),
    "session-end": _end_session,
    "access-token": _form("access-token"),
    "calendar-make": _form("calendar-make"),
    "calendar-end": _end_calendar,
    "language": _form("language", language="de"),
    "connect-agent": _connect_agent,
    "agent-token-issue": _form(
        "agent-token-issue", name="Nightly", scope=["read"], directory=lambda site, *_: str(site.connection.client_id)
    ),
    "choose-directory": lambda site: site.submit("choose-directory", clientId=str(site.connection.client_id)),
    "first-day-directory": _form("first-day-directory", anyway="on", **_CONNECTION),
    "first-day-approver": _form("first-day-approver", **_APPROVER),
    "changes-decide": _decide_together,
    "changes-ask-anew": _form("changes-ask-anew", change=lambda site, _: str(site.stale)),
    "change-ask-anew": _form("change-ask-anew", _of("request_id", lambda site: site.stale)),
    "change-comment": _held("change-comment", comment="Which ticket?"),
    "change-assign": _held("change-assign", username=lambda *_: make_person(may=["approvals.decide_change"]).username),
    "change-approve": _held("change-approve", digest=_digest),
    "change-reject": _held("change-reject", comment="No"),
    "change-cancel": _form("change-cancel", _of("request_id", World.own_request)),
    "changes-passwords": _form("changes-passwords", change=lambda site, _: str(World.applied_with_secret(site).id)),
    "change-extend": _form("change-extend", _of("request_id", lambda site: site.end), until=""),
    "change-end-now": _form("change-end-now", _of("request_id", lambda site: site.end)),
    "change-secret": _form("change-secret", _of("request_id", World.applied_with_secret)),
    "log-verify": _form("log-verify"),
    "own-change-undo": _form("own-change-undo", _of("record_id", lambda site: site.record)),
    "log-revert": _form("log-revert", _of("record_id", lambda site: site.record)),
    "search-columns": _form("search-columns", kind="users", column="mail"),
    "selection": _form("selection", chosen=_ada, action="disable"),
    "selection-recipe": _form("selection-recipe", lambda _: {"name": "leaver"}, chosen=_ada, block="disable"),
    "selection-go": _form("selection-go", _of("task_id", lambda site: site.task(started=True))),
    "selection-undo": _form("selection-undo", _of("task_id", lambda site: site.task(started=True, done=True))),
    "selection-password": _form("selection-password", _of("task_id", Site.made_account)),
    "change-template-use": _form("change-template-use", _of("template_id", Site.template), chosen=_ada),
    "run-new": _start_run,
    "incident": _form("incident", unit=lambda site, _: str(site.tree.guid(site.unit)), kinds="user"),
    "run-undo": _form("run-undo", _of("run_id", lambda site: site.done_run)),
    "run-retry": _form("run-retry", _of("run_id", lambda site: site.failed_run)),
    "saved-filter-new": _form("saved-filter-new", **_FILTER),
    "saved-filter": _form(
        "saved-filter", _of("filter_id", World.saved_filter), version=_version("ad/saved-filters/{}"), **_FILTER
    ),
    "saved-filter-delete": _form("saved-filter-delete", _of("filter_id", World.saved_filter)),
    "change-template-new": _form("change-template-new", **_TEMPLATE),
    "change-template": _form(
        "change-template", _of("template_id", Site.template), version=_version("ad/change-templates/{}"), **_TEMPLATE
    ),
    "change-template-delete": _form("change-template-delete", _of("template_id", Site.template)),
    "membership-rule-new": _form(
        "membership-rule-new", group=lambda site, _: str(site.analysts), **{"maxDuration.count": "8"}
    ),
    "membership-rule": _form(
        "membership-rule",
        _of("rule_id", World.membership_rule),
        version=_version("membership-rules/{}"),
        reasonRequired="on",
    ),
    "membership-rule-delete": _form("membership-rule-delete", _of("rule_id", World.membership_rule)),
    "deleted-object": _object("deleted-object", lambda site: site.gone),
    "key-edit": _form(
        "key-edit", _of("key_id", World.key), name="Payroll", supervisionLevel="act", version=_version("api-keys/{}")
    ),
    "key-rotate": _form("key-rotate", _of("key_id", World.key), grace="0"),
    "key-revoke": _form("key-revoke", _of("key_id", World.key)),
    "key-delete": _form("key-delete", _of("key_id", _unlinked_key)),
    "key-link": _form("key-link", _of("key_id", _unlinked_key), directory=lambda site, _: str(site.connection.pk)),
    "key-unlink": _unlink,
    "key-new-anew": _form("key-new-anew"),
    "key-new-step": _make_key,
    "agents-revoke-all": lambda site: [site.agent(), site.submit("agents-revoke-all")][1],
    "agent-level": _form("agent-level", _of("agent_id", World.agent), supervisionLevel="ask_every_change"),
    "agent-revoke": _form("agent-revoke", _of("agent_id", World.agent)),
    "agent-client-new": _form("agent-client-new", name="Helper", redirectUris="http://127.0.0.1/cb"),
    "agent-client-disable": _form("agent-client-disable", _of("client_id", World.agent_client)),
    "agent-client-enable": _form("agent-client-enable", _of("client_id", World.disabled_client)),
    "agent-client-delete": _form("agent-client-delete", _of("client_id", World.agent_client)),
    "role-new": _form("role-new", name="Readers", permissions=["directory.read_object"]),
    "role-edit": _wider_role,
    "role-delete": _form("role-delete", _of("role_id", World.role)),
    "person-new": _form("person-new", **_APPROVER),
    "person-prepare": _form("person-prepare", account=_ada),
    "person-permissions": _form(
        "person-permissions", _of("person_id", World.person), permissions=[], version=_version("users/{}")
    ),
    "person-names": _form(
        "person-names", _of("person_id", World.person), displayName="Ida", version=_version("users/{}")
    ),
    "person-invite": _form("person-invite", _of("person_id", World.person)),
    "person-activate": _form("person-activate", _of("person_id", _inactive)),
    "person-deactivate": _form("person-deactivate", _of("person_id", World.person)),
    "person-end-sessions": _form(
        "person-end-sessions", _of("person_id", lambda _: Console(make_person(may=["audit.read_log"])).person)
    ),
    "person-reset-second-factor": _form(
        "person-reset-second-factor", _of("person_id", World.person_with_second_factor)
    ),
    "person-delete": _form("person-delete", _of("person_id", World.person)),
    "permission-group-new": _form("permission-group-new", name="Desk", permissions=["directory.read_object"]),
    "permission-group": _form(
        "permission-group", _of("group_id", World.group), name="Desk", version=_version("permission-groups/{}")
    ),
    "permission-group-delete": _form("permission-group-delete", _of("group_id", World.group)),
    "connection-new": _form("connection-new", anyway="on", **_CONNECTION),
    "connection-edit": _form(
        "connection-edit", _of("connection_id", World.directory), version=_version("directories/{}"), **_CONNECTION
    ),
    "connection-enable": _form(
        "connection-enable", _of("connection_id", lambda _: make_unreachable(enabled=False))
    ),
    "connection-disable": _form("connection-disable", _of("connection_id", lambda _: make_unreachable())),
    "connection-delete": _form("connection-delete", _of("connection_id", World.directory)),
    "object-new": lambda site: _new_object(site, "user", step="make", how="generate", enabled="on"),
    "object-edit": _object(
        "object-edit", lambda site: site.ada, step="make",
        **{"attributes.title": "Countess", "version": lambda site, _: site.version(f"ad/users/{site.ada}")},
    ),
    "call-person": _object("call-person", lambda site: site.locked, action="unlock"),
    "object-put-back": _object("object-put-back", lambda site: (site.record, site.ada)[1], at="0", step="make"),
    "object-enable": _object("object-enable", lambda site: site.disabled, step="make"),
    "object-disable": _object("object-disable", lambda site: site.ada, step="make"),
    "object-unlock": _object("object-unlock", lambda site: site.locked, step="make"),
    "object-move": _object(
        "object-move", lambda site: site.ada, step="make",
        parent=lambda site, _: site.tree.add_unit("Staff", parent=site.unit),
    ),
    "object-rename": _object("object-rename", lambda site: site.ada, step="make", name="Ada King"),
    "object-delete": _object("object-delete", lambda site: site.ada, step="make"),
    "object-reset-password": _object("object-reset-password", lambda site: site.ada, how="generate"),
    "object-change-members": _object("object-change-members", lambda site: site.analysts, step="make", add=_ada),
    "object-take-groups": _object(
        "object-take-groups", lambda site: site.ada, group=lambda site, _: str(site.analysts), step="make"
    ),
    "object-leave": _object("object-leave", lambda site: site.ada, group=lambda site, _: str(site.joined)),
}  # fmt: skip
"""By the name of the address: what does something there."""

SHOWS: dict[str, tuple[str, Sent]] = {
    "deleted-preview": ("a dry run", _object("deleted-preview", lambda site: site.gone)),
    "role-scopes-check": (
        "reads what names stand for", _form("role-scopes-check", scopes=lambda site, _: site.unit)
    ),
    "role-preview": ("compares fields", _form("role-preview", _of("role_id", World.role), name="Readers")),
    "connection-new-test": ("reads; its form has a password", _form("connection-new-test", **_CONNECTION)),
    "connection-test": ("reads", _form("connection-test", _of("connection_id", World.directory))),
    "connection-rights": ("reads", _form("connection-rights", _of("connection_id", lambda site: site.connection))),
}  # fmt: skip
"""What is answered with a page, and why that does nothing."""

PREVIEWS: dict[str, Sent] = {
    "deleted-object": _object("deleted-object", lambda site: site.gone, preview="yes"),
    "selection": _form("selection", chosen=_ada, action="move"),
    "role-edit": _form(
        "role-edit",
        _of("role_id", lambda site: site.key(may=["directory.read_object"]).role),
        name="Readers",
        permissions=["directory.read_object", "directory.unlock_account"],
    ),
    "role-new": _form("role-new", preset="auditor"),
    "object-new": lambda site: _new_object(site, "group"),
    "object-edit": _object("object-edit", lambda site: site.ada, **{"attributes.title": "Countess"}),
    "object-disable": _object("object-disable", lambda site: site.ada),
    "object-move": _object("object-move", lambda site: site.ada, parent=lambda site, _: site.unit),
    "object-rename": _object("object-rename", lambda site: site.ada, name="Ada King"),
    "object-delete": _object("object-delete", lambda site: site.ada),
    "object-change-members": _object("object-change-members", lambda site: site.analysts, add=_ada),
}
"""Forms at addresses that do something, which ask what it would be first."""

ELSEWHERE = {
    *("connection-rotate-password", "signed-out-elsewhere"),
    *("sign-in-by-passkey", "sign-in-passkey-options", "sign-in-code-options", "changes-passkey", "passkey-options"),
    *("passkey-begin", "passkey-add", "passkey-rename", "passkey-remove", "passkey-recovery-codes"),
}
"""What `tests/directory/changes/test_bind_password_rotation.py` does, with an account and a policy of its own,
`tests/keys/sign_in/test_passkeys.py`, with devices, and `tests/keys/sign_in/oidc/`, as a provider."""

LEAVES_NO_TRACE = {
    *("sign-in", "sign-in-code", "sign-out", "set-up", "invitation", "language", "choose-directory", "search-columns"),
    *("sessions-end-others", "session-end", "access-token", "log-verify", "key-new-anew"),
    *("selection", "selection-recipe", "selection-undo", "selection-password", "change-template-use"),
    *("object-take-groups", "object-leave"),
}
"""What is kept in sessions, in cookies, in the cache or in tables that nobody administers, or was done by others."""
