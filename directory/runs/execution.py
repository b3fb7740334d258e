"""Doing one run: each change recorded before it is sent, done once, and its outcome found out whatever happens.

The worker may be killed at any moment, and the directory or the database may go away. So nothing rests on memory: an
account without a result is still to be done; one with an open intent in the operations log is looked up in the
directory first, and written under that same intent only when it was not. Results are noted before the log's records
are closed, and the run ends after both: what a killed worker left open can always be closed from the result. All of
this is done while the domain controller is at work on other accounts of the run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import islice
from types import MappingProxyType
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
from directory.changes.reversibility import reversible_as
from directory.lookup.connection import get_client
from directory.lookup.replication import NotReplicatedYet, recent_changes_of, server_of
from directory.models.runs import AccountResult, AccountStatus, Run, RunState
from directory.outcomes import writer
from directory.outcomes.attribution import find_recorded_outcome
from directory.outcomes.evidence import evidence_of, has_grown, look_twice_for_absent
from directory.outcomes.replication import require_judged_by_all
from directory.outcomes.writer import RecordedWrite
from directory.runs.assessment import Account, Action, Effect, MorePrivilegedPeople, assess_named

CHUNK = 50
"""Accounts recorded at once, at most: many enough to hide what the log costs. The first are fewer (`_FIRST`), so that
the domain controller soon has something to do."""
_FIRST = 10

_NOTED = 20
"""Results noted at once: few enough to show progress, and to leave little to do when the last write is made."""

MAX_ROUNDS = 3
"""How often accounts are assessed anew because somebody else changed them between the look and the write."""

INTENT_LIFE = timedelta(days=1)
"""How long an intent is the run's own to settle. The run will know better than the log's settler, who would close the
record of an account that is still to be done."""


_STAYS_OPEN = (errors.Unavailable, errors.OutcomeUnknown, writer.NotSentInTime)
"""Refusals after which the next round finds out what became of the write, or makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _AccountWrite(RecordedWrite):
    """The write that changes one account."""

    account: Account


@dataclass(slots=True)
class _Known:
    """What is known of writes and not noted yet, and what keeps a run from sending more of them."""

    results: list[AccountResult] = field(default_factory=list)
    servers: dict[UUID, str | None] = field(default_factory=dict)
    not_made: list[writer.Result] = field(default_factory=list)
    failure: Exception | None = None

    def unless_failed(self, step: Callable[[], None]) -> None:
        """Take a step whose failure must not keep the outcomes of writes under way from being heard."""
        if self.failure is None:
            try:
                step()
            except Exception as error:  # noqa: BLE001 - nothing is hidden: it is raised when they are
                self.failure = error


