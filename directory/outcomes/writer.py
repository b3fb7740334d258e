"""The one writer, which takes every directory write from its recorded intent to its outcome.

The intent is in the operations log before anything is sent (a `RecordedWrite` holds the record). The writer sends each
write once, alone (`write`) or with others on one connection (`write_many`), and never after a delay so long that a
settler may have closed its record. A lost answer is no failure: the writer reads the directory to find out whether the
write was applied. It waits for a late answer while the record stays open (`LateWrites`). `close` puts the outcomes into
the log. A process that is killed between any two of these steps leaves open records, which the log's settler closes in
the same way.

The callers decide which intents to record and what an outcome means: for a single change, a batch, a run, and the
dependent changes of another change.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from time import monotonic
from typing import Final, TypeVar
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from active_directory import Add, Client, Delete, LateAnswers, LdapError, Modify, Rename, StillUnderWay, Write
from audit import log
from audit.models import OperationRecord, Outcome
from core.errors import GatewayError, ServiceUnavailable
from core.text.messages import message
from directory import errors
from directory.lookup.replication import NotReplicatedYet, server_of
from directory.models import PasswordAttempt
from directory.outcomes.attribution import await_recorded_outcomes
from directory.outcomes.evidence import find_created, require_replicated
from directory.policies import password_attempts

_logger = structlog.stdlib.get_logger(__name__)


class NotSentInTime(ServiceUnavailable):
    """The write was not sent, because a settler may have closed its record since the intent was recorded."""

    def __init__(self) -> None:
        super().__init__(message("The change was held up for too long and was not sent."))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWrite:
    """A write whose intent is in the log.

    `is_password_known`: the current password in it is the client's own bind password, so the write is no guess.
    """

    record: OperationRecord
    write: Write
    is_password_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a recorded write.

    `refusal` is None for an applied write and OutcomeUnknown for an unknown outcome; any other error means that the
    write was not applied. A write that was not sent was not applied, whatever its refusal. `server` is the domain
    controller that applied it, None if the outcome was found afterwards; `created` is the object that an add created.
    """

    record: OperationRecord
    refusal: GatewayError | None = None
    was_sent: bool = True
    server: str | None = None
    created: log.TargetRef | None = None

    @property
    def is_applied(self) -> bool:
        return self.refusal is None


_RecordedWrite = TypeVar("_RecordedWrite", bound=RecordedWrite)


def write(client: Client, recorded: RecordedWrite) -> Result:
    """Send one write to the domain controller whose state the proposal was based on.

    It waits some seconds to find the outcome behind a lost answer. It never raises GatewayError.
    """
    here = client.at(server_of(recorded.record.evidence))
    try:
        attempt = _admit(here, recorded)
    except GatewayError as refusal:
        return Result(record=recorded.record, refusal=refusal, was_sent=False)
    try:
        with errors.translate_ldap_errors():
            server = here.write(recorded.write)
    except errors.OutcomeUnknown as unknown:
        result = _await_late_result(client, here, recorded, unknown)
        if result.refusal is not None:  # the directory may have checked the password: the attempt stays counted
            return result
    except GatewayError as refusal:
        result = Result(record=recorded.record, refusal=refusal)
    else:
        result = Result(record=recorded.record, server=server)
    _end_attempt(attempt, result.refusal)
    return result


def _admit(client: Client, recorded: RecordedWrite) -> PasswordAttempt | None:
    """Raise GatewayError if a write must not be sent now to the client's server.

    Returns the counted attempt for a write that tries an account's password, to be ended by `_end_attempt`.
    """
    record = recorded.record
    if not record.may_be_written():
        raise NotSentInTime
    try:
        with errors.translate_ldap_errors():
            named = record.target_id or record.target_dn or ""
            require_replicated(client, server_of(record.evidence), named, record.id)
            if recorded.is_password_known or not password_attempts.tries_password(recorded.write):
                return None
            return password_attempts.begin(client, record.target_id, credential_id=record.credential_id)
    except (DatabaseError, InterfaceError):
        connection.close_if_unusable_or_obsolete()
        raise NotSentInTime from None


def _end_attempt(attempt: PasswordAttempt | None, refusal: GatewayError | None) -> None:
    """Record how a password attempt ended; with an unknown outcome, or without the database, it stays counted."""
    if attempt is None or isinstance(refusal, errors.OutcomeUnknown):
        return
    try:
        if refusal is None:
            password_attempts.succeed(attempt)
        elif isinstance(refusal, errors.CurrentPasswordWrong):
            password_attempts.fail(attempt)
        else:
            password_attempts.take_back(attempt)
    except (DatabaseError, InterfaceError):
        connection.close_if_unusable_or_obsolete()


