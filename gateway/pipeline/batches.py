"""Batches: many changes of one operation in one request, each of them a change of its own (docs/api.md#batches).

Every item runs through the pipeline like any call. Only independent changes are pipelined: they are prepared from one
prefetch, recorded in one commit and written on one connection, and the next ones are prepared while the domain
controller works. All others are executed one after another.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from typing import Annotated, Any, Literal
from uuid import UUID

import structlog
from pydantic import Field, WithJsonSchema, create_model
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from approvals.budgets import Budget, count_in_dry_runs
from audit import log
from core.call import Call
from core.deadlines import OutOfTime
from core.errors import GatewayError, InvalidRequest
from core.operation import Operation, operations
from core.shapes import Body, Guid, Json, load_body, load_query, parse_guid
from directory import errors
from directory.lookup.access import client_of
from directory.lookup.prefetch import Prefetch, Prefetches, is_self_contained
from directory.lookup.replication import NotReplicatedYet
from directory.outcomes import writer
from directory.outcomes.writer import RecordedWrite, Result
from directory.shapes.proposal import Proposal
from gateway.pipeline.execute import capture_error, end_headers, execute, explain_refusal, record_intents
from gateway.pipeline.inputs import Answer, Change, ValidatedInput
from gateway.pipeline.prepare import charge, hold_over_budget, prepare, prepare_again
from gateway.pipeline.recording import target_by_id
from gateway.pipeline.schedules import SCHEDULE, parse_schedule

logger = structlog.get_logger(__name__)

MAX_ITEMS = 1000

TimeText = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time as it was sent: `parse_schedule` reads it."""

OnError = Annotated[
    Literal["continue", "stop"],
    Field(description="Whether the items after one that failed are carried out, or skipped (their status is null)."),
]


class TooManyItems(GatewayError):
    status, code, title = 400, "Batch.TooMany", "Too many items in one batch"


class Batch(Body):
    """A batch as it is sent. The items are looked at when their turn comes: a malformed one fails alone."""

    items: list[Any]
    on_error: OnError = "continue"


def batch_path(operation: Operation) -> str:
    """The path of an operation's batches, below the surface's prefix."""
    return f"ad/{operation.resource}/batch/{operation.action}"


@cache
def batch_paths() -> frozenset[str]:
    """The paths of all batches."""
    return frozenset(
        f"/{surface}/{batch_path(operation)}"
        for operation in operations()
        if operation.batchable
        for surface in operation.surfaces
    )


def load_batch(document: Any) -> Batch:
    """The batch in a request's body; raises TooManyItems and what `load_body` raises."""
    batch = load_body(Batch, {} if document is None else document)
    if len(batch.items) > MAX_ITEMS:
        raise TooManyItems(f"{len(batch.items)} items are given; at most {MAX_ITEMS} may be.", maxItems=MAX_ITEMS)
    return batch


@dataclass(slots=True)
class Item:
    """An item of a batch, well-formed or not, as the input of a call; and what came of it.

    `id` is the object that it names, if any. The result is an answer, an error, or None if it was skipped.
    """

    index: int
    document: Any
    id: UUID | None = field(init=False)
    result: Answer | Exception | None = None

    def __post_init__(self) -> None:
        named = self.document.get("id") if isinstance(self.document, dict) else None
        self.id = parse_guid(named) if isinstance(named, str) else None

    @property
    def arguments(self) -> dict[str, str]:
        return {} if self.id is None else {"id": str(self.id)}

    def validate(self, operation: Operation, call: Call) -> tuple[ValidatedInput, Call]:
        """Validate as the single call would; the item's `ifMatch` becomes the call's If-Match."""
        if not isinstance(self.document, dict):
            detail = "must be a JSON object"
            raise InvalidRequest.naming(detail, pointer="#", sentence=f"An item {detail}.")
        item = load_body(item_shape(operation), self.document)
        kwargs: Json = {name: getattr(item, name) for name in _path_parameters(operation)}
        arguments = {name: str(value) for name, value in kwargs.items()}
        parameters = {
            parameter.alias or name for name, parameter in _query_parameters(operation).items()
        } & self.document.keys()
        if operation.query is not None:
            kwargs["query"] = load_query(operation.query, {name: self.document[name] for name in parameters})
        document = None
        if operation.body is not None:
            kwargs["body"] = item  # its shape is made from the body's
            outside = {*arguments, *parameters, "ifMatch", *map(to_camel, SCHEDULE)}
            document = {name: value for name, value in self.document.items() if name not in outside}
        times = {name: (to_camel(name), getattr(item, name)) for name in SCHEDULE if getattr(item, name) is not None}
        schedule = parse_schedule(times, in_body=True) if times else None
        version = item.if_match  # type: ignore[attr-defined]
        versions = None if version is None else frozenset({version.removeprefix("W/").strip('"')})
        query = {name: json.dumps(self.document[name]) for name in parameters}
        accepted = ValidatedInput(kwargs=kwargs, arguments=arguments, query=query, document=document)
        return accepted, replace(call, if_match=versions, schedule=schedule)


