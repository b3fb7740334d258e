"""Batches: many changes of one operation in one request, each of them a change of its own (docs/api.md#batches).

Every item takes the way of every call (`gateway.pipeline`). Only independent changes are batched differently:
prepared from one look at the directory, recorded in one commit, written on one connection, and the next ones made
ready while the domain controller is at work. All others are done one after another.
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
from core.call import Call
from core.deadlines import OutOfTime
from core.errors import GatewayError
from core.operation import Operation
from directory import errors
from directory.lookup.access import client_of
from directory.lookup.prefetch import Prefetch, Prefetches, is_self_contained
from directory.lookup.replication import NotReplicatedYet
from directory.outcomes import writer
from directory.outcomes.writer import RecordedWrite, Result
from directory.shapes.proposal import Proposal
from gateway.pipeline.batch_shapes import ItemInputs
from gateway.pipeline.charges import charge
from gateway.pipeline.execute import capture_error, execute, explained
from gateway.pipeline.inputs import Answer, Change
from gateway.pipeline.prepare import prepare, prepare_again
from gateway.pipeline.recording import target_named

logger = structlog.get_logger(__name__)

CHUNK = 50
"""Changes prepared and recorded at once: few enough to be written in a moment, many enough to hide what that costs."""

SECONDS_UNTIL_WRITE = 15.0
"""How long after its intent the last write of a chunk may be sent, by a domain controller that is slow."""


@dataclass(slots=True)
class Item:
    """One item and what came of it: an answer, an error, None if it was skipped."""

    index: int
    inputs: ItemInputs
    result: Answer | Exception | None = None

    @property
    def id(self) -> UUID | None:
        """The object that it names, if it names one."""
        return self.inputs.id


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready(RecordedWrite):
    """A change of an item that may be written: its intent is in the log."""

    item: Item
    change: Change


def _is_self_contained(proposal: Proposal) -> bool:
    """Whether a change is one write, before and after which changes of other objects may be judged and written."""
    return is_self_contained(proposal.write) and proposal.secret is None and not proposal.dependent_changes


def execute_batch(
    operation: Operation,
    call: Call,
    documents: Sequence[Any],
    *,
    on_error: Literal["continue", "stop"],
    first: int = 0,
) -> list[Item]:
    """Carry out the items in their order; each with what came of it. Raises RateLimited when they are too many.

    `first` is the place of the first one, where these are a part of a greater whole.
    """
    charge(call, documents, items=len(documents))
    items = [Item(index, ItemInputs(document)) for index, document in enumerate(documents, first)]
    _Batch(operation, call, items, stop=on_error == "stop").run()
    return items


class _Batch:
    """The items of one batch on their way: first waiting, then ready, then under way."""

    def __init__(self, operation: Operation, call: Call, items: Sequence[Item], *, stop: bool) -> None:
        self._operation = operation
        self._call = call
        self._stop = stop
        # Only modifies go together; and before the first failure nothing of what comes after it may have been sent.
        self._together = operation.method == "PATCH" and not stop
        self._size = CHUNK if self._together else 1
        self._waiting = deque(items)
        self._ready: deque[_Ready] = deque()
        self._under_way: set[UUID | None] = set()
        self._lost: list[_Ready] = []
        self._overtaken: list[_Ready] = []
        self._alone: tuple[Item, Change] | None = None
        self._results: list[Result] = []
        self._prefetches = Prefetches()

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
                self._finish(item, partial(execute, change))

    def _make_ready(self) -> None:
        """Take the next items up: those that need no write get their results, the others become ready.

        It ends early with a change that has to be done alone, and before an object that is still being changed.
        """
        upcoming = list(islice(self._waiting, self._size))
        under_way = {*self._under_way, *(entry.item.id for entry in self._overtaken)}
        ready: list[tuple[Item, Change]] = []
        with self._prefetches.of([item.id for item in upcoming if item.id is not None]) as prefetch:
            for item in upcoming:
                if item.id in under_way or self._alone is not None or not self._waiting:
                    break
                self._waiting.popleft()
                change = self._prepare(item, prefetch if len(upcoming) > 1 else None)
                if change is None:
                    continue
                if self._together and _is_self_contained(change.proposal):
                    ready.append((item, change))
                    under_way.add(item.id)
                else:
                    self._alone = item, change
        # After a change that is done alone, what was read before it is of no use.
        self._size = 1 if self._alone is not None else min(CHUNK, self._size * 4)
        self._record(ready)

    def _prepare(self, item: Item, prefetch: Prefetch | None) -> Change | None:
        """The change of an item that is to be written; None when the item has its result."""
        call = replace(self._call, batch_index=item.index, prefetch=prefetch)
        change = self._finish(item, partial(prepare, self._operation, call, item.inputs))
        if isinstance(item.result, errors.Unavailable | OutOfTime) and not isinstance(item.result, NotReplicatedYet):
            self._give_up(item.result)
        return change

    def _finish(self, item: Item, step: Callable[[], Answer | Change]) -> Change | None:
        """Take the step that gives an item its result, or else the change that is still to be written."""
        done = capture_error(step)
        if isinstance(done, Change):
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

    def _record(self, ready: Sequence[tuple[Item, Change]]) -> None:
        """Record the intents of changes in one commit. No record, no change."""
        intents = [change.intent for _, change in ready]
        try:
            records = log.record_intents(self._call, intents, seconds_until_write=SECONDS_UNTIL_WRITE)
        except log.NotRecorded as error:
            for item, _ in ready:
                self._fail(item, error)
            return
        self._ready.extend(
            _Ready(record=record, write=change.write, item=item, change=change)
            for (item, change), record in zip(ready, records, strict=True)
        )

    def _write_together(self) -> None:
        try:
            for entry, result in writer.write_many(client_of(self._call), self._upcoming()):
                self._under_way.remove(entry.item.id)
                self._note(entry, result)
        except GatewayError as error:  # there is no connection: nothing was sent
            self._give_up(error)
        self._find_out_lost()
        self._close_records()
        for entry in self._overtaken:
            change = self._finish(entry.item, partial(prepare_again, entry.change))
            if change is not None:
                self._finish(entry.item, partial(execute, change))
        self._overtaken.clear()

    def _upcoming(self) -> Iterator[_Ready]:
        """The writes that are ready. When they are used up the next ones are made ready, with these under way."""
        while True:
            if not self._ready and self._alone is None:
                self._make_ready()
            if not self._ready:
                return
            entry = self._ready.popleft()
            self._under_way.add(entry.item.id)
            yield entry

    def _note(self, entry: _Ready, result: Result) -> None:
        refusal = result.refusal
        if refusal is None:
            self._succeed(entry, result)
        elif isinstance(refusal, errors.OutcomeUnknown):
            self._lost.append(entry)
        elif isinstance(refusal, errors.VersionMismatch):
            self._results.append(result)
            self._overtaken.append(entry)
        else:
            self._refuse(entry, explained(entry.change, refusal))
        if len(self._results) >= CHUNK:
            self._close_records()

    def _succeed(self, entry: _Ready, result: Result) -> None:
        entry.item.result = Answer(self._operation.status)
        self._results.append(result)

    def _refuse(self, entry: _Ready, refusal: GatewayError) -> None:
        self._results.append(Result(record=entry.record, refusal=refusal))
        self._fail(entry.item, refusal)

    def _find_out_lost(self) -> None:
        """Whether the writes that were under way on a lost connection were applied."""
        if not self._lost:
            return
        results = writer.await_results(client_of(self._call), self._lost)
        for entry, result in zip(self._lost, results, strict=True):
            if result.refusal is None:
                self._succeed(entry, result)
            else:
                self._refuse(entry, result.refusal)
        self._lost.clear()

    def _close_records(self) -> None:
        if self._results:
            writer.close(self._results)
            self._results.clear()

    def _give_up(self, reason: GatewayError) -> None:
        """Try no more: the directory or the log is away, or the request's time is over."""
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
                target=target_named(self._operation, item.inputs.arguments.get("id")),
                batch_index=item.index,
            )
            for item in untried
        ]
        try:
            log.record_refusals(self._call, intents, code=reason.code)
        except log.NotRecorded:
            logger.warning("refusals not recorded", operation=self._operation.name, items=len(intents))
