"""A run's execution in this process, where what the directory answers to one account can be chosen."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from active_directory import Client, InvalidValue, LdapError, Modify, VersionConflict, Written
from audit import log
from audit.models import OperationRecord
from core.call import Call, Surface
from directory.errors import DirectoryRejected
from directory.lookup.connection import get_client
from directory.lookup.replication import NotReplicatedYet
from directory.models import DirectoryConnection
from directory.models.runs import AccountStatus, Run
from directory.outcomes import evidence, writer
from directory.outcomes.evidence import evidence_of
from directory.runs import execution as run_execution
from directory.runs.assessment import Account, assess_named
from directory.runs.execution import RunExecution
from gateway import tasks
from keys.permissions.effective import call_for_key
from lab.directory import Directory
from lab.domain import Domain
from lab.proxy import FaultyProxy
from tests.directory.runs.unit import Unit
from tests.support.cast import Integration, make_connection


@pytest.fixture(autouse=True)
def nothing_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not there when a run looks for it is written by the test, or never: there is nothing to wait for."""
    monkeypatch.setattr(evidence, "SECONDS_OF_ABSENCE", 0)


@pytest.fixture
def call(integration: Integration, connection: DirectoryConnection) -> Call:
    return call_for_key(integration.key.id, connection_id=connection.id, surface=Surface.WORKER, request_id="test")


def make_run(unit: Unit, call: Call, accounts: Sequence[UUID]) -> Run:
    """A run that no worker takes up, since its row says that it is over."""
    return Run.objects.create(
        connection_id=call.directory.id,
        operation="organization-units.disable-accounts",
        action="disable",
        unit=unit.id,
        unit_dn=unit.dn,
        accounts=[str(account) for account in accounts],
        state="completed",
        person_id=call.person.id,
        credential_kind=call.credential.kind,
        credential_id=call.credential.id,
        request_id="test",
    )


def nobody(accounts: Collection[UUID]) -> Collection[UUID]:
    """None of these accounts is that of a person above the caller."""
    return set(accounts) & set()


def execute(run: Run, call: Call, *, is_new: bool = True) -> dict[UUID, tuple[str, str | None]]:
    """The status of each account and the code of its problem."""
    execution = RunExecution(run, before_each_step=lambda: None, is_new=is_new)
    execution.look_up_open_intents()
    execution.execute(call, more_privileged_people=nobody)
    return {item.account: (item.status, item.problem and item.problem["code"]) for item in run.results.all()}


def outcomes(run: Run, account: UUID) -> list[tuple[str, str | None]]:
    records = OperationRecord.objects.filter(run_id=run.id, target_id=account).order_by("id")
    return [(record.outcome, record.code) for record in records]


def answer_instead(
    monkeypatch: pytest.MonkeyPatch, account: UUID, errors: list[LdapError], meanwhile: Callable[[], Any]
) -> None:
    """Let the directory refuse the writes to one account, one error each, after something happened to it."""
    write_many = Client.write_many

    def refuse(self: Client, upcoming: Iterable[Modify]) -> Iterator[Written]:
        writes = list(upcoming)
        chosen = [index for index, write in enumerate(writes) if str(account) in write.dn] if errors else []
        others = [index for index in range(len(writes)) if index not in chosen]
        for index in chosen:
            meanwhile()
            yield Written(index, errors.pop(0), "")
        for written in write_many(self, [writes[index] for index in others]):
            yield written._replace(position=others[written.position])

    monkeypatch.setattr(Client, "write_many", refuse)


