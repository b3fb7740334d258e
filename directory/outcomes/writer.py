"""The one writer: every write of the directory goes from its intent to its outcome here.

The intent is in the operations log before anything is sent (a `RecordedWrite` holds the record). The write is sent
once, alone (`write`) or with others on one connection (`write_many`), and never when it was held up for so long that
a settler may have closed its record. A lost answer is no failure: whether the write was applied is found out by
reading the directory. One that is late is waited for, with its record open (`late_writes`). `close` puts the outcomes
into the log. A process that is killed between any two of these steps leaves open records, which the log's settler
closes in the same way.

What the intents are, and what an outcome means for those who wait, is the callers' business: a single change, a batch,
a run, the dependent changes of another one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, TypeVar

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
from directory.outcomes.evidence import find_created
from directory.outcomes.late_writes import LateWrites
from directory.outcomes.replication import require_replicated
from directory.policies import password_attempts


class NotSentInTime(ServiceUnavailable):
    """So much time has passed since the intent that a settler may have closed its record: the write was not sent."""

    def __init__(self) -> None:
        super().__init__(message("The change was held up for too long and was not sent."))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWrite:
    """A write whose intent is in the log.

    `is_password_known`: the present password in it is the one that the client itself signs in with, so it is no guess.
    """

    record: OperationRecord
    write: Write
    is_password_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a recorded write.

    `refusal` is None when it was applied; OutcomeUnknown when nobody knows (so far); anything else means that it was
    not. One that was not sent was not applied either, whatever the reason for that. `server` is the domain controller
    that applied it, None when that was found out afterwards; `created` is an object that did not exist before.
    """

    record: OperationRecord
    refusal: GatewayError | None = None
    was_sent: bool = True
    server: str | None = None
    created: log.TargetRef | None = None

    @property
    def code(self) -> str | None:
        """The code of the refusal."""
        return None if self.refusal is None else self.refusal.code

    @property
    def is_applied(self) -> bool:
        return self.refusal is None


_RecordedWrite = TypeVar("_RecordedWrite", bound=RecordedWrite)


def write(client: Client, recorded: RecordedWrite) -> Result:
    """Send one write, to the domain controller by whose state it was judged.

    For the truth about a lost answer it waits some seconds; it never raises for the directory.
    """
    here = client.at(server_of(recorded.record.evidence))
    try:
        attempt = _admit(here, recorded)
    except GatewayError as refusal:
        return Result(record=recorded.record, refusal=refusal, was_sent=False)
    try:
        with errors.translated():
            server = here.write(recorded.write)
    except errors.OutcomeUnknown as unknown:
        result = _result_of_late(client, here, recorded, unknown)
        if result.refusal is not None:  # it may have been looked at: the attempt stays counted
            return result
    except GatewayError as refusal:
        result = Result(record=recorded.record, refusal=refusal)
    else:
        result = Result(record=recorded.record, server=server)
    _end_attempt(attempt, result.refusal)
    return result


def _admit(client: Client, recorded: RecordedWrite) -> PasswordAttempt | None:
    """Raise GatewayError if a write must not be sent at this moment, at the one server of the client.

    One that tries an account's password is counted, until it is known how that ended.
    """
    record = recorded.record
    if not record.may_be_written():
        raise NotSentInTime
    try:
        with errors.translated():
            named = record.target_id or record.target_dn or ""
            require_replicated(client, server_of(record.evidence), named, record.id)
            if recorded.is_password_known or not password_attempts.tries_password(recorded.write):
                return None
            return password_attempts.begin(client, record.target_id, credential_id=record.credential_id)
    except (DatabaseError, InterfaceError):
        connection.close_if_unusable_or_obsolete()
        raise NotSentInTime from None


def _end_attempt(attempt: PasswordAttempt | None, refusal: GatewayError | None) -> None:
    """Note how it ended; where that is not known, or cannot be noted, it stays counted."""
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


def _result_of_late(client: Client, here: Client, recorded: RecordedWrite, unknown: errors.OutcomeUnknown) -> Result:
    """What came of a write that was not answered in time, or whose connection was lost."""
    late = unknown.__cause__
    if isinstance(late, StillUnderWay):
        late_writes.follow(here, [(recorded.record, recorded.write)], late.answers)
        if (result := _await_long_write(recorded)) is not None:
            return result
    return await_results(client, [recorded])[0]


def _await_long_write(recorded: RecordedWrite) -> Result | None:
    """What came of a write that moves or removes a whole subtree, which may take a domain controller a minute."""
    is_of_subtree = isinstance(recorded.write, Rename) or (isinstance(recorded.write, Delete) and recorded.write.tree)
    if not is_of_subtree:
        return None
    answered = late_writes.wait(recorded.record.id, settings.CONFIGURATION.Directory.SubtreeSeconds)
    if answered is None:
        return None
    error, server = answered
    refusal = None if error is None else errors.from_ldap(error)
    if isinstance(refusal, errors.OutcomeUnknown):
        return None
    return Result(record=recorded.record, refusal=refusal, server=None if refusal else server)


