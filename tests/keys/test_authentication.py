"""API keys and platform tokens on the machine surface: what they admit, and every way they are refused."""

import random
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client, RequestFactory
from django.utils import timezone
from structlog.testing import capture_logs

from core.call import Surface
from core.errors import Forbidden, InvalidRequest, Unauthorized
from directory.models import DirectoryConnection
from keys import api_keys, credential_values
from keys.authentication import identify_program, read_reason
from keys.models import AccessToken, ApiKey
from keys.permissions import cache
from keys.permissions.effective import call_for_key
from tests.support.cast import Answer, Console, Integration, make_integration, make_person, permissions, send

pytestmark = pytest.mark.sqlite

READ = "directory.read_object"
UPDATE = "directory.update_user"


@pytest.fixture
def integration(connection: DirectoryConnection) -> Integration:
    return make_integration(connection, may=[READ, UPDATE])


def change(integration: Integration, **values: Any) -> None:
    ApiKey.objects.filter(pk=integration.key.pk).update(**values)


def test_it_works(integration: Integration, connection: DirectoryConnection) -> None:
    answer = integration.get("/api/me")
    assert answer.status == 200
    assert answer.body == {
        "subject": {"username": integration.key.owner.username, "displayName": integration.key.owner.username},
        "credential": {"kind": "apiKey", "name": integration.key.name, "expiresAt": None},
        "directory": {"name": connection.name, "clientId": integration.client_id},
        "permissions": [READ, UPDATE],
        "scopes": [],
        "supervisionLevel": "act",
        "budgets": [],
    }


