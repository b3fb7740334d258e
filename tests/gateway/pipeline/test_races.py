"""Races against real servers in many processes: double approvals, one idempotency key many times, runs at once."""

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic, sleep
from typing import Any
from uuid import UUID

import pytest

from active_directory.entry import parse_versions
from approvals.models import ChangeRequest
from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import Directory, random_name
from lab.gateway import LiveGateway
from lab.http import Http
from tests.directory.runs.test_faults import changes_since, versions
from tests.support.cast import PASSWORD, make_integration, make_person

pytestmark = pytest.mark.django_db(transaction=True)  # web and worker see what is committed

DOUBLE_APPROVALS = 40
NESTINGS = 40
KEYS, PARALLEL = 20, 50
ACCOUNTS = 100
RUNS_AT_ONCE = 4

Answer = tuple[int, dict[str, str], Any]


@pytest.fixture
def key(connection: DirectoryConnection) -> str:
    """May do everything, without asking."""
    return make_integration(connection).value


def together(calls: Iterable[Callable[[], Answer]]) -> list[Answer]:
    """The answers to calls that are made at the same time."""
    waiting = list(calls)
    with ThreadPoolExecutor(len(waiting)) as pool:
        return list(pool.map(lambda call: call(), waiting))


def writes(directory: Directory, target: UUID, attid: int) -> int:
    """How often an attribute was written."""
    return parse_versions(directory.read(target, "replPropertyMetaData")["replPropertyMetaData"][0]).get(attid, 0)


TITLE, PASSWORD_OF_ACCOUNT = 0xC, 0x9005A  # attids of title (2.5.4.12) and unicodePwd ([MS-ADA3])


def sign_in(gateway: LiveGateway) -> dict[str, str]:
    """The headers of a person who may approve."""
    person = make_person(may=["approvals.decide_change"])
    login = {"username": person.username, "password": PASSWORD}
    answer = Http(gateway.base_url).send("POST", "/rest/session", login)
    assert answer.status == 200, answer
    return answer.session


def until(condition: Callable[[], bool], *, seconds: float) -> None:
    deadline = monotonic() + seconds
    while not condition():
        assert monotonic() < deadline
        sleep(0.1)


def test_two_people_approve_at_once(
    connection: DirectoryConnection, live_gateway: LiveGateway, directory: Directory, organizational_unit: str
) -> None:
    """One application each, whoever was first."""
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE).value
    users = [directory.add_user(parent=organizational_unit) for _ in range(DOUBLE_APPROVALS)]

    def ask(user: UUID) -> Callable[[], Answer]:
        body = {"replace": {"title": f"Title of {user}"}}
        return lambda: live_gateway.request("PATCH", f"/api/ad/users/{user}", body=body, headers={"X-API-Key": careful})

    with ThreadPoolExecutor(8) as pool:
        held = list(pool.map(lambda user: ask(user)(), users))
    assert {status for status, _, _ in held} == {202}
    digests = dict(ChangeRequest.objects.values_list("id", "digest"))
    people = [sign_in(live_gateway), sign_in(live_gateway)]

    def approve(request: UUID, headers: dict[str, str]) -> Callable[[], Answer]:
        path, body = f"/rest/change-requests/{request}/approve", {"digest": digests[request]}
        return lambda: live_gateway.request("POST", path, body=body, headers=headers)

    decisions = [together(approve(request, person) for person in people) for request in digests]

    assert all(sorted(status for status, _, _ in pair) == [200, 409] for pair in decisions)
    assert {answer["code"] for pair in decisions for status, _, answer in pair if status == 409} == {
        "Approvals.AlreadyDecided"
    }
    until(lambda: not ChangeRequest.objects.exclude(status="applied").exists(), seconds=300)
    applied = OperationRecord.objects.filter(surface="worker", operation="users.update")
    assert Counter(applied.values_list("change_request_id", "outcome")) == {(id, "succeeded"): 1 for id in digests}
    assert {directory.text(user, "title") for user in users} == {f"Title of {user}" for user in users}
    assert {writes(directory, user, TITLE) for user in users} == {1}


