"""Executing one run: every change is recorded before it is sent, made once, and its outcome found out.

The worker may be killed at any moment, and the directory or the database may become unavailable. So no state is in
memory alone: an account without a result is still pending; one with an open intent in the operations log is first
looked up in the directory, and written under the same intent only if it was not changed. Results are saved before the
log's records are closed, and the run completes after both, so that the next worker can close from the results what a
killed one left open. All of this happens while the domain controller works on other accounts of the run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import cast
from uuid import UUID

from django.db import transaction

from active_directory import Client, servers_asked
from audit import log
from audit.models import OPEN_OUTCOMES, OperationRecord, Outcome
from core.call import Call
from core.database import shared_clock
from core.errors import GatewayError
from core.text.messages import message
from directory import errors
from directory.changes.revert import reversibility
from directory.lookup.connection import get_client
from directory.lookup.replication import NotReplicatedYet, recent_changes_by_target, server_of
from directory.models.runs import AccountResult, AccountStatus, Run, RunState
from directory.outcomes import writer
from directory.outcomes.attribution import find_recorded_outcome
from directory.outcomes.evidence import confirm_outcomes, evidence_of, has_grown, require_reads_replicated
from directory.outcomes.writer import RecordedWrite
from directory.runs.assessment import MAX_ACCOUNTS, Account, Action, Effect, MorePrivilegedPeople, assess_named
from directory.runs.kept_assessment import recall

CHUNK = 50
"""The most accounts whose intents are recorded in one commit: enough to hide the cost of the log."""
_FIRST_CHUNK = 4
"""The first chunk is smaller, so that the domain controller gets its first writes soon."""

_RESULTS_PER_COMMIT = 20
"""Results saved in one commit: few enough to show progress, and to leave little work after the last write."""

MAX_ROUNDS = 3
"""How often accounts are assessed, for somebody else may change them between the assessment and the write."""

INTENT_LIFETIME = timedelta(days=1)
"""How long only the run settles its intents: the log's settler would close the record of a pending account."""


_OPEN_REFUSALS = (errors.Unavailable, errors.OutcomeUnknown, writer.NotSentInTime)
"""Refusals after which the intent stays open: the next round looks the write up, or sends it."""


