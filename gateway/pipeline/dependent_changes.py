"""Changes of other objects that belong to a change and follow it, such as the memberships of a restored account.

Each is one write with a record of its own. All are recorded before anything is written, so that a crash leaves none
untold; they are made when the first write is done, and one that fails takes nothing back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from audit import log
from audit.models import OperationRecord, Outcome
from directory import errors
from directory.ldap import Client, LdapError, Modify, Unavailable, by_identity
from directory.lookup.access import client_of
from directory.shapes.proposal import FollowUp
from gateway.core.call import Call
from gateway.pipeline.recording import intent_of

SECONDS_UNTIL_WRITE = 60.0
"""The first write, and finding out about a lost answer, come before."""


def record(call: Call, follow_ups: Sequence[FollowUp], *, approved_by: str | None) -> list[OperationRecord]:
    """The intents, in order. The record of an approved change is the first write's; these are without its id."""
    if not follow_ups:
        return []
    client = client_of(call)
    intents = [intent_of(each.operation, each, client=client, approved_by=approved_by) for each in follow_ups]
    return log.record_intents(replace(call, change_request_id=None), intents, seconds_until_write=SECONDS_UNTIL_WRITE)


def carry_out(client: Client, follow_ups: Sequence[FollowUp], records: Sequence[OperationRecord]) -> bool:
    """Write them all and record what came of each; whether all were made.

    Never raises for the directory: the change itself is done.
    """
    if not follow_ups:
        return True
    outcomes = list(_written(client, follow_ups, records))
    log.complete_many(outcomes)
    return all(each.outcome == Outcome.SUCCEEDED for each in outcomes)


def given_up(records: Sequence[OperationRecord], code: str) -> Iterator[log.Completion]:
    """How they end when the write they were to follow did not happen."""
    return (log.Completion(record_id=record.id, outcome="failed", code=code) for record in records)


def _written(
    client: Client, follow_ups: Sequence[FollowUp], records: Sequence[OperationRecord]
) -> Iterator[log.Completion]:
    if not all(record.may_be_written() for record in records):
        yield from given_up(records, errors.Unavailable.code)
        return
    open_records = list(records)
    try:
        for each in client.write_many([_by_identity(client, follow_up) for follow_up in follow_ups]):
            yield _completion(open_records.pop(0), each.error, each.server)
    except Unavailable:  # before anything was sent
        yield from given_up(open_records, errors.Unavailable.code)


def _by_identity(client: Client, follow_up: FollowUp) -> Modify:
    write = by_identity(follow_up.write, client.schema, follow_up.identities)
    assert isinstance(write, Modify)
    return write


def _completion(record: OperationRecord, error: LdapError | None, server: str) -> log.Completion:
    if error is None:
        return log.Completion(record_id=record.id, outcome="succeeded", server=server)
    refusal = errors.from_ldap(error)
    outcome = "unknown" if isinstance(refusal, errors.OutcomeUnknown) else "failed"
    return log.Completion(record_id=record.id, outcome=outcome, code=refusal.code)