def _await_late_result(client: Client, here: Client, recorded: RecordedWrite, unknown: errors.OutcomeUnknown) -> Result:
    """The result of a write that was not answered in time, or whose connection was lost."""
    late, write = unknown.__cause__, recorded.write
    if isinstance(late, StillUnderWay):
        late_writes.follow(here, [(recorded.record, write)], late.answers)
        # To move or remove a whole subtree may take a domain controller a minute.
        if isinstance(write, Rename) or (isinstance(write, Delete) and write.tree):
            answer = late_writes.wait(recorded.record.id, settings.CONFIGURATION.Directory.SubtreeSeconds)
            if answer is not None:
                result = _result_of_answer(recorded.record, *answer)
                if not isinstance(result.refusal, errors.OutcomeUnknown):
                    return result
    return await_results(client, [recorded])[0]


def _result_of_answer(record: OperationRecord, error: LdapError | None, server: str) -> Result:
    """The result that a domain controller's answer stands for."""
    if error is None:
        return Result(record=record, server=server)
    return Result(record=record, refusal=errors.from_ldap(error))


def write_many(client: Client, writes: Iterable[_RecordedWrite]) -> Iterator[tuple[_RecordedWrite, Result]]:
    """Send writes of different objects on one connection, several at a time; yield the result of each.

    A write is taken from `writes` only when it can be sent, so that the caller can prepare the next ones meanwhile.
    After the connection is lost no more are taken: those sent yield OutcomeUnknown, for `await_results`, and the rest
    yield nothing. All writes go to one domain controller, and one whose proposal was based on another one's state is
    refused. Raises GatewayError (Unavailable) before any write is taken.
    """
    if not writes:
        return
    with errors.translate_ldap_errors():
        chosen = client.choose_server()
    here = client.at(chosen)
    under_way: dict[int, tuple[_RecordedWrite, PasswordAttempt | None]] = {}
    refused: list[tuple[_RecordedWrite, Result]] = []
    is_lost = False

    def admitted_writes() -> Iterator[Add | Modify]:
        upcoming, positions = iter(writes), count()
        while not is_lost and (each := next(upcoming, None)) is not None:
            read_from = server_of(each.record.evidence)
            try:
                if read_from in client.settings.urls and read_from != chosen:
                    raise NotReplicatedYet
                admitted = each, _admit(here, each)
            except GatewayError as refusal:
                refused.append((each, Result(record=each.record, refusal=refusal, was_sent=False)))
                continue
            under_way[next(positions)] = admitted
            assert isinstance(each.write, Add | Modify)  # deletes and renames depend on the order of execution
            yield each.write

    late: list[tuple[OperationRecord, Write]] = []
    late_answers: LateAnswers | None = None
    try:
        with errors.translate_ldap_errors():
            for position, error, server in here.write_many(admitted_writes()):
                each, attempt = under_way.pop(position)
                result = _result_of_answer(each.record, error, server)
                is_lost = is_lost or isinstance(result.refusal, errors.OutcomeUnknown)
                _end_attempt(attempt, result.refusal)
                if isinstance(error, StillUnderWay):
                    late_answers = error.answers
                    late.append((each.record, each.write))
                yield each, result
    finally:
        if late_answers is not None:
            late_writes.follow(here, late, late_answers)
    yield from refused


def await_results(client: Client, lost: Sequence[RecordedWrite]) -> list[Result]:
    """The results, after some seconds, of writes whose answers were lost together; some may be OutcomeUnknown."""
    applied = await_recorded_outcomes(client, [each.record for each in lost])
    results = []
    for each, is_applied in zip(lost, applied, strict=True):
        refusal: GatewayError | None = None
        # While its answer may still come, a write that the directory does not show may still be applied.
        if is_applied is None or (not is_applied and late_writes.is_awaited(each.record.id)):
            refusal = errors.OutcomeUnknown(recordId=str(each.record.id))
        elif not is_applied:
            refusal = errors.Unavailable()
        results.append(Result(record=each.record, refusal=refusal))
    return results


def results_not_sent(writes: Iterable[RecordedWrite], refusal: GatewayError) -> list[Result]:
    """The results of writes that were abandoned before they were sent."""
    return [Result(record=each.record, refusal=refusal, was_sent=False) for each in writes]


def close(results: Iterable[Result], *, beside: Callable[[], None] | None = None) -> None:
    """Put results into the log, in one commit. Never raises: what the database cannot take now is retried later.

    `beside` runs in the same transaction; it is lost if the database is unavailable.
    """
    completions = []
    for each in results:
        code = None if each.refusal is None else each.refusal.code
        done = completion_of(each.record, code, was_sent=each.was_sent, server=each.server)
        completions.append(replace(done, target=each.created))
    log.complete_many(completions, beside=beside)


def completion_of(
    record: OperationRecord, code: str | None, *, was_sent: bool = True, server: str | None = None
) -> log.Completion:
    """The completion of a record by the code of its refusal, None for an applied write; see `Result`."""
    outcome = Outcome.SUCCEEDED if code is None else Outcome.FAILED
    if was_sent and code == errors.OutcomeUnknown.code:
        outcome = Outcome.UNKNOWN
    return log.Completion(record_id=record.id, outcome=outcome, code=code, server=server)


