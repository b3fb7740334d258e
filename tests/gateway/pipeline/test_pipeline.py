"""The way of a call, through HTTP: what each stage refuses, what is recorded, and what the directory then holds."""

import threading
from collections.abc import Callable
from datetime import timedelta
from urllib.parse import quote
from uuid import UUID

import pytest
from django.db import connection as database
from django.utils import timezone

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from audit.read_buffer import reads
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from directory.outcomes import evidence
from gateway import pipeline, tasks
from keys.models import Link
from lab.directory import Directory
from lab.domain import Domain
from lab.proxy import FaultyProxy
from tests.support.cast import Answer, Console, Integration, make_connection, make_integration, make_person
from tests.support.mishaps import just_before_the_write, lose_the_answer, settle

pytestmark = pytest.mark.sqlite


def path(guid: UUID) -> str:
    return f"/api/ad/users/{guid}"


def records(**filters: object) -> list[OperationRecord]:
    return list(OperationRecord.objects.filter(**filters).order_by("at"))


def test_it_works(integration: Integration, ada: UUID, directory: Directory) -> None:
    answer = integration.patch(path(ada), {"replace": {"title": "Countess"}}, X_Change_Reason="promoted")
    assert answer.status == 200
    assert answer.body["attributes"]["title"] == ["Countess"]
    assert answer.headers["ETag"] == f'"{answer.body["version"]}"'
    assert directory.text(ada, "title") == "Countess"
    (record,) = records()
    assert (record.operation, record.outcome, record.target_id) == ("users.update", "succeeded", ada)
    assert (record.owner, record.key_name) == (integration.key.owner.username, integration.key.name)
    assert record.changes == [{"attribute": "title", "before": ["Analyst"], "after": ["Countess"]}]
    assert (record.reason, record.request_id) == ("promoted", answer.headers["X-Request-Id"])
    assert record.completed_at is not None
    assert record.server


def test_dry_run_changes_nothing_and_tells_all(integration: Integration, ada: UUID, directory: Directory) -> None:
    answer = integration.patch(f"{path(ada)}?dryRun=true", {"replace": {"title": "Countess"}})
    assert answer.status == 200
    assert answer.body == {
        "dryRun": True,
        "wouldQueue": False,
        "risk": "ordinary",
        "changes": [{"attribute": "title", "before": ["Analyst"], "after": ["Countess"]}],
        "warnings": [],
    }
    assert directory.text(ada, "title") == "Analyst"
    reads.flush()
    assert [(record.operation, record.outcome, record.target_id, record.changes) for record in records()] == [
        ("users.read", "succeeded", ada, [])
    ], "it shows values, and changes nothing"


def test_dry_run_takes_true_or_false_only(integration: Integration, ada: UUID) -> None:
    answer = integration.patch(f"{path(ada)}?dryRun=yes", {"replace": {"title": "Countess"}})
    assert (answer.status, answer.code) == (400, "Request.Invalid")
    assert answer.body["errors"][0]["parameter"] == "dryRun"


def test_nothing_to_do_is_no_change(integration: Integration, ada: UUID) -> None:
    answer = integration.patch(path(ada), {"replace": {"title": "Analyst"}})
    assert answer.status == 200
    assert records() == []
    reads.flush()
    assert [(record.operation, record.outcome, record.target_id) for record in records()] == [
        ("users.read", "succeeded", ada)
    ]


