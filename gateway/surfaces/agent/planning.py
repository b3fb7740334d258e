"""From the arguments of a tool to calls of operations: which ones, with what path, query and body.

Nothing is judged here that an operation judges: what is wrong with the arguments themselves is raised when the pipeline
reads them, after the permission is known.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

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


@dataclass(frozen=True, slots=True)
class Step:
    """One call of one operation."""

    operation: Operation
    call: Call
    inputs: pipeline.Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a call of a tool asks for. `way` is the one of using `tool`, which is not `preview_change` itself.

    `includes` are what is to come with the answer, by name; each is made for the object that was read. `chosen` tells
    whether the caller said which attributes to show.
    """

    tool: Tool
    way: Way
    step: Step
    includes: Mapping[str, Callable[[UUID], Step]]
    chosen: bool
    is_preview: bool = False

    @property
    def operations(self) -> list[Operation]:
        """All operations it needs."""
        return [self.step.operation, *(find_operation(self.tool.serves[self.way[0], name]) for name in self.includes)]


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
        value = self.take(name)
        if value is None or (isinstance(value, str) and value):
            return value
        self.refuse(name, "must be a text")
        return None

    def flag(self, name: str) -> bool:
        value = self.take(name)
        if not isinstance(value, bool | None):
            self.refuse(name, "must be true or false")
        return value is True

    def words(self, name: str) -> list[str]:
        """A list of texts, or one of them alone."""
        value = self.take(name)
        values = [value] if isinstance(value, str) else value or []
        if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
            self.refuse(name, "must be a list of texts")
            return []
        return values

    def parameter(self, name: str) -> str | None:
        """An argument as the text that a query has for it."""
        value = self.take(name)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return ",".join(value)
        if value is None or isinstance(value, str | int):
            return None if value is None else str(value)
        self.refuse(name, "must be a text, a number, true or false, or a list of texts")
        return None


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
    way, query = _ways[tool.name](tool, arguments)
    operation = find_operation(tool.serves[way])
    chosen = "attributes" in arguments.rest
    object_id = _read_id(arguments) if "{id}" in operation.path else None
    includes = _read_includes(tool, way, arguments, call)
    call = _with_reason(tool, arguments, call, is_needed=tool.changes_directory and not dry_run)
    if "ifMatch" in tool.takes and (version := arguments.text("ifMatch")) is not None:
        call = replace(call, if_match=frozenset({version.strip('"')}))
    if dry_run:
        query["dryRun"] = "true"
    return Plan(
        tool=tool,
        way=way,
        step=_make_step(tool, operation, call, arguments, object_id=object_id, fixed=query),
        includes=includes,
        chosen=chosen,
    )


def _make_step(
    tool: Tool,
    operation: Operation,
    call: Call,
    arguments: Arguments,
    *,
    object_id: str | None,
    fixed: Mapping[str, str],
) -> Step:
    """The call of an operation with what is left of the arguments: its query's by their names, its body the rest."""
    query = dict(fixed)
    if operation.query is not None:
        members = (str(field.alias) for field in operation.query.model_fields.values())
        for member in (member for member in members if member not in tool.hidden):
            value = arguments.parameter(tool.renamed.get(member, member))
            if value is not None:
                query[member] = value
    document = arguments.rest if operation.body is not None else None
    if operation.body is None:
        for name in arguments.rest:
            arguments.refuse(name, "is not known here", UnknownMember)
    problem = arguments.problem

    def read(value: Any) -> Any:
        if problem is not None:
            raise problem
        return value

    inputs = pipeline.Inputs(
        arguments={} if object_id is None else {"id": object_id},
        query=lambda: read(query),
        document=lambda: read(document),
    )
    return Step(operation, call, inputs)


def _read_id(arguments: Arguments) -> str | None:
    value = arguments.text("id")
    if value is not None and parse_guid(value) is not None:
        return value
    arguments.refuse("id", "must be an objectGUID, as `id` of a record" if value else "is needed")
    return None


def _read_includes(tool: Tool, way: Way, arguments: Arguments, call: Call) -> dict[str, Callable[[UUID], Step]]:
    if not tool.includes:
        return {}
    kind = way[0]
    made: dict[str, Callable[[UUID], Step]] = {}
    for name in arguments.words("include"):
        if (kind, name) not in tool.serves or name not in tool.includes:
            known = [deed for of, deed in tool.serves if of == kind and deed in tool.includes]
            arguments.refuse(
                "include", f"may hold {', '.join(known)} for {kind}" if known else f"is nothing for {kind}"
            )
            continue
        made[name] = _included(tool, find_operation(tool.serves[kind, name]), call)
    return made