class RunExecution:
    """The execution of one run by one worker: the accounts that remain, and those among them with an open intent."""

    def __init__(self, run: Run, *, before_each_step: Callable[[], None], is_new: bool) -> None:
        self._run = run
        self._action = cast(Action, run.action)
        self._before_each_step = before_each_step
        self._positions = {UUID(account): position for position, account in enumerate(run.accounts)}
        self._remaining = dict.fromkeys(self._positions)  # an ordered set
        self._intents: dict[UUID, OperationRecord] = {}
        # Results of writes that are not saved yet, and the error that keeps the run from sending more of them.
        self._results: list[AccountResult] = []
        self._servers: dict[UUID, str | None] = {}
        self._not_applied: list[writer.Result] = []
        self._failure: Exception | None = None
        if not is_new:
            self._resume()

    @property
    def _client(self) -> Client:
        return get_client(self._run.connection_id)

    def _resume(self) -> None:
        """Resume from the results and open intents that an earlier worker left.

        A late answer is only in the log, where the writer put it: such an account is done, too.
        """
        results = {result.account: result for result in self._run.results.all()}
        logged = OperationRecord.objects.filter(run_id=self._run.id, outcome__in=(Outcome.SUCCEEDED, *OPEN_OUTCOMES))
        records = [(record.target_id, record) for record in logged if record.target_id is not None]
        applied = {account: record for account, record in records if record.outcome == Outcome.SUCCEEDED}
        self._intents = {account: record for account, record in records if account not in applied}
        self._remaining = dict.fromkeys(account for account in self._positions if account not in results)
        self._close_intents(results.values())
        self._save_results(
            [self._account_result(each, applied[each].target_dn) for each in self._remaining if each in applied]
        )

    def look_up_open_intents(self) -> None:
        """Find out the outcomes of changes with an open intent; raises Unavailable."""
        intents = list(self._intents.items())
        outcomes = confirm_outcomes([partial(self._look_up, account, record) for account, record in intents])
        records = OperationRecord.objects.filter(id__in=[record.id for _, record in intents])
        still_open = set(records.filter(outcome__in=OPEN_OUTCOMES).values_list("id", flat=True))
        settled, is_answered = [], False
        for (account, record), outcome in zip(intents, outcomes, strict=True):
            if outcome is None:
                settled.append(self._account_result(account, record.target_dn, errors.OutcomeUnknown()))
            elif outcome:
                settled.append(self._account_result(account, record.target_dn))
            elif record.id not in still_open:
                is_answered = True
            elif not record.may_be_written():  # the log's settler may be at it: the next try gets its own record
                is_answered |= not log.complete(record.id, outcome=Outcome.FAILED, code=log.NOT_APPLIED)
                del self._intents[account]
        self._save_results(settled)
        if is_answered:  # the answer came late, and the writer has closed the record
            self._resume()

    def _look_up(self, account: UUID, record: OperationRecord) -> bool | None:
        outcome = find_recorded_outcome(self._client, record) if record.evidence else False
        if outcome is None:
            asked = self._client.at(server_of(record.evidence))
            asked.find(account, ("objectGUID",))  # raises while that domain controller is unavailable
            outcome = find_recorded_outcome(self._client, record)  # it may have become available again in between
        return outcome

    def execute(self, call: Call, *, more_privileged_people: MorePrivilegedPeople) -> None:
        """Change the remaining accounts and complete the run; raises Unavailable."""
        for _ in range(MAX_ROUNDS):
            waiting = iter([*self._remaining])
            while some := list(islice(waiting, MAX_ACCOUNTS)):  # soon written after they are read
                self._before_each_step()
                self._execute_step(call, some, more_privileged_people)
        self.fail_remaining(errors.VersionMismatch(message("Others kept changing this account.")))

    def _execute_step(self, call: Call, some: Sequence[UUID], more_privileged_people: MorePrivilegedPeople) -> None:
        accounts = self._recall(some, more_privileged_people) or self._assess(some, more_privileged_people)
        if any(each.effect is Effect.NONE and each.id in self._intents for each in accounts):
            self.look_up_open_intents()  # a write that was not applied at the last look may be applied by now
        left = [account for account in accounts if account.id in self._remaining]
        unchanged = [account for account in left if account.effect is Effect.NONE]
        self._save_results(
            [self._account_result(each.id, each.distinguished_name, is_changed=False) for each in unchanged]
        )
        self._write(call, [account for account in left if account.effect is not Effect.NONE])
        self.look_up_open_intents()

    def _recall(self, some: Sequence[UUID], more_privileged_people: MorePrivilegedPeople) -> list[Account] | None:
        """The assessment of the first accounts that the run was requested with, if it still holds."""
        recalled = recall(self._client, self._run, some, more_privileged_people=more_privileged_people)
        self._run.assessment = None  # the run's own writes are about to outdate it
        return recalled

    def _assess(self, some: Sequence[UUID], more_privileged_people: MorePrivilegedPeople) -> list[Account]:
        client = self._client
        with servers_asked() as servers:
            accounts = assess_named(
                client, self._run.unit, some, self._action, more_privileged_people=more_privileged_people
            )
        to_change = [account for account in accounts if account.effect is Effect.CHANGE]
        # The writer itself checks the objects that it writes.
        unsent = [account.as_target() for account in accounts if account.effect is not Effect.CHANGE]
        require_reads_replicated(client, servers, unsent)
        self._require_no_competing_change(to_change)
        return accounts

    def _require_no_competing_change(self, accounts: Sequence[Account]) -> None:
        """Raise NotReplicatedYet while somebody else's recent change of an account is open or was not read here.

        Samba accepts a guarded change of userAccountControl whose new value is already there: of two concurrent changes
        both would count as applied, although only one was.
        """
        entries = {account.id: account.entry for account in accounts}
        for account, changes in recent_changes_by_target(entries).items():
            entry = entries[account]
            for each in changes:
                is_seen = entry is None or has_grown(entry, each.evidence or {})
                if each.run_id != self._run.id and (each.outcome in OPEN_OUTCOMES or not is_seen):
                    raise NotReplicatedYet

    def fail_remaining(self, refusal: GatewayError) -> None:
        """Complete the run with a refusal for all remaining accounts; open intents must have been looked up before."""
        self._complete(dict.fromkeys(self._remaining, refusal))

    def give_up(self) -> None:
        """Complete the run although the directory is unavailable; the log's settler finds out about open intents."""
        unknown, unavailable = errors.OutcomeUnknown(), errors.Unavailable()
        self._complete({account: unknown if account in self._intents else unavailable for account in self._remaining})

    def _complete(self, refusals: Mapping[UUID, GatewayError]) -> None:
        names = {account: record.target_dn for account, record in self._intents.items()}
        self._save_results(
            [self._account_result(account, names.get(account), refusal) for account, refusal in refusals.items()]
        )
        # Outcomes that the database could not take are in this process's memory alone, and no worker resumes a
        # completed run: so the log's settler may look at the open records now.
        left_open = OperationRecord.objects.filter(run_id=self._run.id, outcome__in=OPEN_OUTCOMES)
        with transaction.atomic():
            left_open.update(settle_at=shared_clock.now())
            Run.objects.filter(id=self._run.id).update(
                state=RunState.COMPLETED, completed_at=shared_clock.now(), assessment=None
            )

    def _write(self, call: Call, accounts: Sequence[Account]) -> None:
        """Record the changes and send them; a change with an unknown outcome keeps its open intent.

        While the domain controller works on some, the intents of the next are recorded and results are saved. If either
        fails, nothing more is sent, and the outcomes of writes under way are saved before the error is raised.
        """
        names = {account.id: account.distinguished_name for account in accounts}
        for recorded, written in writer.write_many(self._client, self._iter_recorded(call, accounts)):
            account = recorded.record.target_id
            assert account is not None
            refusal = written.refusal
            if isinstance(refusal, NotReplicatedYet | errors.VersionMismatch):
                del self._intents[account]
                self._not_applied.append(written)
                # It was not sent: the next try reads and records at the domain controller that it writes to.
                if isinstance(refusal, NotReplicatedYet):
                    self._failure = self._failure or refusal
            elif not isinstance(refusal, _OPEN_REFUSALS):
                self._servers[account] = written.server
                self._results.append(self._account_result(account, names[account], refusal))
            if len(self._results) >= _RESULTS_PER_COMMIT:
                self._try_step(self._flush)
        self._flush()
        if self._failure is not None:
            raise self._failure

    def _iter_recorded(self, call: Call, accounts: Iterable[Account]) -> Iterator[RecordedWrite]:
        """Record intents chunk by chunk and yield the writes; a refused account gets its result at once."""
        waiting, size = iter(accounts), _FIRST_CHUNK
        while chunk := list(islice(waiting, size)):
            self._try_step(self._before_each_step)
            self._try_step(partial(self._record_intents, call, chunk))
            if self._failure is not None:
                return
            size = min(CHUNK, size * 4)
            for account in chunk:
                if account.refusal is None:
                    yield RecordedWrite(record=self._intents[account.id], write=account.write)
                else:
                    self._results.append(self._account_result(account.id, account.distinguished_name, account.refusal))

    def _try_step(self, step: Callable[[], None]) -> None:
        """Take a step whose failure must not lose the outcomes of writes under way; nothing after a failure."""
        if self._failure is None:
            try:
                step()
            except Exception as error:  # noqa: BLE001 - `_write` raises it after the outcomes are saved
                self._failure = error

    def _record_intents(self, call: Call, accounts: Sequence[Account]) -> None:
        """Record one intent for each account, in one commit; an account keeps an intent that is still open."""
        new = [account for account in accounts if account.id not in self._intents]
        intents = [self._intent(account) for account in new]
        records = log.record_intents(call, intents, seconds_until_write=INTENT_LIFETIME.total_seconds())
        self._intents |= {account.id: record for account, record in zip(new, records, strict=True)}

    def _intent(self, account: Account) -> log.Intent:
        """The intent of a change, with the evidence for a later look-up, or of a refusal, which has none."""
        evidence = None
        if account.refusal is None and account.entry is not None:
            evidence = evidence_of(account.write, entry=account.entry, schema=self._client.schema)
        return log.Intent(
            operation=self._run.operation,
            target=log.TargetRef(account.id, account.kind, account.distinguished_name or ""),
            changes=[dict(change.as_json()) for change in account.changes],
            evidence=evidence,
            run_id=self._run.id,
            reversible=reversibility(self._run.operation, account.changes),
            approved_by=self._run.approved_by,
        )

    def _flush(self) -> None:
        """Save the results known so far."""
        self._save_results(self._results)
        # These were certainly not applied. The next round assesses their accounts again, with new records.
        writer.close(self._not_applied)
        self._results.clear()
        self._not_applied.clear()

    def _account_result(
        self, account: UUID, dn: str | None, refusal: GatewayError | None = None, *, is_changed: bool = True
    ) -> AccountResult:
        status = AccountStatus.SUCCEEDED if is_changed else AccountStatus.UNCHANGED
        return AccountResult(
            run=self._run,
            position=self._positions[account],
            account=account,
            distinguished_name=dn,
            status=status if refusal is None else AccountStatus.FAILED,
            problem=refusal.as_problem() if refusal else None,
        )

    def _save_results(self, results: Sequence[AccountResult]) -> None:
        """Save the results, then close the records of these accounts."""
        if not results:
            return
        # Another worker may have taken over while this one was stalled: the first result stands.
        AccountResult.objects.bulk_create(results, ignore_conflicts=True)
        self._close_intents(results)
        for result in results:
            self._remaining.pop(result.account, None)

    def _close_intents(self, results: Iterable[AccountResult]) -> None:
        """Close the records of accounts that have results."""
        closed = []
        for result in results:
            if (record := self._intents.pop(result.account, None)) is not None:
                code = (result.problem or {}).get("code")
                if result.status == AccountStatus.UNCHANGED:  # an open intent whose write was never applied
                    code = log.NOT_APPLIED
                closed.append(writer.completion_of(record, code, server=self._servers.get(result.account)))
        log.complete_many(closed)