@pytest.mark.parametrize("body", [{"replace": {"title": "Analyst"}}, {"account": {"passwordNeverExpires": False}}])
def test_nothing_to_do_waits_for_nobody(
    connection: DirectoryConnection, ada: UUID, body: dict[str, dict[str, object]]
) -> None:
    """Neither what would be ordinary nor what would be a security change, at the level that holds them all."""
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    one = careful.patch(f"{path(ada)}?dryRun=true", body)
    batch = careful.post("/api/ad/users/batch/update?dryRun=true", {"items": [{"id": str(ada), **body}]})
    for told in (one.body, batch.body["results"][0]):
        assert (told["dryRun"], told["wouldQueue"], told["changes"]) == (True, False, [])
    assert careful.patch(path(ada), body).status == 200
    assert not ChangeRequest.objects.exists()


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({"replace": {"title": "x"}, "more": 1}, "Request.UnknownMember", "#/more"),
        ({"replace": {"noSuchAttribute": "x"}}, "AD.Attributes.Unknown", "#/replace/noSuchAttribute"),
        ({"replace": {"title": 5}}, "Request.Invalid", "#/replace/title"),
        ({"replace": {"memberOf": "x"}}, "AD.Attributes.NotWritable", "#/replace/memberOf"),
        ({"replace": {"title": ["a", "b"]}}, "AD.Attributes.SingleValued", "#/replace/title"),
        ({"replace": {"title": "a"}, "clear": ["TITLE"]}, "AD.Attributes.Conflict", None),
        ([], "Request.Invalid", "#"),
    ],
)
def test_bad_input_is_named(
    integration: Integration, ada: UUID, directory: Directory, body: object, code: str, pointer: str | None
) -> None:
    answer = integration.patch(path(ada), body)
    assert (answer.status, answer.code) == (400, code)
    if pointer is not None:
        assert pointer in [item["pointer"] for item in answer.body["errors"]]
    assert directory.text(ada, "title") == "Analyst"
    (record,) = records()
    assert (record.outcome, record.code) == ("failed", code)


def test_an_unknown_parameter_is_named(integration: Integration, ada: UUID) -> None:
    answer = integration.get(f"{path(ada)}?colour=mail")
    assert (answer.status, answer.code) == (400, "Request.UnknownParameter")
    assert answer.body["errors"][0]["parameter"] == "colour"


def test_an_operation_without_a_body_ignores_nothing_in_one(
    integration: Integration, ada: UUID, directory: Directory
) -> None:
    disable = f"{path(ada)}/disable"
    for body, code in (
        ({"reason": "left"}, "Request.UnknownMember"),
        ([], "Request.Invalid"),
        ("{", "Request.Malformed"),
    ):
        answer = integration.post(disable, body)
        assert (answer.status, answer.code) == (400, code)
        assert integration.call("DELETE", path(ada), body).code == code
    assert directory.is_enabled(ada)
    assert integration.post(disable, {}).status == 200
    headers = {"X-API-Key": integration.value}
    form = integration.client.post(disable, "", "application/x-www-form-urlencoded", headers=headers)
    assert form.status_code == 200, "what curl sends for an empty body"
    refused = make_integration(integration.key.links.get().connection, may=[]).post(disable, {"reason": "left"})
    assert refused.status == 403, "permission comes first"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content_Encoding": "gzip"}, 415),
        ({"Idempotency_Key": "é".encode().decode("latin-1")}, 400),
        ({"X_Change_Reason": "x" * 501}, 400),
        ({"X_Change_Reason": ""}, 400),
    ],
)
def test_permission_comes_before_what_is_wrong_with_a_header(
    connection: DirectoryConnection, integration: Integration, ada: UUID, headers: dict[str, str], status: int
) -> None:
    body = {"replace": {"title": "Countess"}}
    assert integration.patch(path(ada), body, **headers).status == status
    assert make_integration(connection, may=["directory.read_object"]).patch(path(ada), body, **headers).status == 403
    assert integration.get(path(ada)).body["attributes"]["title"] == ["Analyst"]


# What embeds, overrides and isolates in Unicode Standard Annex #9 (2.1, 2.2, 2.4), with what ends it.
@pytest.mark.parametrize("character", "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", ids=ascii)
def test_a_reason_that_is_not_read_as_it_is_written_is_refused(
    integration: Integration, ada: UUID, character: str
) -> None:
    reason = f"ticket {character}42"
    for header in (quote(reason), reason.encode().decode("latin-1")):
        for query in ("", "?dryRun=true"):
            answer = integration.patch(f"{path(ada)}{query}", {"replace": {"title": "x"}}, X_Change_Reason=header)
            assert (answer.status, answer.code) == (400, "Request.Invalid"), answer
            assert [error["parameter"] for error in answer.body["errors"]] == ["X-Change-Reason"]
    assert integration.get(path(ada)).body["attributes"]["title"] == ["Analyst"]
    assert not OperationRecord.objects.exclude(reason=None).exists()