def test_four_queries_decide_about_a_key(
    integration: Integration, django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that read it anew; `test_access_state` tells when that is."""
    monkeypatch.setattr("keys.permissions.cache.read_state", lambda: None)
    change(integration, last_used_at=timezone.now())
    request = RequestFactory().get("/api/me", headers={"X-API-Key": integration.value})
    identify_program(request)
    with django_assert_num_queries(4):
        identify_program(request)


REFUSALS: dict[str, Callable[[Integration], Any]] = {
    "API key revoked": lambda it: api_keys.revoke(it.key, revoked_by_id=it.key.owner_id),
    "API key expired": lambda it: change(it, expires_at=timezone.now()),
    "owner deactivated": lambda it: type(it.key.owner).objects.filter(pk=it.key.owner_id).update(is_active=False),
    "address not allowed": lambda it: change(it, allowed_addresses=["192.0.2.0/24"]),
    "wrong secret": lambda it: change(it, digest="0" * 64),
    "unknown API key": lambda it: change(it, lookup_id="000000000000"),
    "malformed API key": lambda it: setattr(it, "value", it.value[:-1] + "~"),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_every_refusal_looks_the_same_outside(reason: str, integration: Integration) -> None:
    assert integration.get("/api/me").status == 200
    REFUSALS[reason](integration)
    with capture_logs() as logs:
        answer = integration.get("/api/me")
    assert (answer.status, answer.code) == (401, "Auth.Unauthorized")
    assert "WWW-Authenticate" in answer.headers
    nothing = send(Client(), "GET", "/api/me")
    for body in (answer.body, nothing.body):
        del body["requestId"]
    assert answer.body == nothing.body
    assert reason in [line.get("reason") for line in logs]
    assert integration.value not in str(logs)


def test_a_wrong_checksum_is_refused_before_the_key_is_looked_for(
    integration: Integration, django_assert_num_queries: Any
) -> None:
    spoilt = integration.value[:-1] + ("0" if integration.value[-1] != "0" else "1")
    request = RequestFactory().get("/api/me", headers={"X-API-Key": spoilt})
    with django_assert_num_queries(0), pytest.raises(Unauthorized):
        identify_program(request)


def test_no_credential_works_in_the_others_place(integration: Integration, console: Console) -> None:
    token = console.post("/rest/session/access-token").body["accessToken"]
    assert send(Client(), "GET", "/api/me", Authorization=f"Bearer {integration.value}").status == 401
    assert send(Client(), "GET", "/api/me", Authorization=f"Basic {token}").status == 401
    assert send(Client(), "GET", "/api/me", X_API_Key=token).status == 401
    assert send(console.client, "GET", "/api/me").status == 401
    assert send(Client(), "GET", "/rest/me", X_API_Key=integration.value).status == 401
    assert send(Client(), "GET", "/rest/me", Authorization=f"Bearer {token}").status == 401
    both = send(Client(), "GET", "/api/me", X_API_Key=integration.value, Authorization=f"Bearer {token}")
    assert (both.status, both.code) == (400, "Request.AmbiguousCredential")


@pytest.mark.parametrize("allowed", ["127.0.0.1", "127.0.0.0/8", "::1/128"])
def test_allowed_addresses(allowed: str, integration: Integration) -> None:
    change(integration, allowed_addresses=["192.0.2.1", allowed])
    expected = 401 if allowed.startswith("::") else 200
    assert integration.get("/api/me").status == expected


def test_permissions_are_the_roles_that_the_owner_holds_now(connection: DirectoryConnection) -> None:
    integration = make_integration(connection, may=[READ, UPDATE, "audit.read_log"], owner_may=[READ])
    assert integration.get("/api/me").body["permissions"] == [READ]
    group = Group.objects.create(name="operators")
    group.permissions.set(permissions([UPDATE, "directory.delete_user"]))
    owner = integration.key.owner
    owner.groups.add(group)
    assert integration.get("/api/me").body["permissions"] == [READ, UPDATE]
    owner.user_permissions.clear()
    assert integration.get("/api/me").body["permissions"] == [UPDATE]
    type(owner).objects.filter(pk=owner.pk).update(is_superuser=True)
    assert integration.get("/api/me").body["permissions"] == ["audit.read_log", READ, UPDATE]
    integration.key.role.permissions.clear()
    assert integration.get("/api/me").body["permissions"] == []


def directory_of(answer: Answer) -> str | None:
    return answer.body["directory"] and answer.body["directory"]["clientId"]


def test_the_client_id_chooses_the_directory(
    integration: Integration, make_directory: Callable[..., DirectoryConnection]
) -> None:
    assert directory_of(integration.get("/api/me", X_Client_Id=integration.client_id or "")) == integration.client_id
    second = api_keys.link(integration.key, make_directory())
    assert directory_of(integration.get("/api/me")) is None
    assert integration.get("/api/ad/users/by-dn?dn=CN=x").code == "Request.ClientIdRequired"
    chosen = integration.get("/api/me", X_Client_Id=str(second.client_id).upper())
    assert directory_of(chosen) == str(second.client_id)


def read(integration: Integration, **headers: str) -> Answer:
    return integration.get("/api/ad/users/0c3a6f5e-1111-4222-8333-944455556666", **headers)


def test_a_directory_that_the_key_may_not_use_is_forbidden(
    integration: Integration, connection: DirectoryConnection, make_directory: Callable[..., DirectoryConnection]
) -> None:
    other = make_directory()
    for client_id in (other.client_id, connection.client_id, "nonsense", ""):
        answer = read(integration, X_Client_Id=client_id)
        assert (answer.status, answer.code) == (403, "Auth.Forbidden"), client_id
    connection.enabled = False
    connection.save()
    assert read(integration).status == 403
    assert integration.get("/api/me").status == 200
    integration.key.links.all().delete()
    assert read(integration).status == 403


def test_a_rotated_value_ends_after_its_grace(integration: Integration) -> None:
    old = integration.value
    integration.value = api_keys.rotate(integration.key, grace=timedelta(hours=1))
    assert integration.get("/api/me").status == 200
    assert send(Client(), "GET", "/api/me", X_API_Key=old).status == 200
    change(integration, previous_valid_until=timezone.now())
    assert send(Client(), "GET", "/api/me", X_API_Key=old).status == 401
    assert integration.get("/api/me").status == 200
    newest = api_keys.rotate(integration.key)
    assert integration.get("/api/me").status == 401
    assert send(Client(), "GET", "/api/me", X_API_Key=newest).status == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("by", ["expiry", "rotation"])
def test_a_value_ends_in_time_although_nothing_changes(
    integration: Integration, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = integration.value
    if by == "expiry":
        change(integration, expires_at=timezone.now() + timedelta(hours=1))
    else:
        api_keys.rotate(integration.key, grace=timedelta(hours=1))

    def status() -> int:
        return send(Client(), "GET", "/api/me", X_API_Key=value).status

    assert [status(), status()] == [200, 200]
    state, now = cache.read_state(), timezone.now
    with monkeypatch.context() as later:
        later.setattr(timezone, "now", lambda: now() + timedelta(minutes=59))
        assert status() == 200
        later.setattr(timezone, "now", lambda: now() + timedelta(minutes=61))
        assert status() == 401
    assert status() == 200
    assert cache.read_state() == state is not None


@pytest.mark.django_db(transaction=True)
def test_what_is_kept_of_callers_is_bounded(integration: Integration, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MOST_FACTS", 5)
    client_id = str(integration.key.links.get().connection.client_id)
    for number in range(20):
        spelling = "".join(random.Random(number).choice((each, each.upper())) for each in client_id)  # noqa: S311
        assert integration.get("/api/me", X_Client_Id=spelling).status == 200
        assert len(cache.kept_facts._kept.facts) <= 5


@pytest.mark.django_db(transaction=True)
def test_the_last_use_is_written_once_a_minute(integration: Integration) -> None:
    def last_used() -> Any:
        return ApiKey.objects.values_list("last_used_at", "last_used_address").get(pk=integration.key.pk)

    integration.get("/api/me")
    deadline = time.monotonic() + 60
    while last_used()[0] is None and time.monotonic() < deadline:
        time.sleep(0.02)
    first = last_used()
    assert first[1] == "127.0.0.1"
    integration.get("/api/me")
    time.sleep(0.1)
    assert last_used() == first


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("seconds_ago", "is_due"), [(None, True), (61, True), (40, False)])
def test_a_use_is_noted_a_minute_after_the_last(
    integration: Integration, seconds_ago: float | None, is_due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[datetime] = []
    monkeypatch.setattr(api_keys, "_write", lambda _of, at, _address: noted.append(at))
    key = integration.key
    key.last_used_at = None if seconds_ago is None else timezone.now() - timedelta(seconds=seconds_ago)
    for _ in range(3):
        api_keys.note_use(key, address="::1")
    api_keys._writer().submit(lambda: None).result()  # behind all that was to be written
    assert len(noted) == is_due
    assert api_keys._noted_until[key.id] - time.monotonic() <= (60 if is_due else 20)


def test_a_platform_token_acts_as_its_person(connection: DirectoryConnection) -> None:
    person = make_person(may=[READ, "keys.view_role"])
    console = Console(person)
    issued = console.post("/rest/session/access-token")
    assert issued.status == 201
    assert issued.body["accessToken"].startswith("dgp_")

    def me(**headers: str) -> Answer:
        return send(Client(), "GET", "/api/me", Authorization=f"bearer {issued.body['accessToken']}", **headers)

    body = me().body
    assert body["subject"]["username"] == person.username
    assert body["credential"] == {"kind": "platformToken", "name": None, "expiresAt": issued.body["expiresAt"]}
    assert body["permissions"] == [READ, "keys.view_role"]
    assert body["supervisionLevel"] is None
    assert body["directory"] == {"name": connection.name, "clientId": connection.client_id}
    assert me(X_Client_Id="5f0c6d0e-8f9e-4d6e-9c39-0d9a4f5f7a11").body["directory"] is None


def test_a_local_account_names_one_of_several_directories(
    connection: DirectoryConnection, make_directory: Callable[..., DirectoryConnection]
) -> None:
    second = make_directory()
    console = Console(make_person(may=[READ]))
    guid = "0c3a6f5e-1111-4222-8333-944455556666"
    assert console.get(f"/rest/ad/users/{guid}").code == "Request.ClientIdRequired"
    chosen = console.call("GET", "/rest/me", X_Client_Id=second.client_id)
    assert chosen.body["directory"]["name"] == second.name


def test_a_token_ends(console: Console) -> None:
    def status(token: str) -> int:
        return send(Client(), "GET", "/api/me", Authorization=f"Bearer {token}").status

    def issue() -> str:
        return console.post("/rest/session/access-token").body["accessToken"]

    expired, foreign, signed_out = issue(), issue(), issue()
    assert [status(token) for token in (expired, foreign, signed_out)] == [200, 200, 200]
    AccessToken.objects.filter(lookup_id=expired[4:16]).update(expires_at=timezone.now())
    AccessToken.objects.filter(lookup_id=foreign[4:16]).update(digest="0" * 64)
    assert [
        status(token)
        for token in (expired, foreign, credential_values.make(credential_values.Prefix.PLATFORM_TOKEN)[0])
    ] == [401] * 3
    type(console.person).objects.update(is_active=False)
    assert status(signed_out) == 401
    type(console.person).objects.update(is_active=True)
    assert console.delete("/rest/session").status == 204
    assert status(signed_out) == 401


def test_a_token_ends_with_its_session_however_that_ends(console: Console) -> None:
    def issue() -> str:
        return console.post("/rest/session/access-token").body["accessToken"]

    token = issue()
    console.client.post("/admin/logout/", headers={"X-CSRFToken": console.token})
    assert send(Client(), "GET", "/api/me", Authorization=f"Bearer {token}").status == 401


def test_later_work_is_checked_anew(integration: Integration, connection: DirectoryConnection) -> None:
    def later() -> frozenset[str]:
        call = call_for_key(
            str(integration.key.pk), connection_id=connection.id, surface=Surface.WORKER, request_id="later"
        )
        return call.permissions

    change(integration, allowed_addresses=["192.0.2.1"])  # the address was checked when it was asked for
    assert later() == {READ, UPDATE}
    integration.key.owner.user_permissions.set(permissions([READ]))
    assert later() == {READ}
    for undo in (
        {"expires_at": timezone.now()},
        {"revoked_at": timezone.now(), "expires_at": None},
    ):
        change(integration, **undo)
        with pytest.raises(Forbidden):
            later()
    change(integration, revoked_at=None)
    connection.enabled = False
    connection.save()
    with pytest.raises(Forbidden):
        later()
    with pytest.raises(Forbidden):
        call_for_key("no key", connection_id=connection.id, surface=Surface.WORKER, request_id="later")


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (None, None),
        ("ticket 42", "ticket 42"),
        ("Gr\u00fc\u00dfe".encode().decode("latin-1"), "Grüße"),
        ("Gr%C3%BC%C3%9Fe", "Grüße"),
        ("100 % sure", "100 % sure"),
        ("x" * 500, "x" * 500),
        ("%C3%BC" * 500, "ü" * 500),
    ],
)
def test_reason(header: str | None, text: str | None) -> None:
    assert read_reason(header) == text


@pytest.mark.parametrize("header", ["", "  ", "x" * 501, "\xff", "%FF", "%00", "a%0Db"])
def test_a_reason_that_cannot_be_kept_is_refused(header: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read_reason(header)
    assert refusal.value.errors[0].parameter == "X-Change-Reason"
