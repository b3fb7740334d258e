"""From the arguments of a tool to calls of operations: which ones, with what path, query and body.

Nothing is judged here that an operation judges: what is wrong with the arguments themselves is raised when the pipeline
reads them, after the permission is known.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from core.call import Call
from core.errors import GatewayError, InvalidRequest, UnknownMember
from core.operation import Operation, find_operation
from core.shapes import parse_guid
from directory.shapes.kinds import RESOURCES, Kind
from gateway import pipeline
from gateway.surfaces.agent.tools import (
    ACCOUNTS,
    DESCRIBE,
    OWN_REQUESTS,
    PREVIEW,
    PREVIEWABLE,
    TOOLS,
    Behaviour,
    Tool,
    Way,
)
from keys.authentication import check_reason

LIMIT: Final = "50"
"""How many items an agent gets that does not say how many it wants."""
FEW: Final = "10"
"""The same of what is long: change requests with all that they would change."""
FEW_ATTRIBUTES: Final = "displayName,description,mail"
"""What is shown of each object in a list unless something else is asked for."""
EVERYTHING: Final = "*"

_ACCOUNT_KINDS: Final = {name: RESOURCES[name].kind for name in ACCOUNTS} | {"service-accounts": Kind.SERVICE_ACCOUNT}
_CLASSES: Final = {name: resource.object_class for name, resource in RESOURCES.items() if resource.object_class}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a call of a tool asks for. `way` is the one of using `tool`, which is not `preview_change` itself.

    `includes` are the operations with their queries, by name, whose answers about the object that was read are to come
    with the answer. `chosen` tells whether the caller said which attributes to show.
    """

    tool: Tool
    way: Way
    operation: Operation
    call: Call
    inputs: pipeline.Inputs
    includes: Mapping[str, tuple[Operation, dict[str, str]]]
    chosen: bool
    is_preview: bool = False

    @property
    def operations(self) -> list[Operation]:
        """All operations it needs."""
        return [self.operation, *(operation for operation, _ in self.includes.values())]