def test_a_refusal_of_the_directory_is_the_account_s_own(
    unit: Unit, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, other = unit.add_users(2)
    answer_instead(monkeypatch, refused, [InvalidValue("0000052D: no")], lambda: None)
    run = make_run(unit, call, [refused, other])
    assert execute(run, call) == {refused: ("failed", "AD.Directory.Rejected"), other: ("succeeded", None)}
    assert outcomes(run, refused) == [("failed", "AD.Directory.Rejected")]
    assert unit.count_enabled([refused, other]) == 1


def test_a_lost_race_is_run_again(
    unit: Unit, directory: Directory, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user,) = unit.add_users(1)
    answer_instead(monkeypatch, user, [VersionConflict()], lambda: directory.modify(user, userAccountControl="66080"))
    run = make_run(unit, call, [user])
    assert execute(run, call) == {user: ("succeeded", None)}
    assert outcomes(run, user) == [("failed", "AD.Object.VersionMismatch"), ("succeeded", None)]
    assert directory.text(user, "userAccountControl") == str(66080 | 2)  # what the other one wrote is kept


def test_what_somebody_else_did_meanwhile_is_no_change(
    unit: Unit, directory: Directory, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user,) = unit.add_users(1)
    answer_instead(monkeypatch, user, [VersionConflict()], lambda: directory.modify(user, userAccountControl="66082"))
    assert execute(make_run(unit, call, [user]), call) == {user: ("unchanged", None)}


def test_races_are_not_run_for_ever(unit: Unit, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    (user,) = unit.add_users(1)
    answer_instead(monkeypatch, user, [VersionConflict() for _ in range(9)], lambda: None)
    assert execute(make_run(unit, call, [user]), call) == {user: ("failed", "AD.Object.VersionMismatch")}


def test_a_write_that_was_held_up_is_not_sent_and_gets_a_record_of_its_own(
    unit: Unit, directory: Directory, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user,) = unit.add_users(1)
    may_be_written, held_up = OperationRecord.may_be_written, list[UUID]()

    def unless_the_first(record: OperationRecord) -> bool:
        held_up.append(record.id)
        return record.id != held_up[0] and may_be_written(record)

    monkeypatch.setattr(OperationRecord, "may_be_written", unless_the_first)
    run = make_run(unit, call, [user])
    assert execute(run, call) == {user: ("succeeded", None)}
    assert outcomes(run, user) == [("failed", "AD.Directory.NotApplied"), ("succeeded", None)]
    assert not directory.is_enabled(user)


def test_what_is_under_way_when_the_log_fails_is_noted(unit: Unit, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next intents are recorded while the directory is at work: their failure leaves nothing open behind it."""
    sent, unsent = unit.add_users(2)
    record_intents, seen = log.record_intents, list[list[tuple[str, str | None]]]()

    def once(*arguments: Any, **more: Any) -> list[OperationRecord]:
        seen.append(outcomes(run, sent))
        if len(seen) > 1:
            raise log.NotRecorded
        return record_intents(*arguments, **more)

    monkeypatch.setattr(run_execution, "_FIRST_CHUNK", 1)
    monkeypatch.setattr(log, "record_intents", once)
    run = make_run(unit, call, [sent, unsent])
    with pytest.raises(log.NotRecorded):
        execute(run, call)
    assert seen == [[], [("pending", None)]]
    assert outcomes(run, sent) == [("succeeded", None)]
    assert [(item.account, item.status) for item in run.results.all()] == [(sent, "succeeded")]
    assert (outcomes(run, unsent), unit.count_enabled([sent, unsent])) == ([], 1)


def leave_intent(
    unit: Unit, directory: Directory, call: Call, run: Run, user: UUID, *, seconds_until_write: float
) -> tuple[Client, Modify]:
    """The intent of a worker that was killed, and what it had to send."""
    client = get_client(call.directory.id)
    (account,) = assess_named(client, run.unit, [user], "disable", more_privileged_people=nobody)
    intent = log.Intent(
        operation=run.operation,
        target=log.TargetRef(user, "user", directory.dn(user)),
        changes=[change.as_json() for change in account.changes],
        evidence=evidence_of(account.write, entry=account.entry, schema=client.schema),
        run_id=run.id,
    )
    log.record_intents(call, [intent], seconds_until_write=seconds_until_write)
    return client, account.write


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("was_sent", [True, False])
def test_an_open_intent_is_looked_up_first(
    unit: Unit, directory: Directory, call: Call, was_sent: bool, comes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the directory does not answer the first look, and comes back right after it."""
    (user,) = unit.add_users(1)
    run = make_run(unit, call, [user])
    client, write = leave_intent(unit, directory, call, run, user, seconds_until_write=3600)
    if was_sent:
        client.write(write)

    if comes_back:
        look, away = vars(run_execution)["find_recorded_outcome"], [True]
        monkeypatch.setattr(
            run_execution, "find_recorded_outcome", lambda *at: None if away and away.pop() else look(*at)
        )
    assert execute(run, call, is_new=False) == {user: ("succeeded", None)}
    assert outcomes(run, user) == [("succeeded", None)]
    assert not directory.is_enabled(user)


def test_what_was_sent_and_still_waits_for_its_turn_is_no_absence(
    unit: Unit, directory: Directory, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user,) = unit.add_users(1)
    run = make_run(unit, call, [user])
    client, write = leave_intent(unit, directory, call, run, user, seconds_until_write=-60)
    monkeypatch.setattr(evidence, "sleep", lambda _: client.write(write))
    assert execute(run, call, is_new=False) == {user: ("succeeded", None)}
    assert outcomes(run, user) == [("succeeded", None)]


def answer(run: Run, client: Client, write: Modify) -> None:
    """The answer comes to a worker that has gone on: it closes the record, and notes no result."""
    client.write(write)
    writer.close([writer.Result(record=OperationRecord.objects.get(run_id=run.id))])


def test_what_was_answered_after_its_worker_had_gone_on_is_done(unit: Unit, directory: Directory, call: Call) -> None:
    """The next worker may ask a domain controller that does not show it yet."""
    (user,) = unit.add_users(1)
    before = directory.text(user, "userAccountControl")
    run = make_run(unit, call, [user])
    answer(run, *leave_intent(unit, directory, call, run, user, seconds_until_write=3600))
    directory.modify(user, userAccountControl=before)
    assert execute(run, call, is_new=False) == {user: ("succeeded", None)}
    assert outcomes(run, user) == [("succeeded", None)]
    assert directory.is_enabled(user)


def test_what_is_answered_after_the_look_is_done(
    unit: Unit, directory: Directory, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user,) = unit.add_users(1)
    run = make_run(unit, call, [user])
    sent = [leave_intent(unit, directory, call, run, user, seconds_until_write=-60)]
    look = evidence.confirm_outcomes

    def then_answer(looks: Sequence[Callable[[], bool | None]]) -> list[bool | None]:
        found = look(looks)
        while sent:
            answer(run, *sent.pop())
        return found

    monkeypatch.setattr(run_execution, "confirm_outcomes", then_answer)
    assert execute(run, call, is_new=False) == {user: ("succeeded", None)}
    assert outcomes(run, user) == [("succeeded", None)]


def test_what_is_refused_after_the_look_gets_a_record_of_its_own(
    unit: Unit, directory: Directory, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user,) = unit.add_users(1)
    run = make_run(unit, call, [user])
    leave_intent(unit, directory, call, run, user, seconds_until_write=3600)
    look = evidence.confirm_outcomes

    def then_refuse(looks: Sequence[Callable[[], bool | None]]) -> list[bool | None]:
        found = look(looks)
        pending = OperationRecord.objects.filter(run_id=run.id, outcome="pending")
        writer.close([writer.Result(record=record, refusal=DirectoryRejected()) for record in pending])
        return found

    monkeypatch.setattr(run_execution, "confirm_outcomes", then_refuse)
    assert execute(run, call, is_new=False) == {user: ("succeeded", None)}
    assert outcomes(run, user) == [("failed", "AD.Directory.Rejected"), ("succeeded", None)]


def before_assessing(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Let something happen once, right before a run assesses its accounts."""
    assess = vars(run_execution)["assess_named"]

    def after_that(*given: Any, **named: Any) -> list[Account]:
        monkeypatch.setattr(run_execution, "assess_named", assess)
        do()
        return assess(*given, **named)

    monkeypatch.setattr(run_execution, "assess_named", after_that)


def test_what_was_looked_for_in_vain_and_is_made_then_is_the_run_s_own(
    unit: Unit, directory: Directory, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user,) = unit.add_users(1)
    run = make_run(unit, call, [user])
    client, write = leave_intent(unit, directory, call, run, user, seconds_until_write=3600)
    before_assessing(monkeypatch, lambda: client.write(write))
    assert execute(run, call, is_new=False) == {user: ("succeeded", None)}
    assert outcomes(run, user) == [("succeeded", None)]


def test_who_waits_for_an_answer_takes_no_time_from_the_run(unit: Unit, directory: Directory, call: Call) -> None:
    (user,) = unit.add_users(1)
    run = make_run(unit, call, [user])
    leave_intent(unit, directory, call, run, user, seconds_until_write=3600)
    record = OperationRecord.objects.get(run_id=run.id)
    assert log.keep_open([record.id]) == 1
    assert OperationRecord.objects.get(run_id=run.id).settle_at == record.settle_at


def test_what_another_run_has_done_since_the_look_is_waited_for(
    unit: Unit, directory: Directory, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samba takes a second change for made that finds the account as wanted."""
    (user,) = unit.add_users(1)
    first, second = (make_run(unit, call, [user]) for _ in range(2))
    client, write = leave_intent(unit, directory, call, first, user, seconds_until_write=3600)
    judge = vars(run_execution)["require_reads_replicated"]

    def then_done(*given: Any) -> None:
        monkeypatch.setattr(run_execution, "require_reads_replicated", judge)
        client.write(write)
        assert execute(first, call, is_new=False) == {user: ("succeeded", None)}

    monkeypatch.setattr(run_execution, "require_reads_replicated", then_done)
    with pytest.raises(NotReplicatedYet):
        execute(second, call)
    assert execute(second, call) == {user: ("unchanged", None)}
    assert (outcomes(first, user), outcomes(second, user)) == ([("succeeded", None)], [])


def test_what_another_run_has_under_way_is_waited_for(unit: Unit, directory: Directory, call: Call) -> None:
    """Samba answers both with success and makes one change."""
    (user,) = unit.add_users(1)
    first, second = (make_run(unit, call, [user]) for _ in range(2))
    client, write = leave_intent(unit, directory, call, first, user, seconds_until_write=3600)
    with pytest.raises(NotReplicatedYet):
        execute(second, call)
    client.write(write)
    assert execute(first, call, is_new=False) == {user: ("succeeded", None)}
    assert execute(second, call) == {user: ("unchanged", None)}
    assert (outcomes(first, user), outcomes(second, user)) == ([("succeeded", None)], [])


def test_a_noted_result_closes_its_record(unit: Unit, directory: Directory, call: Call) -> None:
    (user,) = unit.add_users(1)
    run = make_run(unit, call, [user])
    target = log.TargetRef(user, "user", directory.dn(user))
    log.record_intents(call, [log.Intent(operation=run.operation, target=target, run_id=run.id)])
    run.results.create(position=0, account=user, status=AccountStatus.SUCCEEDED, distinguished_name=directory.dn(user))
    execute(run, call, is_new=False)
    assert outcomes(run, user) == [("succeeded", None)]


def test_giving_up_leaves_the_unknown_to_the_settler(unit: Unit, directory: Directory, call: Call) -> None:
    sent, unsent = unit.add_users(2)
    run = make_run(unit, call, [sent, unsent])
    target = log.TargetRef(sent, "user", directory.dn(sent))
    log.record_intents(
        call, [log.Intent(operation=run.operation, target=target, run_id=run.id, evidence={"write": "modify"})]
    )
    RunExecution(run, before_each_step=lambda: None, is_new=False).give_up()
    codes = {item.account: item.problem["code"] for item in run.results.all()}
    assert codes == {sent: "AD.Directory.OutcomeUnknown", unsent: "AD.Directory.Unavailable"}
    assert outcomes(run, sent) == [("unknown", "AD.Directory.OutcomeUnknown")]
    assert outcomes(run, unsent) == []


def test_outcomes_lost_with_the_worker_are_the_settler_s(
    unit: Unit, directory: Directory, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database did not take them when they were known, and the worker was killed before it did."""
    (user,) = unit.add_users(1)
    run = make_run(unit, call, [user])
    with monkeypatch.context() as patch:
        patch.setattr(log, "complete_many", lambda *_, **__: None)
        assert execute(run, call) == {user: ("succeeded", None)}
    assert outcomes(run, user) == [("pending", None)]
    tasks.sweep()
    assert outcomes(run, user) == [("succeeded", None)]


def test_what_was_judged_at_another_server_is_judged_anew(
    unit: Unit, call: Call, domain: Domain, directory_proxy: FaultyProxy
) -> None:
    """All hosts use another one by the time it is sent: here the same domain controller by two names."""
    (user,) = unit.add_users(1)
    twice = make_connection(domain, urls=[domain.url, directory_proxy.url])
    run = make_run(unit, call, [user])
    Run.objects.update(connection_id=twice.pk)
    run.refresh_from_db()
    target = log.TargetRef(user, "user", "")
    evidence = {"write": "delete", "id": str(user), "server": directory_proxy.url}  # which was not done, for certain
    intent = log.Intent(operation=run.operation, target=target, run_id=run.id, evidence=evidence)
    log.record_intents(call, [intent], seconds_until_write=run_execution.INTENT_LIFETIME.total_seconds())
    with pytest.raises(NotReplicatedYet):
        execute(run, call, is_new=False)
    assert outcomes(run, user) == [("failed", "AD.Directory.Unavailable")]
    assert execute(run, call, is_new=False) == {user: ("succeeded", None)}
    assert outcomes(run, user) == [("failed", "AD.Directory.Unavailable"), ("succeeded", None)]
