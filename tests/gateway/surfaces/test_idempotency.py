"""Idempotency keys when something goes wrong: whose a key is, and for how long."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.conf import LazySettings
from django.db import OperationalError
from django.db.models import QuerySet
from django.utils import timezone

from active_directory import Client
from approvals.models import ChangeRequest
from audit.models import OperationRecord
from core.call import SupervisionLevel
from core.configuration_sections import RateLimit
from core.secrets.keyring import new_encryption_key
from directory.models import DirectoryConnection, SavedFilter
from directory.queries import reading
from gateway.models import IdempotencyRecord
from gateway.surfaces import idempotency
from gateway.surfaces.idempotency import LEASE
from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from lab.proxy import FaultyProxy
from lab.waiting import wait_until
from tests.support.cast import Answer, Integration, make_connection, make_integration
from tests.support.configuration import Configure
from tests.support.mishaps import just_before_the_write, killed_at_the_write, settle, unknown_outcome

pytestmark = pytest.mark.sqlite


def change(integration: Integration, ada: UUID) -> Answer:
    return integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}, Idempotency_Key="one")


def abandon_first(integration: Integration, ada: UUID, *, last_sign_of_life: timedelta) -> None:
    """Leave the claim of a request whose process was killed."""
    assert change(integration, ada).status == 200
    IdempotencyRecord.objects.update(status=None, body="", lease_until=timezone.now() - last_sign_of_life + LEASE)


def test_a_killed_request_keeps_its_key_for_half_a_minute(integration: Integration, ada: UUID) -> None:
    assert timedelta(seconds=28) <= LEASE <= timedelta(seconds=31)
    abandon_first(integration, ada, last_sign_of_life=timedelta(minutes=-1))  # it ends while nobody looks at the clock
    refused = change(integration, ada)
    assert (refused.status, refused.code) == (409, "Idempotency.InProgress")


def test_what_others_did_since_is_not_undone_by_a_retry(
    integration: Integration, ada: UUID, directory: Directory
) -> None:
    abandon_first(integration, ada, last_sign_of_life=timedelta(seconds=31))
    directory.modify(ada, title="Baroness")
    answer = change(integration, ada)
    assert (answer.status, answer.body["attributes"]["title"]) == (200, ["Baroness"])
    assert directory.text(ada, "title") == "Baroness"
    assert change(integration, ada).headers["Idempotency-Replayed"] == "true"


def test_what_the_killed_request_did_is_not_done_again(integration: Integration, ada: UUID) -> None:
    abandon_first(integration, ada, last_sign_of_life=timedelta(seconds=31))
    assert change(integration, ada).status == 200
    assert OperationRecord.objects.filter(operation="users.update").count() == 1


def test_an_answer_that_comes_while_its_key_is_taken_over_is_replayed(
    integration: Integration, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandon_first(integration, ada, last_sign_of_life=timedelta(seconds=31))
    take_over = idempotency._take_over

    def answer_first(*claims: IdempotencyRecord, is_free: bool) -> bool:
        IdempotencyRecord.objects.update(status=412, body='{"code": "the first"}')
        return take_over(*claims, is_free=is_free)

    monkeypatch.setattr(idempotency, "_take_over", answer_first)
    answer = change(integration, ada)
    assert (answer.status, answer.code) == (412, "the first")
    assert answer.headers["Idempotency-Replayed"] == "true"


def test_a_process_that_was_suspended_does_not_do_what_the_retry_has_done(
    integration: Integration, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    retried: list[Answer] = []

    def be_suspended() -> None:
        IdempotencyRecord.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        retried.append(change(integration, ada))

    just_before_the_write(monkeypatch, be_suspended)
    assert change(integration, ada).status == 503
    assert [answer.status for answer in retried] == [200]
    assert done() == 1
    assert change(integration, ada).headers["Idempotency-Replayed"] == "true", "the answer of the retry is kept"


@pytest.mark.parametrize("level", [SupervisionLevel.ACT, SupervisionLevel.ASK_EVERY_CHANGE])
@pytest.mark.parametrize("kind", ["change", "batch", "own table"])
def test_a_request_that_has_lost_its_key_changes_nothing(
    connection: DirectoryConnection, directory: Directory, ada: UUID, monkeypatch: pytest.MonkeyPatch,
    kind: str, level: SupervisionLevel,
) -> None:  # fmt: skip
    integration, title = make_integration(connection, level=level), {"replace": {"title": "Countess"}}
    path, body = {
        "change": (f"/api/ad/users/{ada}/rename", {"name": "Countess"}),
        "batch": ("/api/ad/users/batch/update", {"items": [{"id": str(ada), **title}]}),
        "own table": ("/api/ad/saved-filters", {"name": "Readers", "kind": "users", "filter": "(cn=a)"}),
    }[kind]
    before = directory.dn(ada), directory.text(ada, "title")
    with monkeypatch.context() as patch:
        patch.setattr(idempotency, "_still_holds", lambda _: False)
        answer = integration.post(path, body, Idempotency_Key="one")
    assert answer.status == 503 or answer.body["failed"] == 1
    assert not ChangeRequest.objects.exists()
    assert not SavedFilter.objects.exists()
    changed = OperationRecord.objects.filter(outcome__in=["pending", "succeeded", "queued"])
    assert not changed.exists()
    assert (directory.dn(ada), directory.text(ada, "title")) == before
    assert integration.post(path, body, Idempotency_Key="two").status in (200, 201, 202, 207)
    assert changed.exclude(operation="users.read").exists(), "it is possible in itself"


@pytest.mark.django_db(transaction=True)
def test_a_slow_request_keeps_its_key(integration: Integration, ada: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(idempotency, "LEASE", timedelta(seconds=0.3))

    def grow_old() -> None:
        IdempotencyRecord.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        wait_until(IdempotencyRecord.objects.filter(lease_until__gt=timezone.now()).exists)
        seen.append(change(integration, ada))

    just_before_the_write(monkeypatch, grow_old)
    assert change(integration, ada).status == 200
    assert [(answer.status, answer.code) for answer in seen] == [(409, "Idempotency.InProgress")]


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_cannot_be_kept_is_given_all_the_same(
    integration: Integration, ada: UUID, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(queryset: QuerySet, **fields: Any) -> int:
        if queryset.model is IdempotencyRecord:
            raise OperationalError("the connection is lost")
        return original(queryset, **fields)

    original = QuerySet.update
    monkeypatch.setattr(QuerySet, "update", fail)
    answer = change(integration, ada)
    assert answer.status == 200
    assert directory.text(ada, "title") == "Countess"
    assert change(integration, ada).code == "Idempotency.InProgress"


def test_the_key_of_a_failed_request_is_its_retrys(
    integration: Integration, ada: UUID, directory: Directory, domain: Domain
) -> None:
    domain.controller.stop()
    try:
        assert change(integration, ada).status == 503
    finally:
        domain.controller.start_and_wait()
        directory.reconnect()
    assert change(integration, ada).status == 200
    assert change(integration, ada).headers["Idempotency-Replayed"] == "true"


def test_a_request_over_a_limit_leaves_its_key_to_the_retry(
    integration: Integration, directory: Directory, organizational_unit: str, limited: None, configure: Configure
) -> None:
    """What the operation counts itself, which is behind the key: the middleware's limits are before it."""
    configure("RateLimiting", PasswordChange=RateLimit(Requests=1, WindowSeconds=300))
    account = directory.add_user(parent=organizational_unit, password=PASSWORD)
    directory.modify(account, pwdLastSet="0")

    def ask(current: str, key: str) -> Answer:
        body = {"currentPassword": current, "newPassword": "Engine-Number-2"}
        return integration.post(f"/api/ad/users/{account}/change-password", body, Idempotency_Key=key)

    assert ask("Not-Hers-1", "first").status == 422
    for _ in range(2):
        refused = ask(PASSWORD, "one")
        assert (refused.status, refused.code) == (429, "RateLimit.Exceeded")
        assert "Idempotency-Replayed" not in refused.headers
        assert refused.headers["Retry-After"]
    configure("RateLimiting", PasswordChange=RateLimit(Requests=10, WindowSeconds=300))
    done_now = ask(PASSWORD, "one")
    assert (done_now.status, "Idempotency-Replayed" in done_now.headers) == (204, False)
    assert directory.can_sign_in(account, "Engine-Number-2")
    assert ask(PASSWORD, "one").headers["Idempotency-Replayed"] == "true"


