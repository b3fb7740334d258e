"""Items are taken in order: what a later one sees, and what is not sent after a failure."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from gateway.pipeline import batches
from lab.directory import Directory, random_name
from tests.gateway.pipeline.batches.sending import codes, records, send, statuses, titled
from tests.support.cast import Integration


class TestOnError:
    def test_stop_sends_nothing_after_a_failure(
        self, integration: Integration, users: Callable[[int], list[UUID]], directory: Directory
    ) -> None:
        some = users(4)
        items = [titled(some[0], "0"), titled(uuid4(), "?"), *(titled(guid, "x") for guid in some[1:])]
        answer = send(integration, "update", items, onError="stop")
        assert (answer.status, statuses(answer)) == (207, [200, 404, None, None, None])
        counted = {name: answer.body[name] for name in ("total", "succeeded", "failed", "queued", "skipped")}
        assert counted == {"total": 5, "succeeded": 1, "failed": 1, "queued": 0, "skipped": 3}
        assert [directory.text(guid, "title") for guid in some] == ["0", "Analyst", "Analyst", "Analyst"]
        assert answer.body["results"][2] == {
            "index": 2,
            "status": None,
            "id": str(some[1]),
            "problem": None,
            "changeRequestId": None,
        }
        assert [item.batch_index for item in records()] == [0, 1]

    def test_stop_at_a_refusal_of_the_directory(
        self, integration: Integration, users: Callable[[int], list[UUID]], directory: Directory
    ) -> None:
        one, two, three = users(3)
        taken = directory.text(one, "sAMAccountName")
        items = [titled(one, "1"), {"id": str(two), "replace": {"sAMAccountName": taken}}, titled(three, "3")]
        answer = send(integration, "update", items, onError="stop")
        assert (statuses(answer), codes(answer)[1]) == ([200, 409, None], "AD.Object.AlreadyExists")
        assert directory.text(three, "title") == "Analyst"

    @pytest.mark.parametrize("action", ["create", "delete"])
    def test_stop_of_creations_and_deletions(
        self, integration: Integration, organizational_unit: str, directory: Directory, action: str
    ) -> None:
        names = [f"OU=stop-{n},{organizational_unit}" for n in range(3)]
        if action == "create":
            items: list[Any] = [{"name": f"stop-{n}", "parent": organizational_unit} for n in (0, 0, 1)]
        else:
            ids = [directory.guid(directory.add_unit(f"stop-{n}", parent=organizational_unit)) for n in range(3)]
            directory.add_unit("below", parent=names[1])
            items = [{"id": str(guid)} for guid in ids]
        answer = send(integration, action, items, "organization-units", onError="stop")
        assert statuses(answer) == [201 if action == "create" else 204, 409, None]
        assert [directory.exists(name) for name in names] == (
            [True, False, False] if action == "create" else [False, True, True]
        )

    def test_continue_is_the_default(self, integration: Integration, users: Callable[[int], list[UUID]]) -> None:
        (guid,) = users(1)
        items = [{"id": str(uuid4())}, titled(guid, "x")]
        for more in ({}, {"onError": "continue"}):
            assert statuses(send(integration, "update", items, **more)) == [404, 200]

    def test_a_queued_item_does_not_stop(self, careful: Integration, users: Callable[[int], list[UUID]]) -> None:
        one, two = users(2)
        held = {"id": str(one), "account": {"passwordNeverExpires": True}}
        answer = send(careful, "update", [held, titled(two, "x")], onError="stop")
        assert (answer.status, statuses(answer)) == (207, [202, 200])


class TestOrder:
    def test_a_later_item_sees_what_an_earlier_one_did(
        self, integration: Integration, users: Callable[[int], list[UUID]], directory: Directory
    ) -> None:
        one, two = users(2)
        items = [titled(one, "A"), titled(two, "x"), titled(one, "B"), {"id": str(one), "clear": ["title"]}]
        assert statuses(send(integration, "update", items)) == [200, 200, 200, 200]
        assert directory.text(one, "title") is None
        seen = [(item.batch_index, item.changes[0]["before"]) for item in records(target_id=one)]
        assert seen == [(0, ["Analyst"]), (2, ["A"]), (3, ["B"])]

    def test_one_object_many_times(
        self, integration: Integration, users: Callable[[int], list[UUID]], directory: Directory
    ) -> None:
        (one,) = users(1)
        items = [{"id": str(one), "add": {"otherTelephone": str(n)}} for n in range(7)]
        assert statuses(send(integration, "update", items)) == [200] * 7
        assert len(directory.read(one, "otherTelephone")["otherTelephone"]) == 7

    def test_names_are_freed_and_taken_in_order(
        self, integration: Integration, users: Callable[[int], list[UUID]], directory: Directory
    ) -> None:
        one, two = users(2)
        first, second = (directory.text(guid, "sAMAccountName") or "" for guid in (one, two))
        spare = random_name("s")
        names = [(one, spare), (two, first), (one, second)]
        items = [{"id": str(guid), "replace": {"sAMAccountName": name}} for guid, name in names]
        assert statuses(send(integration, "update", items)) == [200, 200, 200]
        assert [directory.text(guid, "sAMAccountName") for guid in (one, two)] == [second, first]

    def test_a_cycle_is_seen_that_an_earlier_item_began(
        self, integration: Integration, organizational_unit: str, directory: Directory
    ) -> None:
        one, two, three = (directory.add_group(parent=organizational_unit) for _ in range(3))
        items = [
            {"id": str(three), "replace": {"description": "before"}},
            {"id": str(one), "add": {"member": directory.dn(two)}},
            {"id": str(two), "add": {"member": directory.dn(one)}},
            {"id": str(three), "replace": {"description": "after"}},
        ]
        answer = send(integration, "update", items, "groups")
        assert (statuses(answer), codes(answer)[2]) == ([200, 200, 409, 200], "AD.Group.Cycle")
        assert directory.members(two) == set()
        assert directory.text(three, "description") == "after"

    def test_a_unit_and_what_is_in_it(
        self, integration: Integration, organizational_unit: str, directory: Directory
    ) -> None:
        upper = f"OU=upper,{organizational_unit}"
        items = [{"name": "upper", "parent": organizational_unit}, {"name": "lower", "parent": upper}]
        created = send(integration, "create", items, "organization-units")
        assert statuses(created) == [201, 201]
        assert directory.exists(f"OU=lower,{upper}")
        first, second = (result["id"] for result in created.body["results"])
        refused = send(integration, "delete", [{"id": first}], "organization-units")
        assert codes(refused) == ["AD.Object.NotEmpty"]
        deleted = send(integration, "delete", [{"id": second}, {"id": first}, {"id": first}], "organization-units")
        assert statuses(deleted) == [204, 204, 404]

    def test_recursive(self, integration: Integration, organizational_unit: str, directory: Directory) -> None:
        units = [directory.add_unit(name, parent=organizational_unit) for name in ("one", "two")]
        for unit in units:
            directory.add_user(parent=unit)
        one, two = (str(directory.guid(unit)) for unit in units)
        items = [{"id": one, "recursive": False}, {"id": two, "recursive": True}, {"id": one, "recursive": "true"}]
        answer = send(integration, "delete", items, "organization-units")
        assert statuses(answer) == [409, 204, 400]
        assert answer.body["results"][2]["problem"]["errors"][0]["pointer"] == "#/items/2/recursive"
        assert [directory.exists(unit) for unit in units] == [True, False]


def test_many_items_of_every_sort_keep_their_order(
    integration: Integration,
    users: Callable[[int], list[UUID]],
    directory: Directory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chunks, changes that are done alone, no changes and failures, mixed."""
    monkeypatch.setattr(batches, "CHUNK", 8)
    some = users(40)
    items: list[Any] = []
    expected = []
    for n, guid in enumerate(some):
        sorts = [
            (titled(guid, f"T{n}"), 200),
            (titled(guid, "Analyst"), 200),
            ({"id": str(guid), "replace": {"userPrincipalName": f"u{n}-{guid.hex[:8]}@corp.example.test"}}, 200),
            (titled(uuid4(), "?"), 404),
            ({"id": str(guid), "replace": {"mail": f"{n}@corp"}, "clear": ["title"]}, 200),
            ("nonsense", 400),
            (titled(some[0], f"again {n}"), 200),
        ]
        item, status = sorts[n * 5 % 7 if n % 3 else 0]
        items.append(item)
        expected.append(status)
    answer = send(integration, "update", items)
    assert statuses(answer) == expected
    assert [result["index"] for result in answer.body["results"]] == list(range(40))
    for item in items:
        if isinstance(item, dict) and item["id"] in map(str, some[1:]) and "title" in item.get("replace", {}):
            assert directory.text(UUID(item["id"]), "title") == item["replace"]["title"]
    titles = [item["replace"]["title"] for item in items if isinstance(item, dict) and item["id"] == str(some[0])]
    assert directory.text(some[0], "title") == titles[-1]
    assert records(outcome="pending") == []
