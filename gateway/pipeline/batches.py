"""Batches: many changes of one operation in one request, each of them a change of its own (contract section 5).

Every item takes the way of every call (`gateway.pipeline`). Special is only how changes that cannot matter to one
another are carried out: judged from one look at the directory, recorded in one commit, written on one connection, and
the next ones made ready while the domain controller is at work. All others are done one after another.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Literal
from uuid import UUID

import structlog

from audit import log
from audit.models import OperationRecord, Outcome
from directory import errors
from directory.ldap import LdapError, Modify, Written
from directory.lookup.access import client_of
from directory.lookup.prefetch import ReadAhead, is_self_contained
from directory.outcomes.attribution import await_recorded_outcomes
from directory.shapes.proposal import Proposal
from gateway import pipeline
from gateway.core.call import Call
from gateway.core.errors import GatewayError, ServiceUnavailable
from gateway.core.operation import Operation
from gateway.core.shapes import parse_guid
from gateway.pipeline.batch_shapes import load_item
from gateway.pipeline.recording import record_refusal, target_named

logger = structlog.get_logger(__name__)

CHUNK = 50
"""Changes judged and recorded at once: few enough to be written in a moment, many enough to hide what that costs."""

SECONDS_UNTIL_WRITE = 15.0
"""How long after its intent the last write of a chunk may be sent, by a domain controller that is slow."""


@dataclass(slots=True)
class Item:
    """One item and what came of it: an answer, an error, None if it was skipped."""

    index: int
    document: Any
    result: pipeline.Answer | Exception | None = None

    @property
    def id(self) -> UUID | None:
        """The object that it names, if it names one."""
        named = self.document.get("id") if isinstance(self.document, dict) else None
        return parse_guid(named) if isinstance(named, str) else None

    @property
    def arguments(self) -> dict[str, str]:
        """What is known of its input before it is read."""
        return {} if self.id is None else {"id": str(self.id)}


@dataclass(frozen=True, slots=True)
class _Ready:
    """A change that may be written: its intent is in the log."""

    item: Item
    change: pipeline.Change
    record: OperationRecord


def _is_self_contained(proposal: Proposal) -> bool:
    """Whether a change is one write, before and after which changes of other objects may be judged and written."""
    return is_self_contained(proposal.write) and proposal.secret is None and not proposal.follow_ups


def carry_out_batch(
    operation: Operation, call: Call, documents: Sequence[Any], *, on_error: Literal["continue", "stop"]
) -> list[Item]:
    """Carry out the items in their order; each with what came of it."""
    items = [Item(index, document) for index, document in enumerate(documents)]
    _Batch(operation, call, items, stop=on_error == "stop").run()
    return items


class _Batch:
    """The items of one batch on their way: first waiting, then ready, then sent."""

    def __init__(self, operation: Operation, call: Call, items: Sequence[Item], *, stop: bool) -> None:
        self._operation = operation
        self._call = call
        self._stop = stop
        # Only modifies go together; and before the first failure nothing of what comes after it may have been sent.
        self._together = operation.method == "PATCH" and not stop
        self._size = CHUNK if self._together else 1
        self._waiting = deque(items)
        self._ready: deque[_Ready] = deque()
        self._sent: deque[_Ready] = deque()
        self._lost: list[_Ready] = []
        self._overtaken: list[_Ready] = []
        self._alone: tuple[Item, pipeline.Change] | None = None
        self._outcomes: list[log.Completion] = []
        self._look = ReadAhead()

    def run(self) -> None:
        """Until every item has its result, or is skipped."""
        while self._waiting or self._ready:
            if self._together and not self._call.dry_run:
                self._write_together()
            else:
                self._make_ready()
            if self._alone is not None:
                item, change = self._alone
                self._alone = None
                self._finish(item, partial(pipeline.carry_out, change))

    def _make_ready(self) -> None:
        """Take the next items up: those that need no write get their results, the others become ready.

        It ends early with a change that has to be done alone, and before an object that is still being changed.
        """
        upcoming = list(islice(self._waiting, self._size))
        under_way = {entry.item.id for entry in (*self._sent, *self._overtaken)}
        ready: list[tuple[Item, pipeline.Change]] = []
        with self._look.look([item.id for item in upcoming if item.id is not None]):
            for item in upcoming:
                if item.id in under_way or self._alone is not None or not self._waiting:
                    break
                self._waiting.popleft()
                change = self._consider(item)
                if change is None:
                    continue
                if self._together and _is_self_contained(change.proposal):
                    ready.append((item, change))
                    under_way.add(item.id)
                else:
                    self._alone = item, change
        # After a change that is done alone, what was looked at before it is of no use.
        self._size = 1 if self._alone is not None else min(CHUNK, self._size * 4)
        self._record(ready)

    def _consider(self, item: Item) -> pipeline.Change | None:
        """The change of an item that is to be written; None when the item has its result."""
        change = self._finish(item, partial(self._judge, item))
        if isinstance(item.result, errors.Unavailable):
            self._give_up(item.result)
        return change

    def _judge(self, item: Item) -> pipeline.Answer | pipeline.Change:
        call = replace(self._call, batch_index=item.index)
        try:
            inputs, versions = load_item(self._operation, item.document, dry_run=call.dry_run)
        except GatewayError as refusal:
            record_refusal(self._operation, call, item.arguments, refusal.code)
            raise
        return pipeline.consider(self._operation, replace(call, if_match=versions), inputs)

    def _finish(self, item: Item, step: Callable[[], pipeline.Answer | pipeline.Change]) -> pipeline.Change | None:
        """Take the step that gives an item its result, or else the change that is still to be written."""
        done = pipeline.attempt(step)
        if isinstance(done, pipeline.Change):
            return done
        if isinstance(done, Exception):
            self._fail(item, done)
        else:
            item.result = done
        return None

    def _fail(self, item: Item, error: Exception) -> None:
        item.result = error
        if self._stop:
            self._waiting.clear()
        elif isinstance(error, log.NotRecorded):
            self._give_up(error)

    def _record(self, ready: Sequence[tuple[Item, pipeline.Change]]) -> None:
        """Record the intents of changes in one commit. No record, no change."""
        intents = [change.intent for _, change in ready]
        try:
            records = log.record_intents(self._call, intents, seconds_until_write=SECONDS_UNTIL_WRITE)
        except log.NotRecorded as error:
            for item, _ in ready:
                self._fail(item, error)
            return
        self._ready.extend(_Ready(item, change, record) for (item, change), record in zip(ready, records, strict=True))

    def _write_together(self) -> None:
        try:
            for written in client_of(self._call).write_many(self._writes()):
                self._note(self._sent.popleft(), written)
        except LdapError as error:  # there is no connection: nothing was sent
            self._give_up(errors.from_ldap(error))
        self._find_out_lost()
        self._close_records()
        for entry in self._overtaken:
            considered = self._finish(entry.item, partial(pipeline.reconsider, entry.change))
            if considered is not None:
                self._finish(entry.item, partial(pipeline.carry_out, considered))
        self._overtaken.clear()

    def _writes(self) -> Iterator[Modify]:
        """The writes that are ready. When they are used up the next ones are made ready, with these on their way."""
        while not self._lost:
            if not self._ready and self._alone is None:
                self._make_ready()
            if not self._ready:
                return
            entry = self._ready.popleft()
            write = entry.change.write
            assert isinstance(write, Modify)
            try:
                pipeline.require_in_time(entry.record)
            except ServiceUnavailable as refusal:
                self._refuse(entry, refusal)
            else:
                self._sent.append(entry)
                yield write

    def _note(self, entry: _Ready, written: Written) -> None:
        refusal = errors.from_ldap(written.error) if written.error else None
        if refusal is None:
            self._succeed(entry, server=written.server)
        elif isinstance(refusal, errors.OutcomeUnknown):
            self._lost.append(entry)
        elif isinstance(refusal, errors.VersionMismatch):
            self._outcomes.append(pipeline.completion_of(entry.record, refusal))
            self._overtaken.append(entry)
        else:
            self._refuse(entry, pipeline.explained(entry.change, refusal))
        if len(self._outcomes) >= CHUNK:
            self._close_records()

    def _succeed(self, entry: _Ready, *, server: str | None = None) -> None:
        entry.item.result = pipeline.Answer(self._operation.status)
        done = log.Completion(record_id=entry.record.id, outcome=Outcome.SUCCEEDED, server=server)
        self._outcomes.append(done)

    def _refuse(self, entry: _Ready, refusal: GatewayError) -> None:
        self._outcomes.append(pipeline.completion_of(entry.record, refusal))
        self._fail(entry.item, refusal)

    def _find_out_lost(self) -> None:
        """Whether the writes that were on their way on a lost connection were applied."""
        if not self._lost:
            return
        outcomes = await_recorded_outcomes(client_of(self._call), [entry.record for entry in self._lost])
        for entry, applied in zip(self._lost, outcomes, strict=True):
            refusal = pipeline.refusal_of(applied)
            if refusal is None:
                self._succeed(entry)
            else:
                self._refuse(entry, refusal)
        self._lost.clear()

    def _close_records(self) -> None:
        if self._outcomes:
            log.complete_many(self._outcomes)
            self._outcomes.clear()

    def _give_up(self, reason: GatewayError) -> None:
        """Try no more: the directory or the log is away, and each further item would only wait for it in vain."""
        for entry in self._ready:
            self._refuse(entry, reason)
        self._ready.clear()
        untried = list(self._waiting)
        self._waiting.clear()
        for item in untried:
            item.result = reason
        if isinstance(reason, log.NotRecorded):
            return
        intents = [
            log.Intent(
                operation=self._operation.name,
                target=target_named(self._operation, item.arguments.get("id")),
                batch_index=item.index,
            )
            for item in untried
        ]
        try:
            log.record_refusals(self._call, intents, code=reason.code)
        except log.NotRecorded:
            logger.warning("refusals not recorded", operation=self._operation.name, items=len(intents))