@pytest.fixture
def group(directory: Directory, organizational_unit: str, ada: UUID) -> UUID:
    return directory.add_group(parent=organizational_unit, members=[ada])


def ask_and_die(
    monkeypatch: pytest.MonkeyPatch, integration: Integration, method: str, path: str, body: Any, *, after_write: bool
) -> None:
    """A request whose process is killed at its write; half a minute later nobody holds its key any more."""
    with monkeypatch.context() as patch, killed_at_the_write(after_write=after_write):
        patch.setattr(idempotency, "_end_claim", lambda *_: None)  # a killed process gives nothing back
        integration.call(method, path, body, Idempotency_Key="one")
    IdempotencyRecord.objects.update(lease_until=timezone.now() - timedelta(seconds=1))


Asked = tuple[str, str, Any]


@pytest.fixture(params=["create", "update", "delete", "reset", "generate", "rename", "leave"])
def asked(request: pytest.FixtureRequest, ada: UUID, group: UUID, organizational_unit: str) -> Asked:
    user = f"/api/ad/users/{ada}"
    requests: dict[str, Asked] = {
        "create": ("POST", "/api/ad/users", {"name": random_name("new"), "parent": organizational_unit}),
        "update": ("PATCH", user, {"replace": {"title": "Countess"}}),
        "delete": ("DELETE", user, None),
        "reset": ("POST", f"{user}/reset-password", {"newPassword": "Other-Horse-10"}),
        "generate": ("POST", f"{user}/reset-password", {"generate": True}),
        "rename": ("POST", f"{user}/rename", {"name": random_name("renamed")}),
        "leave": ("POST", f"/api/ad/groups/{group}/members", {"remove": [str(ada)]}),
    }
    return requests[request.param]