@cache
def item_shape(operation: Operation) -> type[Body]:
    """The shape of an item: the single call's body, path parameters, query parameters and If-Match."""
    base = operation.body or Body
    members: Json = dict.fromkeys(_path_parameters(operation), (Guid, ...))
    for name, parameter in _query_parameters(operation).items():
        members[name] = (parameter.annotation, Field(parameter.default, description=parameter.description))
    meaning = "The version the change is meant for, quoted or not; another one is 412."
    if operation.is_creation:
        meaning = "What is still to be made has no version: anything but `*` is 412."
    members["if_match"] = (str | None, Field(None, description=meaning))
    for name, meaning in SCHEDULE.items():
        kind = str if name == "revert_after" else TimeText
        members[name] = (kind | None, Field(None, description=meaning))
    named = dict.fromkeys(_path_parameters(operation), "4fae3d03-85d3-4ed8-a8aa-cb126df8b414")
    return create_model(
        (base.__name__ if operation.body else operation.action.capitalize()) + "Item",
        __base__=base,
        __doc__="One item of a batch: the body of the single call, and what that has in its path and headers.",
        __cls_kwargs__={"json_schema_extra": {"examples": [named | example for example in _examples(base)]}},
        **members,
    )


@cache
def batch_shape(operation: Operation) -> type[Body]:
    """The shape of a whole batch, for the OpenAPI document."""
    item = item_shape(operation)
    members: Json = {"items": (list[item], Field(max_length=MAX_ITEMS)), "on_error": (OnError, "continue")}  # type: ignore[valid-type]
    return create_model(
        item.__name__.removesuffix("Item") + "Batch",
        __base__=Body,
        __doc__=f"At most {MAX_ITEMS} items, which are taken in their order.",
        __cls_kwargs__={"json_schema_extra": {"examples": [{"items": _examples(item), "onError": "continue"}]}},
        **members,
    )


def _examples(shape: type[Body]) -> list[Json]:
    extra: Any = shape.model_config.get("json_schema_extra", {})
    return list(extra.get("examples", [{}]))


@cache
def _path_parameters(operation: Operation) -> list[str]:
    return re.findall(r"\{(\w+)\}", operation.path)


def _query_parameters(operation: Operation) -> dict[str, FieldInfo]:
    return operation.query.model_fields if operation.query else {}


CHUNK = 50
"""How many changes are prepared and recorded at once: few enough to be written quickly, enough to share the cost."""