def _included(tool: Tool, operation: Operation, call: Call) -> Callable[[UUID], Step]:
    names = operation.query.model_fields if operation.query is not None else {}
    query = {"pageSize": LIMIT} if "page_size" in names else {}
    if "attributes" in names:
        query["attributes"] = FEW_ATTRIBUTES
    return lambda id: _make_step(tool, operation, call, Arguments({}), object_id=str(id), fixed=query)


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


def _to_search(tool: Tool, arguments: Arguments) -> tuple[Way, dict[str, str]]:
    kind = arguments.word("kind", _kinds_of(tool))
    query = {"pageSize": LIMIT, "attributes": FEW_ATTRIBUTES}
    if "state" not in arguments.rest:
        return (kind, "search"), query
    if (kind, "state") not in tool.serves:
        raise bad_argument("state", f"is for {', '.join(_kinds_of(tool, 'state'))} only")
    return (kind, "state"), {**query, "kinds": _ACCOUNT_KINDS[kind]}


def _to_read(tool: Tool, arguments: Arguments) -> tuple[Way, dict[str, str]]:
    kind = arguments.word("kind", _kinds_of(tool))
    name = arguments.rest.get("id")
    if isinstance(name, str) and parse_guid(name) is None and (kind, "read-by-dn") in tool.serves:
        del arguments.rest["id"]
        return (kind, "read-by-dn"), {"dn": name}
    return (kind, "read"), {}


def _to_describe(tool: Tool, arguments: Arguments) -> tuple[Way, dict[str, str]]:
    kind = arguments.word("kind", _kinds_of(tool))
    if arguments.rest.get("attribute") in (EVERYTHING, [EVERYTHING]):
        del arguments.rest["attribute"]
    return (kind, DESCRIBE), {"classes": _CLASSES[kind]} if kind in _CLASSES else {}


def _to_change(deed: str) -> Callable[[Tool, Arguments], tuple[Way, dict[str, str]]]:
    def choose(tool: Tool, arguments: Arguments) -> tuple[Way, dict[str, str]]:
        return (arguments.word("kind", _kinds_of(tool)), deed), {}

    return choose


def _to_move_or_rename(tool: Tool, arguments: Arguments) -> tuple[Way, dict[str, str]]:
    kind = arguments.word("kind", _kinds_of(tool))
    if ("parent" in arguments.rest) is ("name" in arguments.rest):
        raise bad_argument("parent", "give either parent or name; to do both, call twice")
    return (kind, "move" if "parent" in arguments.rest else "rename"), {}


def _to_change_account(tool: Tool, arguments: Arguments) -> tuple[Way, dict[str, str]]:
    kind = arguments.word("kind", _kinds_of(tool))
    return (kind, arguments.word("action", [deed for of, deed in tool.serves if of == kind])), {}


def _the_only(way: Way) -> Callable[[Tool, Arguments], tuple[Way, dict[str, str]]]:
    return lambda tool, arguments: (way, {})  # noqa: ARG005 - as the others


def _to_look_at_requests(tool: Tool, arguments: Arguments) -> tuple[Way, dict[str, str]]:  # noqa: ARG001 - as the others
    if arguments.flag("cancel"):
        return ("change-requests", "cancel"), {}
    if "id" in arguments.rest:
        return ("change-requests", "read"), {}
    return ("change-requests", "search"), {"pageSize": FEW}


_ways: Final[Mapping[str, Callable[[Tool, Arguments], tuple[Way, dict[str, str]]]]] = {
    "search_directory": _to_search,
    "read_object": _to_read,
    "describe_schema": _to_describe,
    "create_object": _to_change("create"),
    "update_object": _to_change("update"),
    "move_or_rename_object": _to_move_or_rename,
    "change_members": _the_only(("groups", "change-members")),
    "change_account": _to_change_account,
    "delete_object": _to_change("delete"),
    "restore_object": _the_only(("deleted-objects", "restore")),
    OWN_REQUESTS: _to_look_at_requests,
}
"""How each tool chooses its way, and what it asks the operation for besides what it is given."""