class Arguments:
    """The arguments of a tool, taken one by one; the rest are the operation's. The first bad one is remembered."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.rest = dict(given)
        self.problem: GatewayError | None = None

    def refuse(self, name: str, detail: str, error: type[GatewayError] = InvalidRequest) -> None:
        if self.problem is None:
            self.problem = bad_argument(name, detail, error)

    def take(self, name: str) -> Any:
        """An argument of whatever type; None when it is not given."""
        return self.rest.pop(name, None)

    def word(self, name: str, words: Iterable[str]) -> str:
        """One of these words; raises InvalidRequest, for without it nothing can be known of what is asked for."""
        value = self.take(name)
        if not isinstance(value, str) or value not in (words := list(words)):
            raise bad_argument(name, f"must be one of {', '.join(words)}")
        return value

    def text(self, name: str) -> str | None:
        value: str | None = self._checked(name, lambda value: isinstance(value, str) and bool(value), "must be a text")
        return value

    def flag(self, name: str) -> bool:
        return self._checked(name, lambda value: isinstance(value, bool), "must be true or false") is True

    def words(self, name: str) -> list[str]:
        """A list of texts, or one of them alone."""
        values = self._checked(
            name, lambda value: isinstance(value, str) or _is_texts(value), "must be a list of texts"
        )
        return [values] if isinstance(values, str) else values or []

    def _checked(self, name: str, is_right: Callable[[Any], bool], detail: str) -> Any:
        """An argument that is right; None when it is not given, or refused."""
        value = self.take(name)
        if value is None or is_right(value):
            return value
        self.refuse(name, detail)
        return None

    def parameter(self, name: str) -> str | None:
        """An argument as the text that a query has for it."""
        value = self.take(name)
        if isinstance(value, bool):
            return "true" if value else "false"
        if _is_texts(value):
            return ",".join(value)
        if value is None or isinstance(value, str | int):
            return None if value is None else str(value)
        self.refuse(name, "must be a text, a number, true or false, or a list of texts")
        return None


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def bad_argument(name: str, detail: str, error: type[GatewayError] = InvalidRequest) -> GatewayError:
    """The refusal of an argument by its name."""
    pointer = "#/" + name.replace("~", "~0").replace("/", "~1")
    return error.naming(detail, pointer=pointer, subject=pointer)


def plan_call(tool: Tool, given: Mapping[str, Any], call: Call) -> Plan:
    """The plan of a call of a tool; raises InvalidRequest when not even the operation can be known."""
    if tool.name != PREVIEW:
        return _plan(tool, Arguments(given), call)
    arguments = Arguments(given)
    previewed = TOOLS[arguments.word("tool", PREVIEWABLE)]
    inner = arguments.take("arguments")
    if not isinstance(inner, dict):
        raise bad_argument("arguments", "must be an object")
    for name in arguments.rest:
        raise bad_argument(name, "is not known here", UnknownMember)
    return replace(_plan(previewed, Arguments(inner), call, dry_run=True), is_preview=True)


def _plan(tool: Tool, arguments: Arguments, call: Call, *, dry_run: bool = False) -> Plan:
    kinds = _kinds_of(tool)
    kind = arguments.word("kind", kinds) if len(kinds) > 1 else kinds[0]
    deed, query = _choices.get(tool.name, _the_only_deed)(tool, kind, arguments)
    operation = find_operation(tool.serves[kind, deed])
    chosen = "attributes" in arguments.rest
    object_id = _read_id(arguments) if "{id}" in operation.path else None
    includes = _read_includes(tool, kind, arguments)
    call = _with_reason(tool, arguments, call, is_needed=tool.changes_directory and not dry_run)
    if "ifMatch" in tool.takes and (version := arguments.text("ifMatch")) is not None:
        call = replace(call, if_match=frozenset({version.strip('"')}))
    if dry_run:
        query["dryRun"] = "true"
    inputs = _inputs(tool, operation, arguments, object_id=object_id, query=query)
    return Plan(
        tool=tool,
        way=(kind, deed),
        operation=operation,
        call=call,
        inputs=inputs,
        includes=includes,
        chosen=chosen,
    )


def _inputs(
    tool: Tool, operation: Operation, arguments: Arguments, *, object_id: str | None, query: dict[str, str]
) -> pipeline.Inputs:
    """What is left of the arguments as an operation's input: its query's by their names, its body the rest."""
    if operation.query is not None:
        members = (str(field.alias) for field in operation.query.model_fields.values())
        for member in (member for member in members if member not in tool.hidden):
            value = arguments.parameter(tool.renamed.get(member, member))
            if value is not None:
                query[member] = value
    if operation.body is None:
        for name in arguments.rest:
            arguments.refuse(name, "is not known here", UnknownMember)

    def read(value: Any) -> Any:
        if arguments.problem is not None:
            raise arguments.problem
        return value

    return pipeline.Inputs(
        arguments={} if object_id is None else {"id": object_id},
        query=partial(read, query),
        document=partial(read, arguments.rest),
    )


def _read_id(arguments: Arguments) -> str | None:
    value = arguments.text("id")
    if value is not None and parse_guid(value) is not None:
        return value
    arguments.refuse("id", "must be an objectGUID, as `id` of a record" if value else "is needed")
    return None


def _read_includes(tool: Tool, kind: str, arguments: Arguments) -> dict[str, tuple[Operation, dict[str, str]]]:
    found: dict[str, tuple[Operation, dict[str, str]]] = {}
    known = [deed for of, deed in tool.serves if of == kind and deed in tool.includes]
    for name in arguments.words("include") if tool.includes else ():
        if name not in known:
            detail = f"may hold {', '.join(known)} for {kind}" if known else f"is nothing for {kind}"
            arguments.refuse("include", detail)
            continue
        operation = find_operation(tool.serves[kind, name])
        names = operation.query.model_fields if operation.query is not None else {}
        query = {"page_size": ("pageSize", LIMIT), "attributes": ("attributes", FEW_ATTRIBUTES)}
        found[name] = operation, dict(parameter for member, parameter in query.items() if member in names)
    return found


def _with_reason(tool: Tool, arguments: Arguments, call: Call, *, is_needed: bool) -> Call:
    if tool.behaviour is Behaviour.READS:
        return call
    reason = arguments.text("reason")
    if reason is None or not reason.strip():
        if is_needed:
            arguments.refuse("reason", "is needed: say why, for the person who approves the change and for the log")
        return call
    try:
        return replace(call, reason=check_reason(reason))
    except InvalidRequest as refusal:
        arguments.refuse("reason", refusal.errors[0].detail)
        return call


def _kinds_of(tool: Tool, *deeds: str) -> list[str]:
    return list(dict.fromkeys(kind for kind, deed in tool.serves if not deeds or deed in deeds))


_Choice = tuple[str, dict[str, str]]
"""What is done to a kind of objects, and what its operation is asked for besides what it is given."""


def _search(tool: Tool, kind: str, arguments: Arguments) -> _Choice:
    query = {"pageSize": LIMIT, "attributes": FEW_ATTRIBUTES}
    if "state" not in arguments.rest:
        return "search", query
    if (kind, "state") not in tool.serves:
        raise bad_argument("state", f"is for {', '.join(_kinds_of(tool, 'state'))} only")
    return "state", {**query, "kinds": _ACCOUNT_KINDS[kind]}


def _read(tool: Tool, kind: str, arguments: Arguments) -> _Choice:
    name = arguments.rest.get("id")
    if isinstance(name, str) and parse_guid(name) is None and (kind, "read-by-dn") in tool.serves:
        del arguments.rest["id"]
        return "read-by-dn", {"dn": name}
    return "read", {}


def _describe(_: Tool, kind: str, arguments: Arguments) -> _Choice:
    if arguments.rest.get("attribute") in (EVERYTHING, [EVERYTHING]):
        del arguments.rest["attribute"]
    return DESCRIBE, {"classes": _CLASSES[kind]} if kind in _CLASSES else {}


def _move_or_rename(_: Tool, _kind: str, arguments: Arguments) -> _Choice:
    if ("parent" in arguments.rest) is ("name" in arguments.rest):
        raise bad_argument("parent", "give either parent or name; to do both, call twice")
    return "move" if "parent" in arguments.rest else "rename", {}


def _change_account(tool: Tool, kind: str, arguments: Arguments) -> _Choice:
    return arguments.word("action", [deed for of, deed in tool.serves if of == kind]), {}


def _look_at_requests(_: Tool, _kind: str, arguments: Arguments) -> _Choice:
    if arguments.flag("cancel"):
        return "cancel", {}
    return ("read", {}) if "id" in arguments.rest else ("search", {"pageSize": FEW})


def _the_only_deed(tool: Tool, _kind: str, _: Arguments) -> _Choice:
    return next(deed for _, deed in tool.serves), {}


_choices: Final[Mapping[str, Callable[[Tool, str, Arguments], _Choice]]] = {
    "search_directory": _search,
    "read_object": _read,
    "describe_schema": _describe,
    "move_or_rename_object": _move_or_rename,
    "change_account": _change_account,
    OWN_REQUESTS: _look_at_requests,
}
"""How a tool that does more than one thing chooses."""