def test_a_reason_in_the_query(connection: DirectoryConnection, integration: Integration, ada: UUID) -> None:
    changes, given = {"replace": {"title": "Countess"}}, "?reason=Z%C3%BCrich%2C+100%2525+%E2%9C%93"
    assert integration.patch(f"{path(ada)}{given}", changes).status == 200
    batch = integration.post(f"/api/ad/users/batch/update{given}", {"items": [{"id": str(ada), "clear": ["title"]}]})
    assert batch.status == 200
    assert [record.reason for record in records(operation="users.update")] == ["Zürich, 100%25 ✓"] * 2

    misspelt = ("?reason=", "?reason=+", f"?reason={'x' * 501}", "?reason=%E2%80%AEx")
    refused = [(given, {"X_Change_Reason": "Zurich"}), *((query, {}) for query in misspelt)]
    for target, body, send in (
        (path(ada), changes, integration.patch),
        ("/api/ad/users/batch/update", {"items": [{"id": str(ada), **changes}]}, integration.post),
    ):
        for query, headers in refused:
            answer = send(f"{target}{query}", body, **headers)
            assert (answer.status, answer.code) == (400, "Request.Invalid"), (query, answer)
            assert [error["parameter"] for error in answer.body["errors"]] == ["reason"]
    for unknown in (integration.get(f"{path(ada)}?reason=x"), integration.post(f"{target}?reason=x&why=x", body)):
        assert (unknown.status, unknown.code) == (400, "Request.UnknownParameter")
    nobody = make_integration(connection, may=["directory.read_object"])
    assert nobody.patch(f"{path(ada)}?reason=", changes).status == 403, "permission comes first"
    assert integration.get(path(ada)).body["attributes"]["title"] == []


def test_null_is_no_body(integration: Integration, ada: UUID) -> None:
    for method, target in (("PATCH", path(ada)), ("POST", f"{path(ada)}/enable")):
        answer = integration.call(method, target, "null")
        assert (answer.status, answer.code, answer.body["errors"][0]["pointer"]) == (400, "Request.Invalid", "#")


def test_if_match(integration: Integration, ada: UUID, directory: Directory) -> None:
    version = integration.get(path(ada)).body["version"]
    refused = integration.patch(path(ada), {"replace": {"title": "x"}}, If_Match='"other"')
    assert (refused.status, refused.code) == (412, "AD.Object.VersionMismatch")
    assert integration.patch(path(ada), {"replace": {"title": "y"}}, If_Match=f'"z", "{version}"').status == 200
    assert integration.patch(path(ada), {"replace": {"title": "z"}}, If_Match="*").status == 200
    assert directory.text(ada, "title") == "z"


def test_if_none_match(integration: Integration, ada: UUID) -> None:
    version = integration.get(path(ada)).headers["ETag"]
    assert integration.get(path(ada), If_None_Match=version).status == 304
    assert integration.get(path(ada), If_None_Match='"other"').status == 200


def test_no_record_no_change(integration: Integration, ada: UUID, directory: Directory) -> None:
    with database.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_operationrecord RENAME TO audit_elsewhere")
    try:
        answer = integration.patch(path(ada), {"replace": {"title": "Countess"}})
    finally:
        with database.cursor() as cursor:
            cursor.execute("ALTER TABLE audit_elsewhere RENAME TO audit_operationrecord")
    assert answer.status == 503
    assert directory.text(ada, "title") == "Analyst"


def test_the_same_key_and_request_are_carried_out_once(
    integration: Integration, ada: UUID, directory: Directory
) -> None:
    first = integration.patch(path(ada), {"replace": {"title": "A"}}, Idempotency_Key="one")
    directory.modify(ada, title="B")
    again = integration.patch(path(ada), {"replace": {"title": "A"}}, Idempotency_Key="one")
    assert (again.status, again.body) == (200, first.body)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert directory.text(ada, "title") == "B"
    for body, headers in (({"title": "C"}, {}), ({"title": "A"}, {"If_Match": '"0"'})):
        other = integration.patch(path(ada), {"replace": body}, Idempotency_Key="one", **headers)
        assert (other.status, other.code) == (422, "Idempotency.KeyReused")


def test_an_answer_without_content_is_repeated_without_a_media_type(integration: Integration, ada: UUID) -> None:
    for _ in range(2):
        answer = integration.delete(path(ada), Idempotency_Key="one")
        assert answer.status == 204
        assert "Content-Type" not in answer.headers


