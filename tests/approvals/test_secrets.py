"""A password generated for an approved reset: kept before it is set, given once, to the approver alone, for a day."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection as database
from django.test import Client as Browser
from django.utils import timezone

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from gateway import pipeline, tasks
from gateway.pipeline import approved
from lab.directory import PASSWORD, Directory, random_name
from tests.approvals.temporary import Later, in_time
from tests.support.cast import Console, Integration, make_integration, make_person
from tests.support.markup import markup_of
from tests.support.mishaps import settle, unknown_outcome


@pytest.fixture
def approver(connection: DirectoryConnection) -> Console:
    return Console(make_person(may=["approvals.decide_change"]))


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Ada Lovelace", parent=organizational_unit, password=PASSWORD)


def ask(careful: Integration, ada: UUID, body: Any = None, *, action: str = "reset-password") -> str:
    answer = careful.post(f"/api/ad/users/{ada}/{action}", body or {"generate": True, "mustChange": False})
    assert answer.status == 202, answer
    return str(answer.body["changeRequest"]["id"])


def approve(approver: Console, held: str) -> None:
    digest = approver.get(f"/rest/change-requests/{held}").body["digest"]
    assert approver.post(f"/rest/change-requests/{held}/approve", {"digest": digest}).status == 200


def take(approver: Console, held: str, **headers: str) -> Any:
    return approver.post(f"/rest/change-requests/{held}/secret", **headers)


def stored() -> Iterator[str]:
    """Everything that the database holds, as it is stored."""
    for table in ("approvals_changerequest", "audit_operationrecord", "gateway_keptanswer"):
        with database.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")  # noqa: S608 - names of our own
            yield from (str(row) for row in cursor.fetchall())


def test_it_works(careful: Integration, approver: Console, directory: Directory, ada: UUID) -> None:
    held = ask(careful, ada)
    assert directory.can_sign_in(ada, PASSWORD)
    approve(approver, held)
    pipeline.apply_change_request(UUID(held))
    assert careful.get(f"/api/change-requests/{held}").body["status"] == "applied"
    answer = take(approver, held)
    assert answer.status == 200
    password = answer.body["generatedPassword"]
    assert directory.can_sign_in(ada, password)
    assert not any(password in text for text in stored())
    record = OperationRecord.objects.get(operation="change-requests.reveal-secret")
    assert (record.outcome, record.owner, str(record.target_id)) == ("succeeded", approver.person.username, held)


def test_it_is_given_once(careful: Integration, approver: Console, ada: UUID) -> None:
    held = ask(careful, ada)
    approve(approver, held)
    pipeline.apply_change_request(UUID(held))
    password = take(approver, held, Idempotency_Key="one").body["generatedPassword"]
    assert take(approver, held, Idempotency_Key="one").body == {"generatedPassword": None}
    again = take(approver, held)
    assert (again.status, again.code) == (404, "Request.NotFound")
    assert "given already" in again.body["detail"]
    assert not any(password in text for text in stored())
    assert ChangeRequest.objects.get().secret == ""


def test_only_to_the_approver(connection: DirectoryConnection, approver: Console, ada: UUID) -> None:
    requester = make_person(may=["approvals.decide_change", "directory.reset_password"])
    careful = make_integration(
        connection,
        may=["directory.reset_password"],
        owner=requester,
        level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY,
    )
    held = ask(careful, ada)
    assert take(approver, held).status == 403, "nobody has approved it"
    approve(approver, held)
    pipeline.apply_change_request(UUID(held))
    for other in (requester, make_person(may=["approvals.decide_change"]), make_person(superuser=True)):
        answer = take(Console(other), held)
        assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    assert careful.post(f"/api/change-requests/{held}/secret").status == 404
    approver.person.user_permissions.clear()
    assert take(approver, held).status == 403, "who may not decide any more gets nothing either"


def test_where_the_key_says_so_it_is_the_requesters(
    connection: DirectoryConnection, approver: Console, directory: Directory, ada: UUID
) -> None:
    owner = make_person(may=["directory.reset_password"])
    careful = make_integration(
        connection,
        may=["directory.reset_password"],
        owner=owner,
        level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY,
        passwords_to_requester=True,
    )
    held = ask(careful, ada)
    careful.key.passwords_to_requester = False  # what was asked for is as it was
    careful.key.save()
    requester = Console(owner)
    assert take(requester, held).status == 404, "there is none yet"
    approve(approver, held)
    assert take(requester, held).status == 409, "not before it is applied"
    pipeline.apply_change_request(UUID(held))
    for other in (approver, Console(make_person(superuser=True)), Console(make_person())):
        assert take(other, held).status == 403
    review = requester.get(f"/rest/change-requests/{held}/review").body
    assert (bool(review["secretUntil"]), review["secretForRequester"]) == (True, True)
    assert approver.get(f"/rest/change-requests/{held}/review").body["secretUntil"] is None
    assert directory.can_sign_in(ada, take(requester, held).body["generatedPassword"])
    assert take(requester, held).status == 404
    assert take(approver, ask(careful, ada)).status == 403


def test_where_nobody_has_to_approve_a_change_for_later_it_is_the_requesters(
    connection: DirectoryConnection, approver: Console, ada: UUID, later: Later
) -> None:
    owner = make_person(may=["directory.reset_password"])
    free = make_integration(connection, may=["directory.reset_password"], owner=owner, level=SupervisionLevel.ACT)
    asked = free.post(f"/api/ad/users/{ada}/reset-password", {"generate": True}, X_Apply_At=in_time(hours=1))
    held = asked.body["changeRequest"]["id"]
    later(hours=2)
    assert take(approver, held).status == 403
    assert take(Console(owner), held).body["generatedPassword"]


def test_not_before_it_is_applied(careful: Integration, approver: Console, ada: UUID) -> None:
    held = ask(careful, ada)
    approve(approver, held)
    answer = take(approver, held)
    assert (answer.status, answer.code) == (409, "Request.Conflict")


def test_nothing_was_generated(careful: Integration, approver: Console, directory: Directory, ada: UUID) -> None:
    held = ask(careful, ada, {"newPassword": "Engine-Number-2"})
    approve(approver, held)
    pipeline.apply_change_request(UUID(held))
    assert directory.can_sign_in(ada, "Engine-Number-2")
    assert take(approver, held).status == 404


def test_it_is_wiped_after_a_day(careful: Integration, approver: Console, ada: UUID) -> None:
    held = ask(careful, ada)
    approve(approver, held)
    pipeline.apply_change_request(UUID(held))
    kept = ChangeRequest.objects.get()
    assert kept.secret
    assert timedelta(hours=23.9) < kept.secret_until - timezone.now() < timedelta(hours=24)
    ChangeRequest.objects.update(secret_until=timezone.now())
    assert take(approver, held).status == 404, "over is over, before the sweep too"
    assert ChangeRequest.objects.get().secret
    tasks.sweep()
    kept = ChangeRequest.objects.get()
    assert (kept.secret, kept.secret_until) == ("", None)


def test_a_refused_one_leaves_nothing(
    careful: Integration, approver: Console, directory: Directory, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = ask(careful, ada)
    approve(approver, held)
    monkeypatch.setattr("directory.changes.passwords.generate_password", lambda *_, **__: "abcdefgh")
    pipeline.apply_change_request(UUID(held))
    kept = ChangeRequest.objects.get()
    assert (kept.status, kept.problem["code"]) == ("failed", "AD.Password.PolicyViolation")
    assert kept.problem["policy"]["minLength"] == 7
    assert (kept.secret, kept.secret_until) == ("", None)
    assert take(approver, held).status == 404
    assert directory.can_sign_in(ada, PASSWORD)


@pytest.mark.parametrize("reached", [True, False])
def test_an_answer_that_was_lost(
    careful: Integration,
    approver: Console,
    directory: Directory,
    ada: UUID,
    reached: bool,
) -> None:
    """Settled later as applied, the password is there; settled as not applied, it is gone, and another one is set."""
    held = ask(careful, ada)
    approve(approver, held)
    with unknown_outcome(after_write=reached):
        pipeline.apply_change_request(UUID(held))
    assert ChangeRequest.objects.get().status == "unknown"
    assert take(approver, held).status == 409
    # Days may pass until the domain controller is back; the approver's day begins when it is known.
    ChangeRequest.objects.update(secret_until=timezone.now() - timedelta(days=2))
    tasks.sweep()
    settle(nothing_under_way=True)
    if not reached:
        assert ChangeRequest.objects.get().status == "approved"
        assert ChangeRequest.objects.get().secret == ""
        assert take(approver, held).status == 409
        pipeline.apply_change_request(UUID(held))
    assert ChangeRequest.objects.get().status == "applied"
    assert directory.can_sign_in(ada, take(approver, held).body["generatedPassword"])


def test_nothing_is_written_that_cannot_be_kept(
    careful: Integration, approver: Console, directory: Directory, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = ask(careful, ada)
    approve(approver, held)
    propose: Any = vars(approved)["propose"]

    def settled_meanwhile(*args: Any, **options: Any) -> Any:
        proposed = propose(*args, **options)
        ChangeRequest.objects.update(status="failed")
        return proposed

    monkeypatch.setattr(approved, "propose", settled_meanwhile)
    pipeline.apply_change_request(UUID(held))
    assert directory.can_sign_in(ada, PASSWORD)
    assert ChangeRequest.objects.get().secret == ""


def test_a_password_set_meanwhile_makes_it_stale(
    careful: Integration, approver: Console, directory: Directory, ada: UUID
) -> None:
    held = ask(careful, ada)
    directory.modify(ada, unicodePwd='"Chosen-By-Ada-1"'.encode("utf-16-le"))
    approve(approver, held)
    pipeline.apply_change_request(UUID(held))
    assert ChangeRequest.objects.get().status == "stale"
    assert directory.can_sign_in(ada, "Chosen-By-Ada-1")


def test_the_passdocumented_as_a_new_account_is_hidden_and_wiped(
    careful: Integration, approver: Console, directory: Directory, organizational_unit: str
) -> None:
    body = {"name": "Grace", "parent": organizational_unit, "samAccountName": random_name("g"), "password": PASSWORD}
    answer = careful.post("/api/ad/users", body)
    assert answer.status == 202
    held = answer.body["changeRequest"]["id"]
    shown = json.dumps([careful.get(f"/api/change-requests/{held}").body, approver.get("/rest/change-requests").body])
    assert "<secret>" in shown
    assert PASSWORD not in shown
    assert not any(PASSWORD in text for text in stored())
    assert approver.post(f"/rest/change-requests/{held}/reject", {"comment": "Not now"}).status == 200
    assert ChangeRequest.objects.get().input == ""


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("reset-password", {"newPassword": "Engine-Number-2"}),
        ("change-password", {"currentPassword": PASSWORD, "newPassword": "Engine-Number-2"}),
    ],
)
def test_given_passwords_are_hidden_and_wiped(
    careful: Integration, approver: Console, directory: Directory, ada: UUID, action: str, body: dict[str, str]
) -> None:
    directory.modify(ada, pwdLastSet="0")
    held = ask(careful, ada, body, action=action)
    shown = [careful.get(f"/api/change-requests/{held}").body, approver.get(f"/rest/change-requests/{held}").body]
    for secret in body.values():
        assert secret not in json.dumps(shown)
        assert not any(secret in text for text in stored())
    approve(approver, held)
    pipeline.apply_change_request(UUID(held))
    assert ChangeRequest.objects.get().status == "applied"
    assert ChangeRequest.objects.get().input == ""
    assert directory.can_sign_in(ada, "Engine-Number-2")


def test_the_page_shows_it_once(careful: Integration, approver: Console, directory: Directory, ada: UUID) -> None:
    held = ask(careful, ada)
    approve(approver, held)
    pipeline.apply_change_request(UUID(held))
    page, button = f"/console/changes/{held}", f"/console/changes/{held}/secret"
    other = make_person(may=["approvals.decide_change"])
    browser = Browser()
    browser.force_login(other)
    assert "Show it once" not in browser.get(page).content.decode()
    assert "not allowed" in browser.post(button, follow=True).content.decode()
    browser.force_login(approver.person)
    assert "Show it once" in browser.get(page).content.decode()
    assert browser.get(button).status_code == 405
    address = browser.post(button).headers["Location"]
    assert "It was shown once" not in browser.get(page).content.decode()
    shown = browser.get(address)
    html = markup_of(shown.content)
    password = html.partition('autocomplete="off" spellcheck="false" value="')[2].partition('"')[0]
    assert directory.can_sign_in(ada, password.replace("&amp;", "&").replace("&#x27;", "'"))
    assert "no-store" in shown.headers["Cache-Control"]
    again = browser.get(address).content.decode()
    assert "It was shown once" in again
    assert password not in markup_of(again.encode())
    assert "Show it once" not in again
    assert "given already" in browser.post(button, follow=True).content.decode()
    records = OperationRecord.objects.filter(operation="change-requests.reveal-secret").order_by("at")
    assert [item.outcome for item in records] == ["failed", "succeeded", "failed"]
