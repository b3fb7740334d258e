"""A short campaign, and whether its checker would have noticed: a witness who never contradicts is none."""

import fcntl
import pickle
import shutil
import tempfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from faults.campaign import Plan, Result, run_campaign
from faults.checks import CHECKS, Story
from faults.diary import Outcome, Request
from faults.kinds import BUSY, KINDS
from faults.lending import BURST
from faults.observed import ChangeRequest, Record
from faults.report import report
from faults.servers import OPERATION_SECONDS, running_servers
from lab.accounts.making import BUDGET
from lab.processes import log_tail
from tests.support.environment import DATABASE
from tests.support.migrated import copy_sqlite

FAULTS = 12 if DATABASE == "postgresql" else 6
SEED = 34
"""With it the domain controller is among the victims, busy with a write."""
LONGEST = OPERATION_SECONDS + 4
"""Seconds that a fault lasts at most, here: more than the gateway waits for an answer."""


@pytest.fixture(scope="session")
def result(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Result:
    """One campaign, whichever of the test processes asks for it first."""
    kept = tmp_path_factory.getbasetemp().parent / f"campaign-{testrun_uid}"
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            directory = Path(tempfile.mkdtemp(prefix="gateway-faults-"))
            directory.chmod(0o755)
            if DATABASE == "sqlite":
                copy_sqlite(directory / "gateway.sqlite3")
            site = partial(running_servers, database=DATABASE)
            plan = Plan(
                FAULTS,
                DATABASE,
                SEED,
                clients=3,
                pace=0.6,
                answered_within=10,
                patience=300,
                settled_within=600,
            )
            kinds = [
                replace(kind, seconds=(min(kind.seconds[0], LONGEST), min(kind.seconds[1], LONGEST)))
                for kind in KINDS[DATABASE]
            ]
            campaign = run_campaign(plan, directory, site=site, kinds=kinds)
            if any(campaign.findings.values()):
                print(log_tail(directory / "web.log", 300))  # noqa: T201 - why, for whoever reads the failure
            kept.write_bytes(pickle.dumps(campaign))
            shutil.rmtree(directory, ignore_errors=True)
    result: Result = pickle.loads(kept.read_bytes())  # noqa: S301 - our own, of a moment ago
    return result


@pytest.fixture
def story(result: Result) -> Story:
    """A copy to tamper with."""
    return deepcopy(result.story)


def findings(name: str, story: Story) -> list[str]:
    return list(CHECKS[name](story))


def some_update(story: Story) -> tuple[Request, Record]:
    """An acknowledged change of a title or the like, which nobody changed since, and its record."""
    for request in story.requests:
        for effect in request.effects:
            is_last = any(diary.facts.get(effect.key) == effect.value for diary in story.diaries)
            made = [record for record in story.by_request[request.id] if record.is_made]
            alone = len(made) == len(request.effects) == 1 and request.operation == "users.update"
            if effect.outcome is Outcome.DONE and is_last and alone:
                return request, made[0]
    raise AssertionError("the clients were not given the time")


def without(story: Story, record: Record) -> Story:
    return replace(story, records=[each for each in story.records if each.id != record.id])


@pytest.mark.long
@pytest.mark.sqlite
def test_every_target_is_met(result: Result) -> None:
    assert {name: found for name, found in result.findings.items() if found} == {}
    assert len(result.struck) == FAULTS
    assert BUSY in {struck.name for struck in result.struck}
    assert sum(Outcome.DONE in request.outcomes for request in result.story.requests) > 20


def test_the_report_tells_it(result: Result) -> None:
    text = "\n".join(report(result))
    assert "Every target is met." in text
    assert "| directory changes without a log record | 0 |" in text
    assert all(struck.name in text for struck in result.struck)


def test_a_missing_change_is_noticed(story: Story) -> None:
    request, _ = some_update(story)
    key = request.effects[0].key
    for diary in story.diaries:
        if key in diary.facts:
            diary.facts[key] = "another"
    (finding,) = findings("acknowledged changes missing from the directory", story)
    assert key[1] in finding


def test_a_missing_password_is_noticed(story: Story) -> None:
    name = "acknowledged changes missing from the directory"
    assert len(findings(name, replace(story, can_sign_in=frozenset()))) == 2 * len(story.diaries)


@pytest.mark.parametrize(
    "name", ["directory changes without a log record", "acknowledged changes without a log record"]
)
def test_a_missing_record_is_noticed(story: Story, name: str) -> None:
    _, record = some_update(story)
    assert findings(name, without(story, record))


def test_what_is_said_to_have_been_so_needs_no_record_of_its_own_but_one(story: Story) -> None:
    request, record = some_update(story)
    request.effects[0].was_unchanged = True
    assert not findings("acknowledged changes without a log record", without(story, record))
    assert findings("directory changes without a log record", without(story, record)), "somebody did change it"


def test_an_account_that_was_not_as_wanted_is_noticed(story: Story) -> None:
    name = "accounts said to be as wanted that were not"
    request = next(
        each for each in story.requests if each.operation.endswith("-accounts") and each.outcomes == {Outcome.DONE}
    )
    request.effects[0].was_unchanged = True
    assert not findings(name, story), "an earlier attempt of the same request may have changed it"
    changed = request.effects[0].objects[0]
    untold = [each for each in story.records if (each.request, each.target) != (request.id, changed)]
    (finding,) = findings(name, replace(story, records=untold))
    assert changed in finding


@pytest.mark.parametrize("action", [".create", ".delete", ".change-members", ".reset-password", ".rename", ".move"])
def test_missing_records_of_other_changes_are_noticed(story: Story, action: str) -> None:
    made = [each for each in story.records if each.operation.endswith(action) and each.is_made]
    assert made, "each client does everything once"
    told = [finding for record in made for check in CHECKS.values() for finding in check(without(story, record))]
    assert len(told) >= len(made)


def test_a_deletion_without_a_record_is_noticed_even_of_what_was_there_for_a_while_only(story: Story) -> None:
    deleted = [guid for guid, seen in story.after.items() if seen.is_deleted]
    assert deleted
    assert not set(deleted) & set(story.before), "clients delete what they created"
    untold = [each for each in story.records if not each.operation.endswith(".delete")]
    found = findings("directory changes without a log record", replace(story, records=untold))
    assert len(found) == len(deleted)


def test_a_second_change_is_noticed(story: Story) -> None:
    _, record = some_update(story)
    again = replace(record, id="again")
    twice = replace(story, records=[*story.records, again])
    assert findings("changes applied twice", twice)
    assert findings("records of success without the change", twice), "the directory was changed once only"


def test_a_refused_change_that_was_made_is_noticed(story: Story) -> None:
    request, _ = some_update(story)
    request.end(Outcome.REFUSED)
    assert findings("refused changes that were made", story)


@pytest.mark.parametrize(
    ("name", "tamper"),
    [
        ("runs not completed", lambda story: replace(story, runs=[*story.runs, ("run", "running", 3, 1)])),
        ("runs not completed", lambda story: replace(story, runs=[*story.runs, ("run", "completed", 3, 2)])),
        (
            "approved changes not applied, or applied twice",
            lambda story: replace(story, change_requests=[ChangeRequest("one", "failed")]),
        ),
        (
            "approved changes not applied, or applied twice",
            lambda story: replace(
                story, change_requests=[ChangeRequest("one", "pending")], decisions={"one": "approve"}
            ),
        ),
        (
            "approved changes not applied, or applied twice",
            lambda story: replace(story, change_requests=[ChangeRequest("one", "applied")]),
        ),
    ],
)
def test_what_did_not_end_is_noticed(story: Story, name: str, tamper: Callable[[Story], Story]) -> None:
    assert findings(name, tamper(story))


@pytest.mark.parametrize(
    ("name", "due_after", "status"),
    [
        ("scheduled changes made before their time", 5, "applied"),
        ("scheduled changes late by more than ten seconds", -11, "applied"),
        ("scheduled changes forgotten", 0, "superseded"),
        ("ends not counted from their own beginning", 55, "applied"),
    ],
)
def test_what_does_not_come_at_its_time_is_noticed(story: Story, name: str, due_after: int, status: str) -> None:
    _, record = some_update(story)
    made = replace(record, change_request="end")
    due_at = made.at + timedelta(seconds=due_after)
    end = ChangeRequest("end", status, None, due_at, record.id)
    told = replace(without(story, record), change_requests=[end], faults=[])
    told = replace(told, records=[*told.records, made])
    assert findings(name, told)
    at = made.at.timestamp()
    broken = replace(told, faults=[(at - 30, at - 5)])
    assert bool(findings(name, broken)) is (due_after != -11), "nothing can come while that is broken"


def test_a_budget_that_is_exceeded_is_noticed(story: Story) -> None:
    _, record = some_update(story)
    record = replace(record, change_request=None)
    made = [replace(record, id=str(number), reason=f"{BURST}-{number}") for number in range(BUDGET + 1)]
    assert findings("budgets exceeded", replace(story, records=made))
    made[0] = replace(made[0], change_request="approved")
    assert not findings("budgets exceeded", replace(story, records=made))
