"""What each item comes to, and what the directory and the log then hold."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from active_directory import Client
from approvals.models import ChangeRequest
from directory.models import DirectoryConnection
from gateway import pipeline
from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.gateway.pipeline.batches.sending import codes, records, send, statuses, titled
from tests.support.cast import Console, Integration, make_integration, make_person


@pytest.mark.parametrize(
    ("item", "code", "pointer"),
    [
        (None, "Request.Invalid", "#/items/1"),
        (["x"], "Request.Invalid", "#/items/1"),
        ({"replace": {"title": "x"}}, "Request.Invalid", "#/items/1/id"),
        ({"id": "ada"}, "Request.Invalid", "#/items/1/id"),
        ({"id": 5}, "Request.Invalid", "#/items/1/id"),
        ({"title": "x"}, "Request.UnknownMember", "#/items/1/title"),
        ({"replace": {"title": 5}}, "Request.Invalid", "#/items/1/replace/title"),
        ({"replace": {"noSuch": "x"}}, "AD.Attributes.Unknown", "#/items/1/replace/noSuch"),
        ({"replace": {"title": ["a", "b"]}}, "AD.Attributes.SingleValued", "#/items/1/replace/title"),
        ({"clear": ["title", "noSuch"]}, "AD.Attributes.Unknown", "#/items/1/clear/1"),
        ({"ifMatch": 7}, "Request.Invalid", "#/items/1/ifMatch"),
        ({"recursive": True}, "Request.UnknownMember", "#/items/1/recursive"),
    ],
)
def test_a_malformed_item_fails_alone(
    integration: Integration,
    users: Callable[[int], list[UUID]],
    directory: Directory,
    item: Any,
    code: str,
    pointer: str,
) -> None:
    one, two, three = users(3)
    if isinstance(item, dict) and pointer != "#/items/1/id":
        item = {"id": str(two), **item}
    answer = send(integration, "update", [titled(one, "1"), item, titled(three, "3")])
    assert (answer.status, statuses(answer)) == (207, [200, 400, 200])
    problem = answer.body["results"][1]["problem"]
    assert (problem["code"], problem["status"]) == (code, 400)
    assert pointer in [error["pointer"] for error in problem["errors"]]
    assert "#/" not in problem["detail"].replace("#/items/1", "")
    assert problem["instance"] == "/api/ad/users/batch/update"
    assert problem["requestId"] == answer.headers["X-Request-Id"]
    assert [directory.text(guid, "title") for guid in (one, two, three)] == ["1", "Analyst", "3"]
    assert {(item.batch_index, item.outcome, item.code) for item in records()} == {
        (0, "succeeded", None),
        (1, "failed", code),
        (2, "succeeded", None),
    }
    assert answer.body["failed"] == 1


def test_attribute_limits_are_looked_at_when_an_item_s_turn_comes(
    integration: Integration, users: Callable[[int], list[UUID]], directory: Directory
) -> None:
    one, two, three = users(3)
    too_many = {"id": str(two), "replace": {f"attribute{n}": "x" for n in range(101)}}
    too_long = {"id": str(two), "replace": {"title": "x" * 262_145}}
    answer = send(integration, "update", [titled(one, "1"), too_many, too_long, titled(three, "3")], onError="stop")
    assert (answer.status, statuses(answer)) == (207, [200, 400, None, None])
    assert directory.text(one, "title") == "1"
    answer = send(integration, "update", [titled(one, "2"), too_many, too_long, titled(three, "3")])
    assert statuses(answer) == [200, 400, 400, 200]
    assert codes(answer)[1:3] == ["AD.Attributes.TooMany", "AD.Attributes.ValueTooLong"]
    assert answer.body["results"][2]["problem"]["errors"][0]["pointer"] == "#/items/2/replace/title"


class TestVersions:
    @pytest.mark.parametrize("spelling", ["{}", '"{}"', 'W/"{}"', "*"])
    def test_if_match(
        self, integration: Integration, users: Callable[[int], list[UUID]], directory: Directory, spelling: str
    ) -> None:
        one, two = users(2)
        version = integration.get(f"/api/ad/users/{one}").body["version"]
        items = [titled(one, "1", ifMatch=spelling.format(version)), titled(two, "2", ifMatch='"other"')]
        answer = send(integration, "update", items)
        assert (statuses(answer), codes(answer)[1]) == ([200, 412], "AD.Object.VersionMismatch")
        assert [directory.text(guid, "title") for guid in (one, two)] == ["1", "Analyst"]

    def test_if_match_of_a_deletion(
        self, integration: Integration, users: Callable[[int], list[UUID]], directory: Directory
    ) -> None:
        one, two = users(2)
        version = integration.get(f"/api/ad/users/{one}").body["version"]
        items = [{"id": str(one), "ifMatch": version}, {"id": str(two), "ifMatch": "0"}]
        assert statuses(send(integration, "delete", items)) == [204, 412]
        assert [directory.exists(guid) for guid in (one, two)] == [False, True]

    def test_a_lost_race_is_run_again_without_if_match_only(
        self,
        integration: Integration,
        users: Callable[[int], list[UUID]],
        directory: Directory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        one, two, three = users(3)
        version = integration.get(f"/api/ad/users/{two}").body["version"]
        write_many = Client.write_many

        def overtaken(self: Client, writes: Any) -> Any:
            def late() -> Any:
                for position, write in enumerate(writes):
                    if position == 0:
                        for guid in (one, two):
                            directory.modify(guid, title="Else", mail="ada@corp")
                    yield write

            return write_many(self, late())

        monkeypatch.setattr(Client, "write_many", overtaken)
        answer = send(integration, "update", [titled(one, "1"), titled(two, "2", ifMatch=version), titled(three, "3")])
        assert statuses(answer) == [200, 412, 200]
        assert [directory.text(guid, "title") for guid in (one, two, three)] == ["1", "Else", "3"]
        assert [(item.outcome, item.code) for item in records(batch_index=0)] == [
            ("failed", "AD.Object.VersionMismatch"),
            ("succeeded", None),
        ]
        assert [item.outcome for item in records(batch_index=1)] == ["failed"]


class TestSupervision:
    def test_each_item_is_held_for_itself(
        self, careful: Integration, users: Callable[[int], list[UUID]], directory: Directory
    ) -> None:
        one, two, three = users(3)
        held = {"account": {"passwordNeverExpires": True}}
        items = [{"id": str(one), **held}, titled(two, "2"), {"id": str(three), **held}]
        answer = send(careful, "update", items, X_Change_Reason="audit")
        assert (answer.status, statuses(answer)) == (207, [202, 200, 202])
        counted = {name: answer.body[name] for name in ("total", "succeeded", "failed", "queued", "skipped")}
        assert counted == {"total": 3, "succeeded": 1, "failed": 0, "queued": 2, "skipped": 0}
        queued = [result["changeRequestId"] for result in answer.body["results"]]
        assert queued[1] is None
        for place, guid in ((0, one), (2, three)):
            request = ChangeRequest.objects.get(id=queued[place])
            assert (request.target_id, request.risk, request.reason) == (guid, "security", "audit")
            (record,) = records(batch_index=place)
            assert (record.outcome, str(record.change_request_id)) == ("queued", queued[place])
        approver = Console(make_person(may=["approvals.decide_change"]))
        digest = approver.get(f"/rest/change-requests/{queued[0]}").body["digest"]
        assert approver.post(f"/rest/change-requests/{queued[0]}/approve", {"digest": digest}).status == 200
        pipeline.apply_change_request(UUID(queued[0]))
        control = int(directory.text(one, "userAccountControl") or 0)
        assert control & 0x10000
        assert careful.get(f"/api/change-requests/{queued[0]}").body["status"] == "applied"

    def test_deletions_are_held(
        self, careful: Integration, users: Callable[[int], list[UUID]], directory: Directory
    ) -> None:
        some = users(2)
        answer = send(careful, "delete", [{"id": str(guid), "recursive": True} for guid in some])
        assert (answer.status, statuses(answer), answer.body["queued"]) == (207, [202, 202], 2)
        assert all(directory.exists(guid) for guid in some)

    def test_a_retry_gets_the_same_change_requests(
        self, careful: Integration, users: Callable[[int], list[UUID]]
    ) -> None:
        (guid,) = users(1)
        items = [{"id": str(guid), "account": {"passwordNeverExpires": True}}]
        first = send(careful, "update", items, Idempotency_Key="one")
        again = send(careful, "update", items, Idempotency_Key="one")
        assert (again.status, again.body) == (207, first.body)
        assert ChangeRequest.objects.count() == 1


class TestTargets:
    def test_a_protected_object_is_its_own_item_s_affair(
        self, connection: DirectoryConnection, users: Callable[[int], list[UUID]], directory: Directory, domain: Domain
    ) -> None:
        integration = make_integration(connection, may=["directory.update_user", "directory.read_object"])
        one, two = users(2)
        administrator = directory.guid(domain.admin_dn)
        before = directory.text(administrator, "title")
        answer = send(integration, "update", [titled(one, "1"), titled(administrator, "x"), titled(two, "2")])
        assert (statuses(answer), codes(answer)[1]) == ([200, 403, 200], "Auth.Forbidden")
        assert directory.text(administrator, "title") == before

    def test_scopes_and_kinds_are_looked_at_item_by_item(
        self, connection: DirectoryConnection, organizational_unit: str, directory: Directory
    ) -> None:
        inside, outside = (directory.add_unit(name, parent=organizational_unit) for name in ("inside", "outside"))
        integration = make_integration(connection, scopes=[directory.guid(inside)])
        one, two = (directory.add_user(parent=parent) for parent in (inside, outside))
        group = directory.add_group(parent=inside)
        answer = send(
            integration, "update", [titled(one, "1"), titled(two, "2"), titled(group, "3"), titled(uuid4(), "4")]
        )
        assert statuses(answer) == [200, 403, 404, 404]
        assert [directory.text(guid, "title") for guid in (one, two, group)] == ["1", None, None]
        new = [{"name": random_name("n"), "parent": parent} for parent in (outside, inside)]
        assert statuses(send(integration, "create", new)) == [403, 201]

    def test_what_a_bag_names_needs_its_permission(
        self, connection: DirectoryConnection, users: Callable[[int], list[UUID]]
    ) -> None:
        integration = make_integration(connection, may=["directory.update_user"])
        one, two = users(2)
        items = [{"id": str(one), "replace": {"lockoutTime": "0"}}, titled(two, "x")]
        assert statuses(send(integration, "update", items)) == [403, 200]


class TestDryRun:
    def test_it_answers_for_each_item_and_changes_nothing(
        self, careful: Integration, users: Callable[[int], list[UUID]], directory: Directory
    ) -> None:
        one, two = users(2)
        items = [titled(one, "1"), {"id": str(two), "account": {"passwordNeverExpires": True}}, {"id": str(uuid4())}]
        answer = send(careful, "update", items, query="?dryRun=true")
        assert (answer.status, statuses(answer)) == (207, [200, 200, 404])
        assert answer.body["dryRun"] is True
        first, second, third = answer.body["results"]
        assert first == {
            "index": 0,
            "status": 200,
            "id": str(one),
            "problem": None,
            "changeRequestId": None,
            "dryRun": True,
            "wouldQueue": False,
            "risk": "ordinary",
            "changes": [{"attribute": "title", "before": ["Analyst"], "after": ["1"]}],
            "warnings": [],
        }
        assert (second["wouldQueue"], second["risk"]) == (True, "security")
        assert "changes" not in third
        assert directory.text(one, "title") == "Analyst"
        assert ChangeRequest.objects.count() == 0
        assert [item.outcome for item in records()] == ["failed"]

    @pytest.mark.parametrize("action", ["create", "delete"])
    def test_of_creations_and_deletions(
        self, integration: Integration, organizational_unit: str, directory: Directory, action: str
    ) -> None:
        guid = directory.add_user(parent=organizational_unit)
        items = [{"id": str(guid)}] if action == "delete" else [{"name": "dry", "parent": organizational_unit}]
        answer = send(integration, action, items * 2, query="?dryRun=true")
        assert (answer.status, statuses(answer)) == (200, [200, 200])
        assert all(result["changes"] for result in answer.body["results"])
        assert directory.exists(guid)
        assert not directory.exists(f"CN=dry,{organizational_unit}")


def test_nothing_to_do_is_a_success_without_a_record(
    integration: Integration, users: Callable[[int], list[UUID]]
) -> None:
    one, two = users(2)
    answer = send(integration, "update", [titled(one, "Analyst"), titled(two, "x"), {"id": str(one)}])
    assert (answer.status, statuses(answer)) == (200, [200, 200, 200])
    assert [item.batch_index for item in records()] == [1]