class RunExecution:
    """One run in the hands of one worker: which accounts are left, and which of them have an open intent."""

    def __init__(self, run: Run, *, before_each_step: Callable[[], None], is_new: bool) -> None:
        self._run = run
        self._action = cast(Action, run.action)
        self._before_each_step = before_each_step
        self._positions = {UUID(account): position for position, account in enumerate(run.accounts)}
        self._left = dict.fromkeys(self._positions)  # an ordered set
        self._intents: dict[UUID, OperationRecord] = {}
        if not is_new:
            self._remember()

    def _remember(self) -> None:
        """Go on from what an earlier worker left: results, and intents that it did not come to close.

        An answer that came after that worker had gone on is in the log alone, and the account is done all the same.
        """
        results = {result.account: result for result in self._run.results.all()}
        told = OperationRecord.objects.filter(run_id=self._run.id, outcome__in=(Outcome.SUCCEEDED, *OPEN_OUTCOMES))
        records = [(record.target_id, record) for record in told if record.target_id is not None]
        made = {account: record for account, record in records if record.outcome == Outcome.SUCCEEDED}
        self._intents = {account: record for account, record in records if account not in made}
        self._left = dict.fromkeys(account for account in self._positions if account not in results)
        self._close_intents(list(results.values()), {})
        heard = [account for account in self._left if account in made]
        self._finish([self._result(each, AccountStatus.SUCCEEDED, made[each].target_dn) for each in heard])

    def look_up_open_intents(self) -> None:
        """Find out what became of changes whose outcome is not known; raises Unavailable."""
        intents = list(self._intents.items())
        outcomes = look_twice_for_absent([partial(self._look_up, account, record) for account, record in intents])
        records = OperationRecord.objects.filter(id__in=[record.id for _, record in intents])
        still_open = set(records.filter(outcome__in=OPEN_OUTCOMES).values_list("id", flat=True))
        settled, is_answered = [], False
        for (account, record), outcome in zip(intents, outcomes, strict=True):
            if outcome is None:
                unknown = errors.OutcomeUnknown()
                settled.append(self._result(account, AccountStatus.FAILED, record.target_dn, unknown))
            elif outcome:
                settled.append(self._result(account, AccountStatus.SUCCEEDED, record.target_dn))
            elif record.id not in still_open:
                is_answered = True
            elif not record.may_be_written():  # the log's settler may be at it: the next try gets its own record
                is_answered |= not log.complete(record.id, outcome=Outcome.FAILED, code=log.NOT_APPLIED)
                del self._intents[account]
        self._finish(settled)
        if is_answered:  # late, to whoever had sent it
            self._remember()

    def _look_up(self, account: UUID, record: OperationRecord) -> bool | None:
        outcome = find_recorded_outcome(self._client, record) if record.evidence else False
        if outcome is None:
            asked = self._client.at(server_of(record.evidence))
            asked.find(account, ("objectGUID",))  # raises when that domain controller is away
            outcome = find_recorded_outcome(self._client, record)  # it may have been, and have come back since
        return outcome

    def execute(self, call: Call, *, more_privileged_people: MorePrivilegedPeople) -> None:
        """Do the accounts that are left and end the run; raises Unavailable."""
        for _ in range(MAX_ROUNDS):
            if not self._left:
                break
            client = self._client
            with servers_asked() as servers:
                accounts = assess_named(
                    client, self._run.unit, self._left, self._action, more_privileged_people=more_privileged_people
                )
            # The writer makes sure of those that it writes to.
            unsent = [account for account in accounts if account.effect is not Effect.CHANGE]
            require_judged_by_all(client, servers, [each.as_target() for each in unsent])
            self._require_nothing_under_way([each for each in accounts if each.effect is Effect.CHANGE])
            if any(each.effect is Effect.NONE and each.id in self._intents for each in accounts):
                self.look_up_open_intents()  # what was looked for in vain may have been made since
            left = [account for account in accounts if account.id in self._left]
            unchanged = [account for account in left if account.effect is Effect.NONE]
            self._finish(
                [self._result(each.id, AccountStatus.UNCHANGED, each.distinguished_name) for each in unchanged]
            )
            self._write(call, [account for account in left if account.effect is not Effect.NONE])
            self.look_up_open_intents()
        self.fail_rest(errors.VersionMismatch(message("Others kept changing this account.")))

    def _require_nothing_under_way(self, accounts: Sequence[Account]) -> None:
        """Raise NotReplicatedYet while a recent change of an account, by somebody else, is open or was not seen here.

        Samba makes no difference of a userAccountControl that is as wanted already: of two such changes on their way
        both would be called made, and one was.
        """
        entries = {account.id: account.entry for account in accounts}
        for account, changes in recent_changes_of(entries).items():
            entry = entries[account]
            for each in changes:
                is_seen = entry is None or has_grown(entry, each.evidence or {})
                if each.run_id != self._run.id and (each.outcome in OPEN_OUTCOMES or not is_seen):
                    raise NotReplicatedYet

    def fail_rest(self, refusal: GatewayError) -> None:
        """End the run; what is left failed for this reason. Open intents must have been looked up before."""
        self._end(dict.fromkeys(self._left, refusal))

    def give_up(self) -> None:
        """End the run although the directory is away; what became of open intents is left to the log's settler."""
        unknown, unavailable = errors.OutcomeUnknown(), errors.Unavailable()
        self._end({account: unknown if account in self._intents else unavailable for account in self._left})

    def _end(self, refusals: Mapping[UUID, GatewayError]) -> None:
        intents, failed = self._intents, AccountStatus.FAILED
        names = {account: intents[account].target_dn for account in refusals if account in intents}
        self._finish([self._result(account, failed, names.get(account), why) for account, why in refusals.items()])
        # Outcomes that the database did not take are kept by this process alone, and nobody comes back to the run.
        left_open = OperationRecord.objects.filter(run_id=self._run.id, outcome__in=OPEN_OUTCOMES)
        with transaction.atomic():
            left_open.update(settle_at=shared_clock.now())
            Run.objects.filter(id=self._run.id).update(state=RunState.COMPLETED, completed_at=shared_clock.now())

    @property
    def _client(self) -> Client:
        return get_client(self._run.connection_id)

    def _record_intents(self, call: Call, accounts: Sequence[Account]) -> None:
        """One intent for each account, in one commit; one that has an open intent keeps it."""
        new = [account for account in accounts if account.id not in self._intents]
        intents = [self._intent(account) for account in new]
        records = log.record_intents(call, intents, seconds_until_write=INTENT_LIFE.total_seconds())
        self._intents |= {account.id: record for account, record in zip(new, records, strict=True)}

    def _intent(self, account: Account) -> log.Intent:
        """The intent of a change, with the evidence for a later look-up; of a refusal, which is recorded alike."""
        evidence = None
        if account.refusal is None:
            evidence = evidence_of(account.write, entry=account.entry, schema=self._client.schema)
        return log.Intent(
            operation=self._run.operation,
            target=log.TargetRef(account.id, account.kind, account.distinguished_name or ""),
            changes=[dict(change.as_json()) for change in account.changes],
            evidence=evidence,
            run_id=self._run.id,
            reversible=reversible_as(self._run.operation, account.changes),
            approved_by=self._run.approved_by,
        )

    def _write(self, call: Call, accounts: Iterable[Account]) -> None:
        """Record the changes and send them; what is not known of their outcomes stays an open intent.

        While the domain controller is at work on some, the intents of the next are recorded and results are noted. If
        either fails, nothing more is sent, and those under way are awaited and noted before it is raised.
        """
        known = _Known()
        for entry, written in writer.write_many(self._client, self._recorded(call, accounts, known)):
            self._take(entry.account, written, known)
            if len(known.results) >= _NOTED:
                known.unless_failed(partial(self._note, known))
        self._note(known)
        if known.failure is not None:
            raise known.failure

    def _recorded(self, call: Call, accounts: Iterable[Account], known: _Known) -> Iterator[_AccountWrite]:
        """The writes that may be sent: their intents are in the log. What is refused has its result at once."""
        waiting, size = iter(accounts), _FIRST
        while chunk := list(islice(waiting, size)):
            known.unless_failed(self._before_each_step)
            known.unless_failed(partial(self._record_intents, call, chunk))
            if known.failure is not None:
                return
            size = min(CHUNK, size * 4)
            for account in chunk:
                if account.refusal is None:
                    yield _AccountWrite(record=self._intents[account.id], write=account.write, account=account)
                else:
                    dn, refusal = account.distinguished_name, account.refusal
                    known.results.append(self._result(account.id, AccountStatus.FAILED, dn, refusal))

    def _take(self, account: Account, written: writer.Result, known: _Known) -> None:
        refusal, dn = written.refusal, account.distinguished_name
        if refusal is None:
            known.results.append(self._result(account.id, AccountStatus.SUCCEEDED, dn))
            known.servers[account.id] = written.server
        elif isinstance(refusal, NotReplicatedYet | errors.VersionMismatch):
            del self._intents[account.id]
            known.not_made.append(written)
            # Not sent: the next try is judged, and recorded, where it is sent.
            if isinstance(refusal, NotReplicatedYet):
                known.failure = known.failure or refusal
        elif not isinstance(refusal, _STAYS_OPEN):
            known.results.append(self._result(account.id, AccountStatus.FAILED, dn, refusal))

    def _note(self, known: _Known) -> None:
        """Put what is known where it stays."""
        self._finish(known.results, known.servers)
        # These were not applied, for certain. The next round looks at their accounts anew, with records of their own.
        writer.close(known.not_made)
        known.results.clear()
        known.not_made.clear()

    def _result(
        self, account: UUID, status: AccountStatus, dn: str | None, refusal: GatewayError | None = None
    ) -> AccountResult:
        return AccountResult(
            run=self._run,
            position=self._positions[account],
            account=account,
            distinguished_name=dn,
            status=status,
            problem=refusal.as_problem() if refusal else None,
        )

    def _finish(
        self, results: Sequence[AccountResult], servers: Mapping[UUID, str | None] = MappingProxyType({})
    ) -> None:
        """Note the results, then close the records of these accounts; `servers` tells who changed them, if known."""
        if not results:
            return
        # Another worker may have been at it while this one was held up: the first result stands.
        AccountResult.objects.bulk_create(results, ignore_conflicts=True)
        self._close_intents(results, servers)
        for result in results:
            self._left.pop(result.account, None)

    def _close_intents(self, results: Sequence[AccountResult], servers: Mapping[UUID, str | None]) -> None:
        closed = [
            _completion(self._intents.pop(result.account), result, servers.get(result.account))
            for result in results
            if result.account in self._intents
        ]
        if closed:
            log.complete_many(closed)


def _completion(record: OperationRecord, result: AccountResult, server: str | None) -> log.Completion:
    """The log's outcome for an account's result."""
    code = (result.problem or {}).get("code")
    if result.status == AccountStatus.UNCHANGED:  # as wanted already: an open intent of it was never written
        code = log.NOT_APPLIED
    return writer.completion(record, code, server=server)