def test_an_answer_from_one_directory_is_not_given_for_another(
    integration: Integration, domain: Domain, ada: UUID
) -> None:
    other = Link.objects.create(api_key=integration.key, connection=make_connection(domain))
    headers = {"Idempotency_Key": "one", "X_Client_Id": str(integration.client_id)}
    assert integration.patch(path(ada), {"replace": {"title": "A"}}, **headers).status == 200
    headers["X_Client_Id"] = str(other.client_id)
    answer = integration.patch(path(ada), {"replace": {"title": "A"}}, **headers)
    assert (answer.status, answer.code) == (422, "Idempotency.KeyReused")


class TestHeldChanges:
    """At the recommended level a security change waits for a person."""

    @pytest.fixture
    def careful(self, connection: DirectoryConnection) -> Integration:
        return make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)

    @pytest.fixture
    def approver(self, connection: DirectoryConnection) -> Console:
        return Console(make_person(may=["approvals.decide_change"]))

    def hold(self, careful: Integration, ada: UUID) -> str:
        answer = careful.post(f"{path(ada)}/disable")
        assert answer.status == 202
        held = answer.body["changeRequest"]
        assert answer.headers["Location"] == f"/api/change-requests/{held['id']}"
        assert answer.headers["Retry-After"] == "15"
        assert (held["status"], held["operation"], held["risk"]) == ("pending", "users.disable", "destructive")
        return str(held["id"])

    def test_it_works(self, careful: Integration, approver: Console, ada: UUID, directory: Directory) -> None:
        held = self.hold(careful, ada)
        assert directory.is_enabled(ada)
        shown = approver.get(f"/rest/change-requests/{held}").body
        assert shown["changes"]
        approved = approver.post(f"/rest/change-requests/{held}/approve", {"digest": shown["digest"]})
        assert approved.status == 200
        pipeline.apply_change_request(UUID(held))
        assert not directory.is_enabled(ada)
        assert careful.get(f"/api/change-requests/{held}").body["status"] == "applied"
        (queued,) = records(outcome="queued")
        (applied,) = records(outcome="succeeded", operation="users.disable")
        assert str(queued.change_request_id) == str(applied.change_request_id) == held
        assert (applied.approved_by, applied.surface) == (approver.person.username, "worker")
        assert applied.key_name == careful.key.name

    @pytest.mark.django_db(transaction=True)
    def test_the_answer_is_held_back_until_it_has_ended(
        self, careful: Integration, approver: Console, ada: UUID
    ) -> None:
        held = self.hold(careful, ada)

        def read_while(change: Callable[[], object]) -> Answer:
            def make() -> None:
                change()
                database.close()

            changing = threading.Timer(0.2, make)
            changing.start()
            answer = careful.get(f"/api/change-requests/{held}?wait=60")
            changing.join()
            return answer

        # Once anybody's access has changed, the caller may have lost theirs.
        unchanged = read_while(make_person)
        assert (unchanged.body["status"], unchanged.headers["Retry-After"]) == ("pending", "15")
        ended = read_while(lambda: approver.post(f"/rest/change-requests/{held}/reject", {"comment": "Not now."}))
        assert ended.body["status"] == "rejected"
        assert "Retry-After" not in ended.headers
        assert careful.get(f"/api/change-requests/{held}?wait=61").body["errors"][0]["parameter"] == "wait"

    def test_applied_once(self, careful: Integration, approver: Console, ada: UUID, directory: Directory) -> None:
        held = self.hold(careful, ada)
        digest = approver.get(f"/rest/change-requests/{held}").body["digest"]
        approver.post(f"/rest/change-requests/{held}/approve", {"digest": digest})
        pipeline.apply_change_request(UUID(held))
        directory.modify(ada, userAccountControl="544")
        pipeline.apply_change_request(UUID(held))
        assert directory.is_enabled(ada)

    def test_stale_when_the_object_has_changed(
        self, careful: Integration, approver: Console, ada: UUID, directory: Directory
    ) -> None:
        held = self.hold(careful, ada)
        digest = approver.get(f"/rest/change-requests/{held}").body["digest"]
        directory.modify(ada, userAccountControl="66080")  # NORMAL_ACCOUNT, DONT_EXPIRE_PASSWORD, PASSWD_NOTREQD
        approver.post(f"/rest/change-requests/{held}/approve", {"digest": digest})
        pipeline.apply_change_request(UUID(held))
        assert careful.get(f"/api/change-requests/{held}").body["status"] == "stale"
        assert directory.is_enabled(ada)

    def test_a_revoked_key_applies_nothing(
        self, careful: Integration, approver: Console, ada: UUID, directory: Directory
    ) -> None:
        held = self.hold(careful, ada)
        digest = approver.get(f"/rest/change-requests/{held}").body["digest"]
        approver.post(f"/rest/change-requests/{held}/approve", {"digest": digest})
        careful.key.revoked_at = timezone.now()
        careful.key.save()
        pipeline.apply_change_request(UUID(held))
        assert approver.get(f"/rest/change-requests/{held}").body["status"] == "failed"
        assert directory.is_enabled(ada)

    def test_the_sweep_expires_what_is_overdue(self, careful: Integration, ada: UUID) -> None:
        held = self.hold(careful, ada)
        ChangeRequest.objects.filter(id=held).update(expires_at=timezone.now() - timedelta(seconds=1))
        tasks.sweep()
        assert careful.get(f"/api/change-requests/{held}").body["status"] == "expired"

    def test_an_ordinary_change_is_not_held(self, careful: Integration, ada: UUID) -> None:
        assert careful.patch(path(ada), {"replace": {"title": "x"}}).status == 200

    def test_a_change_that_changes_nothing_is_not_held(self, careful: Integration, ada: UUID) -> None:
        assert careful.post(f"{path(ada)}/enable").status == 200
        assert ChangeRequest.objects.count() == 0

    def test_every_change_is_held_at_the_strict_level(self, connection: DirectoryConnection, ada: UUID) -> None:
        strict = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
        answer = strict.patch(path(ada), {"replace": {"title": "x"}})
        assert (answer.status, answer.body["changeRequest"]["risk"]) == (202, "ordinary")