SECONDS_UNTIL_WRITE = 15.0
"""How long after the intents of a chunk its last write may still be sent, if the domain controller is slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready(RecordedWrite):
    """The change of an item whose intent is recorded, so that it may be written."""

    item: Item
    change: Change


def _is_self_contained(proposal: Proposal) -> bool:
    """Whether a change is one write, independent of changes of other objects before and after it."""
    is_alone = proposal.secret is None and not proposal.dependent_changes and proposal.move_ends is None
    return is_alone and is_self_contained(proposal.write)


def execute_batch(
    operation: Operation,
    call: Call,
    documents: Sequence[Any],
    *,
    on_error: Literal["continue", "stop"],
    first: int = 0,
) -> list[Item]:
    """Execute the items in order and return them with their results; raises RateLimited if there are too many.

    `first` is the index of the first item, if these are a part of a larger batch.
    """
    charge(call, documents, items=len(documents))
    items = [Item(index, document) for index, document in enumerate(documents, first)]
    _Batch(operation, call, items, stop=on_error == "stop").run()
    if call.dry_run:
        count_in_dry_runs(item.result.body for item in items if isinstance(item.result, Answer))
    return items


class _Batch:
    """Executes the items of one batch. Each is first waiting, then ready (intent recorded), then under way (sent)."""

    def __init__(self, operation: Operation, call: Call, items: Sequence[Item], *, stop: bool) -> None:
        self._operation = operation
        self._call = call
        self._stop = stop
        # Only modifies are pipelined; and with `stop`, nothing behind the first failure may have been sent already.
        self._is_pipelined = operation.method == "PATCH" and not stop
        self._size = CHUNK if self._is_pipelined else 1
        self._waiting = deque(items)
        self._ready: deque[_Ready] = deque()
        self._under_way: set[UUID | None] = set()
        self._lost: list[_Ready] = []
        self._overtaken: list[_Ready] = []
        self._to_execute_alone: tuple[Item, Change] | None = None
        self._results: list[Result] = []
        self._prefetches = Prefetches()

    def run(self) -> None:
        """Run until every item has its result or is skipped."""
        while self._waiting or self._ready:
            if self._is_pipelined and not self._call.dry_run:
                self._write_pipelined()
            else:
                self._make_ready()
            if self._to_execute_alone is not None:
                item, change = self._to_execute_alone
                self._to_execute_alone = None
                self._take_step(item, partial(execute, change))

    def _make_ready(self) -> None:
        """Prepare the next items: those that need no write get their results, the others become ready.

        Stops at a change that has to be executed alone, and before an object with a change under way.
        """
        upcoming = list(islice(self._waiting, self._size))
        under_way = {*self._under_way, *(entry.item.id for entry in self._overtaken)}
        ready: list[tuple[Item, Change]] = []
        with self._prefetches.of([item.id for item in upcoming if item.id is not None]) as prefetch:
            for item in upcoming:
                if item.id in under_way or self._to_execute_alone is not None or not self._waiting:
                    break
                self._waiting.popleft()
                change = self._prepare(item, prefetch if len(upcoming) > 1 else None)
                if change is None:
                    continue
                if self._is_pipelined and _is_self_contained(change.proposal):
                    ready.append((item, change))
                    under_way.add(item.id)
                else:
                    self._to_execute_alone = item, change
        # A change that is executed alone may invalidate the prefetch, so start small again after it.
        self._size = 1 if self._to_execute_alone is not None else min(CHUNK, self._size * 4)
        self._record(ready)

    def _prepare(self, item: Item, prefetch: Prefetch | None) -> Change | None:
        """Return the change that an item has to write, or None if the item already has its result."""
        call = replace(self._call, batch_index=item.index, prefetch=prefetch)
        change = self._take_step(item, partial(prepare, self._operation, call, item))
        if isinstance(item.result, errors.Unavailable | OutOfTime) and not isinstance(item.result, NotReplicatedYet):
            self._give_up(item.result)
        return change

    def _take_step(self, item: Item, step: Callable[[], Answer | Change]) -> Change | None:
        """Run a step: give the item its result, or return the change that is still to be written."""
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
        """Record the intents of changes in one commit. No record, no change; beyond a budget, a change waits."""
        changes = [change for _, change in ready]
        try:
            records = record_intents(self._call, changes, seconds_until_write=SECONDS_UNTIL_WRITE)
        except log.NotRecorded as error:
            for item, _ in ready:
                self._fail(item, error)
            return
        for (item, change), record in zip(ready, records, strict=True):
            if isinstance(record, Budget):
                self._take_step(item, partial(hold_over_budget, change, record))
            else:
                self._ready.append(_Ready(record=record, write=change.write, item=item, change=change))

    def _write_pipelined(self) -> None:
        try:
            for entry, result in writer.write_many(client_of(self._call), self._upcoming()):
                self._under_way.remove(entry.item.id)
                self._take_result(entry, result)
        except GatewayError as error:  # no connection, so nothing was sent
            self._give_up(error)
        self._resolve_lost()
        self._close_records()
        for entry in self._overtaken:
            change = self._take_step(entry.item, partial(prepare_again, entry.change))
            if change is not None:
                self._take_step(entry.item, partial(execute, change))
        self._overtaken.clear()

    def _upcoming(self) -> Iterator[_Ready]:
        """Yield the writes that are ready, preparing the next ones while these are under way."""
        while True:
            if not self._ready and self._to_execute_alone is None:
                self._make_ready()
            if not self._ready:
                return
            entry = self._ready.popleft()
            self._under_way.add(entry.item.id)
            yield entry

    def _take_result(self, entry: _Ready, result: Result) -> None:
        refusal = result.refusal
        if refusal is None:
            self._succeed(entry, result)
        elif isinstance(refusal, errors.OutcomeUnknown):
            self._lost.append(entry)
        elif isinstance(refusal, errors.VersionMismatch):
            self._results.append(result)
            self._overtaken.append(entry)
        else:
            self._refuse(entry, explain_refusal(entry.change, refusal))
        if len(self._results) >= CHUNK:
            self._close_records()

    def _succeed(self, entry: _Ready, result: Result) -> None:
        entry.item.result = Answer(self._operation.status, headers=end_headers(entry.change, entry.record))
        self._results.append(result)

    def _refuse(self, entry: _Ready, refusal: GatewayError) -> None:
        self._results.append(Result(record=entry.record, refusal=refusal))
        self._fail(entry.item, refusal)

    def _resolve_lost(self) -> None:
        """Determine whether the writes whose connection was lost have been applied."""
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
        """Fail all remaining items: the directory or the log is unavailable, or the request is out of time."""
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
                target=target_by_id(self._operation, item.arguments.get("id")),
                batch_index=item.index,
            )
            for item in untried
        ]
        try:
            log.record_refusals(self._call, intents, code=reason.code)
        except log.NotRecorded:
            logger.warning("refusals not recorded", operation=self._operation.name, items=len(intents))
