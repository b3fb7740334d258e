"""What goes into the pipeline and what comes out: the raw input of a call, the change it asks for, the answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, Protocol

from active_directory import Delete, Write, by_identity
from audit import log
from core.call import Call
from core.errors import NotFound
from core.operation import Effect, Operation
from core.shapes import Flag, NoQuery, Query, load_body, load_query, parse_guid
from directory.lookup.access import client_of
from directory.shapes.proposal import Proposal
from gateway.pipeline.recording import intent_of


class ChangeQuery(Query):
    """The parameter that every change of the directory takes."""

    dry_run: Flag = False


REPLICATION: Final = "Gateway-Replication"
"""The header of a read that may lack what was changed at another domain controller (`gateway.pipeline.replication`)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a surface renders. `body` is None for an empty answer."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def may_be_behind(self) -> bool:
        """Whether it may lack what was changed at another domain controller."""
        return REPLICATION in self.headers


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedInput:
    """The validated input (`kwargs` to the operation's function), and what is kept of it for an approved change."""

    kwargs: dict[str, Any]
    arguments: dict[str, str]
    query: dict[str, str]
    document: Any


class InputSource(Protocol):
    """The input of a call as it came. `arguments` are those of the path, as far as they are known."""

    @property
    def arguments(self) -> Mapping[str, str]: ...

    def validate(self, operation: Operation, call: Call) -> tuple[ValidatedInput, Call]:
        """The input in the operation's shapes, and the call with what is said of it there; raises GatewayError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The raw input of a single call. `document` reads and parses the body: only after the permission is known."""

    arguments: Mapping[str, str]
    query: Callable[[], Mapping[str, str]]
    document: Callable[[], Any]

    def validate(self, operation: Operation, call: Call) -> tuple[ValidatedInput, Call]:
        kwargs: dict[str, Any] = {}
        for name, text in self.arguments.items():
            value = parse_guid(text)
            if value is None:
                raise NotFound
            kwargs[_snake(name)] = value
        document = self.document() if operation.body is not None else None
        query = dict(self.query())
        if operation.effect is Effect.CHANGE and operation.on_directory:
            dry_run = {name: query.pop(name) for name in ("dryRun",) if name in query}
            call = replace(call, dry_run=load_query(ChangeQuery, dry_run).dry_run)
        parameters = load_query(operation.query or NoQuery, query)
        if operation.query is not None:
            kwargs["query"] = parameters
        if operation.body is not None:
            kwargs["body"] = load_body(operation.body, {} if document is None else document)
        return ValidatedInput(kwargs=kwargs, arguments=dict(self.arguments), query=query, document=document), call


@lru_cache(maxsize=256)
def _snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


DIRECTLY_BY_IDENTITY = 20
"""So many references of a change that was not held are written by objectGUID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that has passed every check and waits for nothing but its write. Only the pipeline makes one."""

    operation: Operation
    call: Call
    accepted: ValidatedInput
    proposal: Proposal
    approved_by: str | None = None

    @property
    def write(self) -> Write:
        """The write to send. What names objects does so by objectGUID, so that no rename at this moment diverts it.

        A direct change of many members goes by the names resolved right before: Samba takes a fifth longer for a
        thousand objectGUIDs than for their names.
        """
        write, identities = self.proposal.write, self.proposal.identities
        assert write is not None
        is_direct = self.call.change_request_id is None
        if is_direct and (isinstance(write, Delete) or len(identities) > DIRECTLY_BY_IDENTITY):
            return write
        return by_identity(write, client_of(self.call).schema, identities) if identities else write

    @property
    def intent(self) -> log.Intent:
        """What the log keeps of it before it is written."""
        return intent_of(
            self.proposal.operation or self.operation.name,
            self.proposal,
            client=client_of(self.call),
            batch_index=self.call.batch_index,
            approved_by=self.approved_by,
        )