class TestLostAnswers:
    """The connection to the domain controller is lost with a write on it."""

    @pytest.mark.django_db(transaction=True)  # the thread that signs in anew writes, too, and would wait for the test
    def test_directory_down_is_503_and_recovers(
        self, through_proxy: Integration, directory_proxy: FaultyProxy, ada: UUID
    ) -> None:
        assert through_proxy.get(path(ada)).status == 200
        directory_proxy.cut()
        answer = through_proxy.get(path(ada))
        assert (answer.status, answer.code) == (503, "AD.Directory.Unavailable")
        assert int(answer.headers["Retry-After"]) >= 1
        directory_proxy.restore()
        assert through_proxy.get(path(ada)).status == 200

    def test_an_applied_change_whose_answer_was_lost_is_answered_as_done(
        self,
        through_proxy: Integration,
        directory_proxy: FaultyProxy,
        ada: UUID,
        directory: Directory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        lose_the_answer(monkeypatch, directory_proxy)
        answer = through_proxy.patch(path(ada), {"replace": {"title": "Countess"}})
        assert answer.status == 200
        assert directory.text(ada, "title") == "Countess"
        (record,) = records()
        assert record.outcome == "succeeded"

    def test_a_change_that_never_arrived_is_answered_as_not_done(
        self,
        through_proxy: Integration,
        directory_proxy: FaultyProxy,
        ada: UUID,
        directory: Directory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        just_before_the_write(monkeypatch, directory_proxy.cut)
        answer = through_proxy.patch(path(ada), {"replace": {"title": "Countess"}})
        assert (answer.status, answer.code) == (503, "AD.Directory.Unavailable")
        assert directory.text(ada, "title") == "Analyst"
        (record,) = records()
        assert record.outcome == "failed"

    def test_what_cannot_be_known_is_said_and_settled_later(
        self,
        through_proxy: Integration,
        directory_proxy: FaultyProxy,
        ada: UUID,
        directory: Directory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(evidence, "RECOVERY_SECONDS", 0.5)
        just_before_the_write(monkeypatch, directory_proxy.lose_answer)
        answer = through_proxy.patch(path(ada), {"replace": {"title": "Countess"}})
        assert (answer.status, answer.code) == (504, "AD.Directory.OutcomeUnknown")
        (record,) = records()
        assert record.outcome == "unknown"
        directory_proxy.restore()
        settle()
        (record,) = records()
        assert record.outcome == "succeeded"