def _close_late(client: Client, record: OperationRecord, error: LdapError | None, server: str) -> None:
    """Put the answer to a write into the log for which nobody waits any more."""
    refusal = None if error is None else errors.from_ldap(error)
    created = None
    if refusal is None and record.target_id is None and (guid := find_created(client, record.evidence or {})):
        created = log.TargetRef(guid, record.target_kind or "", record.target_dn or "")
    close([Result(record=record, refusal=refusal, server=None if refusal else server, created=created)])


late_writes: Final = LateWrites(_close_late)
"""Those that this process waits for."""


def write_many(client: Client, writes: Iterable[_RecordedWrite]) -> Iterator[tuple[_RecordedWrite, Result]]:
    """Send writes of different objects on one connection, several on their way at a time; what came of each.

    A write is taken from `writes` only when it can be sent, so that the next ones may be made ready meanwhile. None is
    taken any more when the connection was lost: those on their way come with OutcomeUnknown, for `await_results`, and
    those not taken do not come at all. All go to one domain controller: what was judged by another one's state is
    refused. Raises GatewayError (Unavailable) before any is taken.
    """
    if not writes:
        return
    with errors.translated():
        chosen = client.choose_server()
    here = client.at(chosen)
    under_way: dict[int, tuple[_RecordedWrite, PasswordAttempt | None]] = {}
    refused: list[tuple[_RecordedWrite, Result]] = []
    is_lost = False

    def in_time() -> Iterator[Add | Modify]:
        upcoming, positions = iter(writes), count()
        while not is_lost and (each := next(upcoming, None)) is not None:
            judged_at = server_of(each.record.evidence)
            try:
                if judged_at in client.settings.urls and judged_at != chosen:
                    raise NotReplicatedYet
                admitted = each, _admit(here, each)
            except GatewayError as refusal:
                refused.append((each, Result(record=each.record, refusal=refusal, was_sent=False)))
                continue
            under_way[next(positions)] = admitted
            assert isinstance(each.write, Add | Modify)  # of others the order in which they are done matters
            yield each.write

    late: list[tuple[OperationRecord, Write]] = []
    owed: LateAnswers | None = None
    try:
        with errors.translated():
            for position, error, server in here.write_many(in_time()):
                each, attempt = under_way.pop(position)
                refusal = None if error is None else errors.from_ldap(error)
                is_lost = is_lost or isinstance(refusal, errors.OutcomeUnknown)
                _end_attempt(attempt, refusal)
                if isinstance(error, StillUnderWay):
                    owed = error.answers
                    late.append((each.record, each.write))
                yield each, Result(record=each.record, refusal=refusal, server=None if refusal else server)
    finally:
        if owed is not None:
            late_writes.follow(here, late, owed)
    yield from refused


def await_results(client: Client, lost: Sequence[RecordedWrite]) -> list[Result]:
    """What came of writes whose answers were lost together, after some seconds: unknown is what cannot be found out."""
    applied = await_recorded_outcomes(client, [each.record for each in lost])
    results = []
    for each, is_applied in zip(lost, applied, strict=True):
        refusal: GatewayError | None = None
        # As long as its answer may come, a write that the directory does not show may still be made.
        if is_applied is None or (not is_applied and late_writes.is_awaited(each.record.id)):
            refusal = errors.OutcomeUnknown(recordId=str(each.record.id))
        elif not is_applied:
            refusal = errors.Unavailable()
        results.append(Result(record=each.record, refusal=refusal))
    return results


def not_sent(writes: Iterable[RecordedWrite], refusal: GatewayError) -> list[Result]:
    """The results of writes that were given up before they were sent, and why."""
    return [Result(record=each.record, refusal=refusal, was_sent=False) for each in writes]


def close(results: Iterable[Result], *, beside: Callable[[], None] | None = None) -> None:
    """Put results into the log, in one commit. Never raises: what the database cannot take now is kept for later.

    What is done `beside` is committed with them, or not at all where the database is away.
    """
    completions = (
        completion(each.record, each.code, was_sent=each.was_sent, server=each.server, created=each.created)
        for each in results
    )
    log.complete_many(completions, beside=beside)


def completion(
    record: OperationRecord,
    code: str | None,
    *,
    was_sent: bool = True,
    server: str | None = None,
    created: log.TargetRef | None = None,
) -> log.Completion:
    """How a record is closed by the code of its refusal, None for a write that was applied; see `Result`."""
    outcome = Outcome.SUCCEEDED if code is None else Outcome.FAILED
    if was_sent and code == errors.OutcomeUnknown.code:
        outcome = Outcome.UNKNOWN
    return log.Completion(record_id=record.id, outcome=outcome, code=code, server=server, target=created)
