"""More access for a key or a person: marked in the log, and left to a second person where the configuration says so."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from gateway import pipeline
from keys.models import ApiKey, Person, Role
from lab.directory import random_name
from tests.support.cast import Answer, Console, make_integration, make_person, permissions
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db

READ, DELETE, DECIDE = "directory.read_object", "directory.delete_user", "approvals.decide_change"
SOON = datetime(2031, 1, 1, tzinfo=UTC)


@pytest.fixture
def console() -> Console:
    return Console(make_person(superuser=True))


@pytest.fixture
def admin(console: Console) -> Client:
    client = Client()
    client.force_login(console.person)
    return client


@pytest.fixture
def approver() -> Console:
    return Console(make_person(may=[DECIDE]))


@pytest.fixture
def two(configure: Configure) -> None:
    configure("Approvals", AccessNeedsTwo=True)


def a_directory(**fields: Any) -> DirectoryConnection:
    given = {"urls": ["ldaps://127.0.0.1:1"], "base_dn": "DC=a", "bind_dn": "CN=b,DC=a", "bind_password": "c"}
    return DirectoryConnection.objects.create(name=random_name("corp"), **{**given, **fields})


def a_key(**fields: Any) -> ApiKey:
    return make_integration(None, may=[READ], level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY, **fields).key


def a_role(*scopes: str) -> Role:
    role = Role.objects.create(
        name=random_name("role"),
        scopes=[{"guid": scope, "distinguishedName": f"OU={scope}", "directoryId": scope} for scope in scopes],
    )
    role.permissions.set(permissions([READ]))
    return role


def wider_role() -> Role:
    role = a_role()
    role.permissions.set(permissions([READ, DELETE]))
    return role


Case = Callable[[], tuple[str, str, dict[str, Any]]]
"""Makes a thing; how it is changed on `/rest`."""


def _of_key(body: dict[str, Any], **fields: Any) -> Case:
    return lambda: ("PATCH", f"/rest/api-keys/{a_key(**fields).pk}", body)


def _of_person(body: dict[str, Any], **fields: Any) -> Case:
    def make() -> tuple[str, str, dict[str, Any]]:
        person = make_person(may=[READ])
        Person.objects.filter(pk=person.pk).update(**fields)
        return "PATCH", f"/rest/users/{person.public_id}", body

    return make


def _of_directory(body: dict[str, Any], **fields: Any) -> Case:
    return lambda: ("PATCH", f"/rest/directories/{a_directory(**fields).pk}", body)


MORE: dict[str, Case] = {
    "a lower level": _of_key({"supervisionLevel": "act"}),
    "no end": _of_key({"expiresAt": None}, expires_at=SOON),
    "a later end": _of_key({"expiresAt": "2032-01-01T00:00:00Z"}, expires_at=SOON),
    "from everywhere": _of_key({"allowedAddresses": []}, allowed_addresses=["192.0.2.1"]),
    "from further addresses": _of_key({"allowedAddresses": ["192.0.2.0/24"]}, allowed_addresses=["192.0.2.1"]),
    "from other addresses": _of_key({"allowedAddresses": ["2001:db8::1"]}, allowed_addresses=["192.0.2.1"]),
    "a wider role": lambda: ("PATCH", f"/rest/api-keys/{a_key().pk}", {"role": str(wider_role().pk)}),
    "a further directory": lambda: (
        *("POST", f"/rest/api-keys/{a_key().pk}/links"),
        {"directory": str(a_directory().pk)},
    ),
    "a new key": lambda: (
        *("POST", "/rest/api-keys"),
        {"name": "HR", "owner": make_person(may=[READ]).username, "role": str(a_role().pk)},
    ),
    "a permission of a role": lambda: ("PATCH", f"/rest/roles/{a_role().pk}", {"permissions": [READ, DELETE]}),
    "scopes lifted": lambda: (
        *("PATCH", f"/rest/roles/{a_role('0c3a6f5e-1111-4222-8333-944455556666').pk}"),
        {"scopes": []},
    ),
    "a permission of a person": _of_person({"permissions": [READ, DECIDE]}),
    "a person again": _of_person({"active": True}, is_active=False),
    "a new person": lambda: (
        *("POST", "/rest/users"),
        {"username": random_name("ada"), "permissions": [READ]},
    ),
    "a directory again": _of_directory({"enabled": True}, enabled=False),
    "another account of the gateway": _of_directory({"bindDn": "CN=c,DC=a", "bindPassword": "d"}),
}

NOT_MORE: dict[str, Case] = {
    "a stricter level": _of_key({"supervisionLevel": "ask_every_change"}),
    "an end": _of_key({"expiresAt": "2031-01-01T00:00:00Z"}),
    "an earlier end": _of_key({"expiresAt": "2030-01-01T00:00:00Z"}, expires_at=SOON),
    "from one address": _of_key({"allowedAddresses": ["192.0.2.1"]}),
    "from fewer addresses": _of_key({"allowedAddresses": ["192.0.2.1"]}, allowed_addresses=["192.0.2.0/24"]),
    "another name": _of_key({"name": "Payroll"}),
    "a narrower role": lambda: ("PATCH", f"/rest/roles/{wider_role().pk}", {"permissions": [READ]}),
    "a new role": lambda: ("POST", "/rest/roles", {"name": random_name("role"), "permissions": [READ]}),
    "fewer permissions": _of_person({"permissions": []}),
    "a deactivated person": _of_person({"active": False}),
    "a person who may do nothing": lambda: (
        *("POST", "/rest/users"),
        {"username": random_name("ada")},
    ),
}


def the_record() -> OperationRecord:
    return OperationRecord.objects.exclude(changes=[]).get()


@pytest.mark.parametrize("name", MORE)
def test_more_is_marked(name: str, console: Console) -> None:
    method, path, body = MORE[name]()
    answer = console.call(method, path, body)
    assert answer.status in (200, 201), answer
    assert the_record().raised_access
    [shown] = console.get("/rest/operations?raisesAccess=true").body["items"]
    assert shown["id"] == str(the_record().id)
    assert shown["raisesAccess"] == the_record().raised_access
    assert console.get("/rest/operations?raisesAccess=false").body["items"] == []


@pytest.mark.parametrize("name", NOT_MORE)
def test_less_is_not(name: str, console: Console, two: None) -> None:
    method, path, body = NOT_MORE[name]()
    answer = console.call(method, path, body)
    assert answer.status in (200, 201), answer
    assert the_record().raised_access is None


@pytest.mark.parametrize("name", MORE)
def test_more_waits_for_a_second_person(name: str, console: Console, approver: Console, two: None) -> None:
    method, path, body = MORE[name]()
    tables = all_rows()
    answer = console.call(method, path, body)
    held = held_by(answer)
    assert all_rows() == tables, "nothing was done yet"
    assert (held.status, held.risk, held.requester_id) == ("pending", "security", console.person.pk)
    assert all(reason.startswith("This gives more access: ") for reason in held.risk_reasons)
    [queued] = OperationRecord.objects.all()
    assert (queued.outcome, queued.change_request_id) == ("queued", held.id)
    assert queued.raised_access
    assert decide(console, held).code == "Approvals.OwnRequest"
    assert decide(approver, held).status == 200
    pipeline.apply_change_request(held.id)
    held.refresh_from_db()
    assert (held.status, held.input) == ("applied", "")
    assert all_rows() != tables
    [done] = OperationRecord.objects.filter(surface="worker")
    assert (done.operation, done.owner) == (held.operation, console.person.username)
    assert (done.approved_by, done.change_request_id) == (approver.person.username, held.id)
    assert done.raised_access
    pipeline.apply_change_request(held.id)
    assert OperationRecord.objects.filter(surface="worker").count() == 1


def held_by(answer: Answer) -> ChangeRequest:
    assert answer.status == 202, answer
    shown = answer.body["changeRequest"]
    assert answer.headers["Location"] == f"/rest/change-requests/{shown['id']}"
    return ChangeRequest.objects.get(id=shown["id"])


def decide(console: Console, held: ChangeRequest, **more: Any) -> Answer:
    return console.post(f"/rest/change-requests/{held.id}/approve", {"digest": held.digest, **more})


def all_rows() -> list[Any]:
    tables = (ApiKey, Role, Person, DirectoryConnection, Role.permissions.through, Person.user_permissions.through)
    rows = [sorted(map(repr, table._base_manager.values_list())) for table in tables]
    return [*rows, list(ApiKey.objects.order_by("pk").values_list("pk", "links__connection"))]


def test_the_one_who_asked_gets_the_value_of_a_new_key(console: Console, approver: Console, two: None) -> None:
    """The value of the answer to nobody is lost; a rotation, which gives no more access, makes another."""
    method, path, body = MORE["a new key"]()
    held = held_by(console.call(method, path, body))
    decide(approver, held)
    pipeline.apply_change_request(held.id)
    key = ApiKey.objects.get()
    assert key.created_by_id == console.person.pk
    assert console.post(f"/rest/api-keys/{key.pk}/rotate", {}).body["value"].startswith("dgk_")


@pytest.mark.parametrize("meanwhile", ["value", "role", "owner"])
def test_what_changed_meanwhile_is_not_what_was_approved(
    meanwhile: str, console: Console, approver: Console, two: None
) -> None:
    key, role, owner = a_key(), wider_role(), make_person("grace", may=[READ])
    if meanwhile == "owner":
        held = held_by(console.post("/rest/api-keys", {"name": "HR", "owner": "grace", "role": str(role.pk)}))
    else:
        held = held_by(console.patch(f"/rest/api-keys/{key.pk}", {"role": str(role.pk)}))
    assert console.get(f"/rest/change-requests/{held.id}/forecast").body["stale"] is False
    if meanwhile == "value":
        ApiKey.objects.filter(pk=key.pk).update(role=a_role())
    elif meanwhile == "role":
        role.permissions.add(*permissions(["directory.reset_password"]))
    else:  # the same name, somebody else
        Person.objects.filter(pk=owner.pk).update(username="hopper", name_key="hopper")
        make_person("grace", superuser=True)
    assert console.get(f"/rest/change-requests/{held.id}/forecast").body["stale"] is True
    decide(approver, held)
    rows = all_rows()
    pipeline.apply_change_request(held.id)
    held.refresh_from_db()
    assert held.status == "stale"
    assert all_rows() == rows
    assert not OperationRecord.objects.filter(surface="worker").exists()


def test_what_the_requester_may_not_do_any_more_fails(console: Console, approver: Console, two: None) -> None:
    method, path, body = MORE["a lower level"]()
    held = held_by(console.call(method, path, body))
    decide(approver, held)
    Person.objects.filter(pk=console.person.pk).update(is_superuser=False)
    pipeline.apply_change_request(held.id)
    held.refresh_from_db()
    assert (held.status, held.problem["code"]) == ("failed", "Auth.Forbidden")
    assert ApiKey.objects.get().supervision_level == "ask_destructive_security"


def test_in_the_back_office_it_is_refused(console: Console, admin: Client, two: None) -> None:
    person = make_person()
    rows = all_rows()
    for more in ("is_superuser", "is_staff"):
        response = admin.post(f"/admin/keys/person/{person.pk}/change/", {more: "on"})
        assert response.status_code == 409
        assert "a second person has approved it" in response.content.decode()
        assert all_rows() == rows
    assert not OperationRecord.objects.exclude(outcome="failed").exists()
    assert "successfully" not in admin.get("/admin/").content.decode()


def test_a_key_of_the_back_office_waits_too(console: Console, admin: Client, two: None) -> None:
    form = {"name": "HR", "owner": console.person.username, "role": str(a_role().pk), "supervisionLevel": "act"}
    told = admin.post("/admin/keys/apikey/add/", form, follow=True).content.decode()
    assert "a second person has to approve it" in told
    assert 'value="dgk_' not in told
    assert not ApiKey.objects.exists()
    held = ChangeRequest.objects.get()
    assert (held.operation, held.requester) == ("api-keys.create", console.person.username)


def test_the_console_goes_on_to_what_waits(console: Console, two: None) -> None:
    person = make_person()
    answer = console.submit(f"/console/people/{person.public_id}/permissions", permissions=[READ])
    held = ChangeRequest.objects.first()
    assert held is not None, answer
    assert (answer.status, answer.headers["Location"]) == (302, f"/console/changes/{held.id}")
    page = console.get(f"/console/changes/{held.id}").body.decode()
    assert "a second person has to approve it first" in page
    assert person.username in page


def test_the_page_of_one_that_waits(console: Console, approver: Console, two: None) -> None:
    method, path, body = MORE["a lower level"]()
    held = held_by(console.call(method, path, body))
    page = approver.get(f"/console/changes/{held.id}").body.decode()
    assert "fewer changes wait for a person" in page
    assert approver.get(f"/console/changes/{held.id}/forecast").status == 200
    staff = Client()
    Person.objects.filter(pk=approver.person.pk).update(is_staff=True)
    staff.force_login(approver.person)
    assert staff.get(f"/admin/approvals/changerequest/{held.id}/change/").status_code == 200


def test_it_expires_like_the_others(console: Console, approver: Console, two: None) -> None:
    method, path, body = MORE["a lower level"]()
    held = held_by(console.call(method, path, body))
    ChangeRequest.objects.filter(pk=held.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert decide(approver, held).code == "Approvals.NotPending"