@dataclass(slots=True)
class _Late:
    """A write without an answer yet. The answer goes to a waiting caller, or else into the log."""

    record: OperationRecord
    is_guarded: bool
    has_waiter: bool = False
    answer: tuple[LdapError | None, str] | None = None
    answered: threading.Event = field(default_factory=threading.Event)


class LateWrites:
    """The writes of this process that were not answered in time. Their records stay open.

    A thread waits on the connection that carried them. It keeps extending the records' time in the log
    (`audit.log.keep_open`), so that no host's settler mistakes a write that the directory does not show yet for one
    that was not applied. When the process ends, or the connection is lost, the settler finds the outcome.
    """

    MAX_CONNECTIONS: Final = 64
    """The most connections to wait on at a time; a further one is given up."""
    GIVE_UP_AFTER: Final = 3600.0
    """Seconds after which a connection that still owes an answer is given up."""
    KEEP_OPEN_INTERVAL: Final = 10.0
    """Seconds between two calls of `keep_open`: a third of the settler's lease."""

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Start empty, also in a forked child: the parent's threads wait for the parent's writes."""
        self._lock = threading.Lock()
        self._awaited: dict[UUID, _Late] = {}
        self._threads = 0

    def follow(self, client: Client, writes: Sequence[tuple[OperationRecord, Write]], answers: LateAnswers) -> None:
        """Wait for the answers of writes that went over one connection, in their order."""
        late = [_Late(record, write.guarded) for record, write in writes]
        with self._lock:
            is_full = self._threads >= self.MAX_CONNECTIONS
            if not is_full:
                self._threads += 1
                self._awaited |= {each.record.id: each for each in late}
        if is_full:
            _logger.warning("too many writes are late: their connection is given up", writes=len(late))
            answers.give_up()
            return
        _logger.info("writes are not answered yet", writes=len(late), server=answers.server)
        threading.Thread(target=self._run, args=(client, late, answers), name="late-writes", daemon=True).start()

    def is_awaited(self, record_id: UUID) -> bool:
        """Whether this process still waits for the answer to a record's write."""
        with self._lock:
            return record_id in self._awaited

    def wait(self, record_id: UUID, seconds: float) -> tuple[LdapError | None, str] | None:
        """The answer and the server that gave it, for a caller that closes the record; None if it comes too late."""
        with self._lock:
            late = self._awaited.get(record_id)
            if late is None:
                return None
            late.has_waiter = True
        late.answered.wait(seconds)
        # Both sides decide under the lock who closes the record: an answer at the last moment is still the waiter's.
        with self._lock:
            late.has_waiter = False
            return late.answer

    def _run(self, client: Client, late: Sequence[_Late], answers: LateAnswers) -> None:
        deadline = monotonic() + self.GIVE_UP_AFTER
        try:
            for position, each in enumerate(late):
                error = self._await(late[position:], answers, deadline)
                self._end(client, each, error, answers.server)
        finally:
            with self._lock:
                self._threads -= 1
                for each in late:
                    self._awaited.pop(each.record.id, None)
            connection.close()

    def _await(self, left: Sequence[_Late], answers: LateAnswers, deadline: float) -> LdapError | None:
        """The answer to the first of the remaining writes."""
        while True:
            try:
                return answers.next(self.KEEP_OPEN_INTERVAL, guarded=left[0].is_guarded)
            except StillUnderWay as unanswered:
                if monotonic() >= deadline or not self._keep_open(left):
                    answers.give_up()
                    return unanswered

    def _keep_open(self, left: Sequence[_Late]) -> bool:
        """Keep settlers away from the open records for a while; return whether any is still open."""
        try:
            return log.keep_open([each.record.id for each in left]) > 0
        except (DatabaseError, InterfaceError) as error:
            _logger.warning("the log does not hear that a write is awaited", error=str(error))
            return True
        finally:
            connection.close()  # needed too seldom to be kept open

    def _end(self, client: Client, each: _Late, error: LdapError | None, server: str) -> None:
        with self._lock:
            self._awaited.pop(each.record.id, None)
            each.answer = error, server
            each.answered.set()
            if each.has_waiter:  # that caller closes the record
                return
        _close_late(client, each.record, error, server)


def _close_late(client: Client, record: OperationRecord, error: LdapError | None, server: str) -> None:
    """Put the answer to a write that no caller waits for any more into the log."""
    result = _result_of_answer(record, error, server)
    if result.is_applied and record.target_id is None and (guid := find_created(client, record.evidence or {})):
        created = log.TargetRef(guid, record.target_kind or "", record.target_dn or "")
        result = replace(result, created=created)
    close([result])


late_writes: Final = LateWrites()