def done(**filters: Any) -> int:
    return OperationRecord.objects.filter(outcome="succeeded", **filters).exclude(operation="users.read").count()


def test_what_was_done_is_answered_as_if_nothing_had_happened(
    integration: Integration, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_and_die(monkeypatch, integration, *asked, after_write=True)
    assert integration.call(*asked, Idempotency_Key="one").code == "Idempotency.InProgress", "nobody knows yet"
    settle(nothing_under_way=True)
    again = integration.call(*asked, Idempotency_Key="one")
    assert again.status == {"DELETE": 204}.get(asked[0], 201 if asked[1].endswith("/users") else 200), again
    if "reset-password" in asked[1]:
        assert again.body == {"generatedPassword": None}
    assert done() == 1
    assert integration.call(*asked, Idempotency_Key="one").headers["Idempotency-Replayed"] == "true"


def test_what_was_not_done_is_done_now(integration: Integration, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_and_die(monkeypatch, integration, *asked, after_write=False)
    settle(nothing_under_way=True)
    assert done() == 0
    again = integration.call(*asked, Idempotency_Key="one")
    assert again.status in (200, 201, 204)
    assert done() == 1


def test_after_several_killed_attempts(integration: Integration, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    for after_write in (False, True):
        ask_and_die(monkeypatch, integration, *asked, after_write=after_write)
        settle(nothing_under_way=True)
    assert len(IdempotencyRecord.objects.get().call_ids) == 2
    assert integration.call(*asked, Idempotency_Key="one").status in (200, 201, 204)
    assert done() == 1


def test_a_held_change_is_held_once(
    connection: DirectoryConnection, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    first = change(careful, ada)
    assert first.status == 202
    IdempotencyRecord.objects.update(status=None, body="", lease_until=timezone.now() - timedelta(seconds=1))
    again = change(careful, ada)
    assert (again.status, again.body) == (202, first.body)
    assert again.headers["Location"] == first.headers["Location"]
    assert ChangeRequest.objects.count() == 1


def test_a_change_that_was_held_although_its_request_failed_is_held_once(
    connection: DirectoryConnection, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: ChangeRequest) -> None:
        raise OperationalError("the connection was lost after the commit was sent")

    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    with monkeypatch.context() as patch:
        patch.setattr("approvals.queue.queued_answer", fail)
        assert change(careful, ada).status == 503
    again = change(careful, ada)
    assert again.status == 202
    assert again.body["changeRequest"]["id"] == str(ChangeRequest.objects.get().id)


def test_items_of_a_batch(
    integration: Integration, directory: Directory, organizational_unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [{"name": random_name("new"), "parent": organizational_unit} for _ in range(2)]
    path = "/api/ad/users/batch/create"
    first = integration.post(path, {"items": items}, Idempotency_Key="one")
    IdempotencyRecord.objects.update(status=None, body="", lease_until=timezone.now() - timedelta(seconds=1))
    again = integration.post(path, {"items": items}, Idempotency_Key="one")
    assert (again.status, again.body) == (first.status, first.body)
    assert done() == 2


@pytest.mark.parametrize("asked", ["reset", "create", "update"], indirect=True)
@pytest.mark.parametrize("reached", [True, False])
def test_after_an_unknown_outcome_it_is_not_done_again(integration: Integration, asked: Asked, reached: bool) -> None:
    with unknown_outcome(after_write=reached):
        assert integration.call(*asked, Idempotency_Key="one").code == "AD.Directory.OutcomeUnknown"
    assert integration.call(*asked, Idempotency_Key="one").code == "Idempotency.InProgress"
    settle(nothing_under_way=True)
    assert integration.call(*asked, Idempotency_Key="one").status in (200, 201)
    assert done() == 1


@pytest.mark.django_db(transaction=True)  # the thread that signs in anew writes, too, and would wait for the test
def test_a_change_that_could_not_be_read_back(
    connection: DirectoryConnection, directory: Directory, ada: UUID, directory_proxy: FaultyProxy, domain: Domain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    integration = make_integration(make_connection(domain, url=directory_proxy.url))
    monkeypatch.setattr(reading, "RECOVERY_SECONDS", 1)
    write = Client.write

    def write_and_cut(client: Client, what: Any) -> str:
        server = write(client, what)
        directory_proxy.cut()
        return server

    with monkeypatch.context() as patch:
        patch.setattr(Client, "write", write_and_cut)
        answer = change(integration, ada)
    assert (answer.status, answer.code) == (504, "AD.Directory.OutcomeUnknown")
    assert answer.body["detail"].startswith("The change was made")
    directory_proxy.restore()
    directory.modify(ada, title="Baroness")
    assert change(integration, ada).status == 200
    assert directory.text(ada, "title") == "Baroness", "it is not made a second time"
    assert done() == 1


def test_a_retry_is_never_answered_with_another_requests_result(
    integration: Integration, directory: Directory, organizational_unit: str, ada: UUID, domain: Domain
) -> None:
    """One X-Request-Id for a whole job, as clients send it: it tells nothing about who did what."""
    job = {"X-Request-Id": "nightly-import"}
    bob = directory.add_user(parent=organizational_unit)
    asked: list[Asked] = [
        ("PATCH", f"/api/ad/users/{bob}", {"replace": {"title": "Clerk"}}),
        ("POST", "/api/ad/users", {"name": random_name("new"), "parent": organizational_unit}),
        ("DELETE", f"/api/ad/users/{bob}", None),
    ]
    assert integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}, **job).status == 200
    made = integration.post("/api/ad/users", {"name": random_name("other"), "parent": organizational_unit}, **job)
    assert integration.delete(f"/api/ad/users/{made.body['id']}", **job).status == 204
    for number, request in enumerate(asked):
        key = {"Idempotency_Key": f"row-{number}", **job}
        domain.controller.stop()
        try:
            assert integration.call(*request, **key).status == 503
        finally:
            domain.controller.start_and_wait()
            directory.reconnect()
        retried = integration.call(*request, **key)
        assert retried.status in (200, 201, 204), retried
        assert not retried.body or retried.body["id"] not in (str(ada), made.body["id"])
        assert done(operation=f"users.{['update', 'create', 'delete'][number]}") == 2
    assert not directory.exists(bob)


def test_one_that_was_held_is_its_own_requests(
    connection: DirectoryConnection, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    job, bob = {"X-Request-Id": "nightly-import"}, directory.add_user(parent=organizational_unit)
    body = {"replace": {"title": "Countess"}}
    first = careful.patch(f"/api/ad/users/{ada}", body, Idempotency_Key="ada", **job)
    IdempotencyRecord.objects.update(status=None, body="", lease_until=timezone.now() - timedelta(seconds=1))
    other = careful.patch(f"/api/ad/users/{bob}", body, Idempotency_Key="bob", **job)
    again = careful.patch(f"/api/ad/users/{ada}", body, Idempotency_Key="ada", **job)
    assert again.body == first.body != other.body


def test_a_retry_after_an_exchange_of_keys(integration: Integration, ada: UUID, settings: LazySettings) -> None:
    first = change(integration, ada)
    settings.ENCRYPTION_KEYS = [new_encryption_key(), *settings.ENCRYPTION_KEYS]
    again = change(integration, ada)
    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers["Idempotency-Replayed"] == "true"
    other = integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Duchess"}}, Idempotency_Key="one")
    assert (other.status, other.code) == (422, "Idempotency.KeyReused")


@pytest.fixture
def confined(connection: DirectoryConnection, directory: Directory, organizational_unit: str) -> Integration:
    return make_integration(connection, scopes=[directory.guid(organizational_unit)])


def test_a_replay_asks_for_scopes_anew(confined: Integration, ada: UUID, directory: Directory) -> None:
    first = change(confined, ada)
    again = change(confined, ada)
    assert (again.status, again.body) == (200, first.body)
    assert (again.headers["Idempotency-Replayed"], again.headers["ETag"]) == ("true", first.headers["ETag"])
    directory.move(ada, parent=directory.add_unit(random_name("elsewhere")))
    refused = change(confined, ada)
    assert (refused.status, refused.code) == (403, "Auth.Forbidden")
    assert "ETag" not in refused.headers


def test_a_replay_of_a_batch_asks_for_scopes_anew(confined: Integration, ada: UUID, directory: Directory) -> None:
    body = {"items": [{"id": str(ada), "replace": {"title": "Countess"}}]}
    for dry_run in ("", "?dryRun=true"):
        path = f"/api/ad/users/batch/update{dry_run}"
        assert confined.post(path, body, Idempotency_Key=f"one{dry_run}").status == 200
    directory.move(ada, parent=directory.add_unit(random_name("elsewhere")))
    refused = confined.post("/api/ad/users/batch/update", body, Idempotency_Key="one")
    assert (refused.status, refused.code) == (403, "Auth.Forbidden")
    shown = confined.post("/api/ad/users/batch/update?dryRun=true", body, Idempotency_Key="one?dryRun=true")
    assert shown.body["results"][0]["problem"]["code"] == "Auth.Forbidden"
    assert "Countess" not in str(shown.body)


def test_a_replay_under_other_rights_shows_what_may_be_seen_now(integration: Integration, ada: UUID) -> None:
    assert change(integration, ada).body["attributes"]["title"] == ["Countess"]
    kept = integration.key.role.permissions
    kept.remove(*kept.filter(codename__in=["read_object", "manage_protected"]))
    read_anew = change(integration, ada)
    assert read_anew.headers["Idempotency-Replayed"] == "true"
    kept.remove(*kept.filter(codename="update_user"))
    assert change(integration, ada).status == 403


def test_a_refusal_under_other_rights_is_not_repeated(integration: Integration, ada: UUID) -> None:
    taken = list(integration.key.role.permissions.filter(codename__in=["enable_account", "disable_account"]))
    integration.key.role.permissions.remove(*taken)
    body = {"replace": {"userAccountControl": "514"}}
    refused = integration.patch(f"/api/ad/users/{ada}", body, Idempotency_Key="one")
    assert refused.status == 403
    integration.key.role.permissions.add(*taken)
    assert integration.patch(f"/api/ad/users/{ada}", body, Idempotency_Key="one").status == 200