def test_two_groups_are_nested_into_each_other_at_once(
    key: str, live_gateway: LiveGateway, directory: Directory, organizational_unit: str
) -> None:
    """Never both, and the log tells what the directory holds."""

    def nest(holder: UUID, held: UUID) -> Callable[[], Answer]:
        path, body = f"/api/ad/groups/{holder}/members", {"add": [str(held)]}
        return lambda: live_gateway.request("POST", path, body=body, headers={"X-API-Key": key})

    for _ in range(NESTINGS):
        one, other = (directory.add_group(parent=organizational_unit) for _ in range(2))
        answers = together([nest(one, other), nest(other, one)])
        kept = {holder for holder in (one, other) if directory.members(holder)}
        assert len(kept) < 2
        assert kept == {holder for holder, answer in zip((one, other), answers, strict=True) if answer[0] == 200}
        assert {body["code"] for status, _, body in answers if status != 200} == {"AD.Group.Cycle"}
        for holder in (one, other):
            logged: set[str] = set()
            for record in OperationRecord.objects.filter(target_id=holder, outcome="succeeded").order_by("id"):
                (change,) = record.changes
                logged = logged - set(change["before"]) | set(change["after"])
            assert logged == directory.members(holder)


def test_one_key_many_times_at_once(
    key: str, live_gateway: LiveGateway, directory: Directory, organizational_unit: str
) -> None:
    """One write; whoever was not first is told to wait, or gets the first answer."""
    path, parent = "/api/ad/users", organizational_unit

    def create(name: str) -> Answer:
        headers = {"X-API-Key": key, "Idempotency-Key": name}
        return live_gateway.request("POST", path, body={"name": name, "parent": parent}, headers=headers)

    for name in (random_name("new") for _ in range(KEYS)):
        answers = together([partial(create, name)] * PARALLEL)
        created = [(headers, body) for status, headers, body in answers if status == 201]
        others = {(status, body["code"]) for status, _, body in answers if status != 201}
        assert others <= {(409, "Idempotency.InProgress")}
        assert sum("idempotency-replayed" not in headers for headers, _ in created) == 1
        assert len({body["id"] for _, body in created}) == 1
        assert directory.exists(f"CN={name},{parent}")
        records = OperationRecord.objects.filter(operation="users.create", target_dn__startswith=f"CN={name},")
        assert [record.outcome for record in records] == ["succeeded"]
    assert OperationRecord.objects.filter(operation="users.create").count() == KEYS


def test_one_key_for_many_changes_of_a_password(
    key: str, live_gateway: LiveGateway, directory: Directory, organizational_unit: str
) -> None:
    """A change that would be made again if it were asked for again."""
    user = directory.add_user(parent=organizational_unit, password="Correct-Horse-9")
    before = writes(directory, user, PASSWORD_OF_ACCOUNT)

    def reset() -> Answer:
        headers = {"X-API-Key": key, "Idempotency-Key": "one"}
        body = {"newPassword": "Other-Horse-10"}
        return live_gateway.request("POST", f"/api/ad/users/{user}/reset-password", body=body, headers=headers)

    statuses = {status for status, _, _ in together([reset] * PARALLEL)}
    assert 200 in statuses
    assert statuses <= {200, 409}
    assert writes(directory, user, PASSWORD_OF_ACCOUNT) == before + 1
    assert OperationRecord.objects.filter(operation="users.reset-password").count() == 1


def test_runs_over_the_same_accounts_at_once(
    key: str, live_gateway: LiveGateway, directory: Directory, organizational_unit: str
) -> None:
    """Each account is changed once and logged once, whichever run came to it."""
    users = [directory.add_user(parent=organizational_unit) for _ in range(ACCOUNTS)]
    before = versions(directory, users)
    path = f"/api/ad/organization-units/{directory.guid(organizational_unit)}/accounts/disable"

    def run() -> Answer:
        return live_gateway.request("POST", path, body={"kinds": ["user"]}, headers={"X-API-Key": key})

    answers = together([run] * RUNS_AT_ONCE)

    assert {status for status, _, _ in answers} == {200}
    assert sum(body["succeeded"] for _, _, body in answers) == ACCOUNTS
    assert not any(directory.is_enabled(user) for user in users)
    changed = OperationRecord.objects.filter(run_id__isnull=False)
    assert Counter(changed.values_list("target_id", "outcome")) == {(user, "succeeded"): 1 for user in users}
    assert changes_since(directory, before) == {1}
