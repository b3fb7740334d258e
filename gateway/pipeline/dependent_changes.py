"""Changes of other objects that belong to a change and follow it, such as the memberships of a restored account.

Each is one write with a record of its own. All are recorded before anything is written, so that a crash leaves none
untold; they are made when the first write is done, and one that fails undoes nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

from active_directory import Client, by_identity
from audit import log
from core.call import Call
from core.errors import GatewayError
from directory import errors
from directory.lookup.access import client_of
from directory.outcomes import writer
from directory.outcomes.writer import RecordedWrite
from directory.shapes.proposal import DependentChange
from gateway.pipeline.recording import intent_of

SECONDS_UNTIL_WRITE = 60.0
"""The first write, and finding out about a lost answer, come before."""


def record(call: Call, changes: Sequence[DependentChange], *, approved_by: str | None) -> list[RecordedWrite]:
    """Record the intents, in order. The record of an approved change is the first write's; these are without its id."""
    if not changes:
        return []
    client = client_of(call)
    intents = [intent_of(each.operation, each, client=client, approved_by=approved_by) for each in changes]
    records = log.record_intents(
        replace(call, change_request_id=None), intents, seconds_until_write=SECONDS_UNTIL_WRITE
    )
    return [
        RecordedWrite(record=record, write=by_identity(each.write, client.schema, each.identities))
        for record, each in zip(records, changes, strict=True)
    ]


def execute(client: Client, writes: Sequence[RecordedWrite]) -> bool:
    """Write them all and record what came of each; whether all were made.

    Never raises for the directory: the change itself is done. What became of lost answers is left to the settler.
    """
    waiting = {each.record.id: each for each in writes}
    results = []
    refusal: GatewayError = errors.Unavailable()
    try:
        for each, result in writer.write_many(client, writes):
            del waiting[each.record.id]
            results.append(result)
    except GatewayError as error:  # before anything was sent
        refusal = error
    results += writer.not_sent(waiting.values(), refusal)
    writer.close(results)
    return all(result.is_applied for result in results)
