"""What enters and leaves the pipeline: the input of a call, its admission, a change ready to be written, an answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from active_directory import Delete, Write, name_by_guid
from approvals.supervision import Assessment
from audit import log
from core.call import Call
from core.errors import Forbidden, NotFound
from core.operation import Effect, Operation, Risk
from core.shapes import Flag, NoQuery, Query, load_body, load_query, parse_guid
from directory.lookup.access import client_of
from directory.shapes.proposal import Proposal
from gateway.pipeline.fields import take_fields
from gateway.pipeline.recording import intent_of
from keys.authentication import read_reason_parameter
from keys.sign_in.assurance import DECIDE, require_assurance


class ChangeQuery(Query):
    """The parameters that every change of the directory takes."""

    dry_run: Flag = False
    reason: str | None = None

    @classmethod
    def take_from(cls, query: dict[str, str], call: Call) -> Call:
        """Take these parameters out of a query; return the call with them. Raises InvalidRequest."""
        taken = load_query(cls, {name: query.pop(name) for name in ("dryRun", "reason") if name in query})
        reason = call.reason if taken.reason is None else read_reason_parameter(taken.reason, header=call.reason)
        return replace(call, dry_run=taken.dry_run, reason=reason)


REPLICATION = "Gateway-Replication"
"""The header of an answer that may lack changes made at another domain controller (`gateway.pipeline.perform`)."""


class Answer(NamedTuple):
    """What a surface renders. `body` is None for an empty answer."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = MappingProxyType({})
    fields: frozenset[str] | None = None
    """The members that the caller wants of the object or the objects in the body; None for all."""

    @property
    def may_be_behind(self) -> bool:
        """Whether it may lack changes made at another domain controller."""
        return REPLICATION in self.headers


class ValidatedInput(NamedTuple):
    """The validated input: `kwargs` for the operation's function; the rest is kept for applying an approved change.

    `fields` are the members that a read shall answer; None for all.
    """

    kwargs: dict[str, Any]
    arguments: dict[str, str]
    query: dict[str, str]
    document: Any
    fields: frozenset[str] | None = None


def require_admitted(operation: Operation, call: Call) -> None:
    """Raise Forbidden if the caller lacks the permission, or the error of the directory connection if one is needed."""
    if not operation.may_be_called_with(call.permissions):
        raise Forbidden(operation.permission)
    if operation.needs_directory and call.directory is None:
        raise call.directory_refusal or Forbidden
    if operation.effect is not Effect.READ and DECIDE in operation.permission:
        require_assurance(call)


class InputSource(Protocol):
    """The input of a call as received. `arguments` are the path parameters known so far."""

    @property
    def arguments(self) -> Mapping[str, str]: ...

    def validate(self, operation: Operation, call: Call) -> tuple[ValidatedInput, Call]:
        """Return the input in the operation's shapes, and the call with what the input adds; raises GatewayError."""


class Inputs(NamedTuple):
    """The raw input of a single call. `document` reads and parses the body, only after the permission is checked.

    So is `find_id` called only then: it finds the object that the caller has named otherwise than by its id.
    """

    arguments: Mapping[str, str]
    query: Callable[[], Mapping[str, str]]
    document: Callable[[], Any]
    find_id: Callable[[], UUID] | None = None

    def validate(self, operation: Operation, call: Call) -> tuple[ValidatedInput, Call]:
        kwargs: dict[str, Any] = {}
        arguments = dict(self.arguments)
        if self.find_id is not None:
            arguments["id"] = str(self.find_id())
        for name, text in arguments.items():
            is_text = operation.function.__annotations__.get(name) is str
            value = text if is_text else parse_guid(text)
            if value is None:
                raise NotFound
            kwargs[_snake_case(name)] = value
        document = self.document() if operation.body is not None else None
        query = dict(self.query())
        if operation.effect is Effect.CHANGE and operation.needs_directory:
            call = ChangeQuery.take_from(query, call)
        fields = take_fields(operation, query)
        parameters = load_query(operation.query or NoQuery, query)
        if operation.query is not None:
            kwargs["query"] = parameters
        if operation.body is not None:
            kwargs["body"] = load_body(operation.body, {} if document is None else document)
        accepted = ValidatedInput(kwargs=kwargs, arguments=arguments, query=query, document=document, fields=fields)
        return accepted, call


@lru_cache(maxsize=256)
def _snake_case(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


MAX_DIRECT_IDENTITIES = 20
"""A change that was not held names objects by objectGUID if it has at most this many references."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that has passed every check and only has to be written. Only the pipeline makes one.

    An approved change has no `assessment`: nothing holds it again.
    """

    operation: Operation
    call: Call
    accepted: ValidatedInput
    proposal: Proposal
    assessment: Assessment | None = None
    approved_by: str | None = None

    @property
    def risk(self) -> Risk:
        """The risk as it was judged; of an approved change no less than its operation's."""
        return self.operation.risk if self.assessment is None else self.assessment.risk

    @property
    def write(self) -> Write:
        """The write to send. It names objects by objectGUID, so that no concurrent rename diverts it.

        A direct change of many members uses the names that were just resolved: Samba takes a fifth longer for a
        thousand objectGUIDs than for their names.
        """
        write, identities = self.proposal.write, self.proposal.identities
        assert write is not None
        is_direct = self.call.change_request_id is None
        if is_direct and (isinstance(write, Delete) or len(identities) > MAX_DIRECT_IDENTITIES):
            return write
        return name_by_guid(write, client_of(self.call).schema, identities) if identities else write

    @property
    def intent(self) -> log.Intent:
        """What the log records before the write."""
        return intent_of(
            self.proposal.operation or self.operation.name,
            self.proposal,
            client=client_of(self.call),
            batch_index=self.call.batch_index,
            approved_by=self.approved_by,
        )
