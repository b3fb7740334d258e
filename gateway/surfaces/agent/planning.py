"""Turns a tool's arguments into a plan: the operations to call, with their path, query and body.

It repeats no check of an operation. Invalid arguments raise their error when the pipeline reads them, after it has
checked the permission.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args
from uuid import UUID

from pydantic.alias_generators import to_camel

from core.call import Call, Schedule
from core.errors import GatewayError, InvalidRequest, UnknownMember
from core.operation import Effect, Operation, find_operation
from core.paging import CursorInvalid
from core.shapes import parse_guid
from directory.errors import ObjectAmbiguous, ObjectNotFound, translate_ldap_errors
from directory.lookup.account_names import MAX_NAME_LENGTH, find_by_name, is_distinguished_name
from directory.shapes.kinds import RESOURCES, Kind
from gateway import pipeline
from gateway.pipeline.schedules import SCHEDULE, parse_schedule
from gateway.surfaces.agent.matching import MATCHING, read_matching, read_undone, with_matching
from gateway.surfaces.agent.tools import (
    ACCOUNTS,
    DESCRIBE,
    PREVIEW,
    PREVIEWABLE,
    TIMES,
    TOOLS,
    UNDO,
    Behaviour,
    Tool,
    Way,
)
from keys.authentication import check_reason

DEFAULT_LIMIT = "50"
"""How many items a list has by default."""

_BY_NAME = tuple(f"ad/{kind}/" for kind in RESOURCES)
"""Paths whose objects may be named by distinguished name, sAMAccountName or userPrincipalName."""

MAX_NAMED = 1000
"""How many objects a list of the body names at most; operations refuse longer ones."""

LONG_ITEMS_LIMIT = "10"
"""The same for long items, which are change requests with all their changes."""

_FEW_ATTRIBUTES = "displayName,description"
"""The attributes of each object in a list by default. Contacts have no account name, but a mail address."""

ALL_ATTRIBUTES = "*"

_INCLUDED_LISTS = {
    "memberships": {},
    "members": {},
    "nested-members": {"nested": "true"},
    "history": {},
}
"""The includes that have pages, each with what its query has besides."""

_ACCOUNT_KINDS = {name: RESOURCES[name].kind for name in ACCOUNTS} | {"service-accounts": Kind.SERVICE_ACCOUNT}
_CLASSES = {name: resource.object_class for name, resource in RESOURCES.items() if resource.object_class}


@dataclass(frozen=True, slots=True)
class Plan:
    """The operations of one tool call. `tool` is never `preview_change` itself, but the tool to preview.

    `includes` are further reads of the same object by name, each with its query; their answers are added to the answer.
    `searches` find objects that the operation is for, while its input is validated.
    `batch` has the items of a batch, which takes the place of a single call of the operation.
    `has_chosen_attributes` is true if the caller named the attributes to show; `fields` are the members of each record
    that the caller named. `page_cursor` leads to the page, and `shown_until` is the item after which it goes on if it
    was cut (`cut_cursor`).
    """

    tool: Tool
    way: Way
    operation: Operation
    call: Call
    inputs: pipeline.Inputs
    includes: Mapping[str, tuple[Operation, dict[str, str]]]
    has_chosen_attributes: bool
    fields: frozenset[str] = frozenset()
    page_cursor: str | None = None
    shown_until: str | None = None
    is_preview: bool = False
    batch: tuple[dict[str, str], ...] | None = None
    searches: tuple[Operation, ...] = ()

    @property
    def operations(self) -> list[Operation]:
        """All operations of the plan."""
        return [self.operation, *(operation for operation, _ in self.includes.values()), *self.searches]


class Arguments:
    """The arguments of a tool, taken one by one. The operation gets `rest`; `problem` refuses the first bad one.

    `given` are all of them, as the agent sent them.
    """

    def __init__(self, raw_arguments: Mapping[str, Any]) -> None:
        self.given = raw_arguments
        self.rest = dict(raw_arguments)
        self.problem: GatewayError | None = None

    def refuse(self, name: str, detail: str, error: type[GatewayError] = InvalidRequest) -> None:
        if self.problem is None:
            self.problem = bad_argument(name, detail, error)

    def take(self, name: str) -> Any:
        """Take an argument of any type; None if it is missing."""
        return self.rest.pop(name, None)

    def word(self, name: str, words: Iterable[str]) -> str:
        """Take one of these words; raises InvalidRequest at once, since without it the operation is unknown."""
        value = self.take(name)
        if not isinstance(value, str) or value not in (words := list(words)):
            raise bad_argument(name, f"must be one of {', '.join(words)}")
        return value

    def text(self, name: str) -> Any:
        return self._checked(name, lambda value: isinstance(value, str) and bool(value), "must be a text")

    def flag(self, name: str) -> bool:
        return self._checked(name, lambda value: isinstance(value, bool), "must be true or false") is True

    def words(self, name: str) -> list[str]:
        """Take a list of texts, or a single text."""
        values = self._checked(
            name, lambda value: isinstance(value, str) or _is_list_of_texts(value), "must be a list of texts"
        )
        return [values] if isinstance(values, str) else values or []

    def _checked(self, name: str, is_valid: Callable[[Any], bool], detail: str) -> Any:
        """Take a valid argument; None if it is missing or refused."""
        value = self.take(name)
        if value is None or is_valid(value):
            return value
        self.refuse(name, detail)
        return None

    def parameter(self, name: str) -> str | None:
        """Take an argument as the text of a query parameter."""
        value = self.take(name)
        if isinstance(value, bool):
            return "true" if value else "false"
        if _is_list_of_texts(value):
            return ",".join(value)
        if value is None or isinstance(value, str | int):
            return None if value is None else str(value)
        self.refuse(name, "must be a text, a number, true or false, or a list of texts")
        return None


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def bad_argument(name: str, detail: str, error: type[GatewayError] = InvalidRequest) -> GatewayError:
    """The error that refuses an argument and names it."""
    pointer = "#/" + name.replace("~", "~0").replace("/", "~1")
    return error.naming(detail, pointer=pointer, subject=pointer)


def plan_call(tool: Tool, raw_arguments: Mapping[str, Any], call: Call) -> Plan:
    """Plan a tool call; raises InvalidRequest if not even the operation can be determined."""
    arguments = Arguments(raw_arguments)
    if tool.name != PREVIEW:
        return _plan(tool, arguments, call)
    previewed = TOOLS[arguments.word("tool", PREVIEWABLE)]
    inner = arguments.take("arguments")
    if not isinstance(inner, dict):
        raise bad_argument("arguments", "must be an object")
    for name in arguments.rest:
        raise bad_argument(name, "is not known here", UnknownMember)
    return _plan(previewed, Arguments(inner), call, dry_run=True)


def _plan(tool: Tool, arguments: Arguments, call: Call, *, dry_run: bool = False) -> Plan:
    kinds = tool.kinds()
    kind = arguments.word("kind", kinds) if len(kinds) > 1 else kinds[0]
    action, query = _choose(tool, kind, arguments)
    operation = find_operation(tool.serves[kind, action])
    has_chosen_attributes = "attributes" in arguments.rest
    fields = _read_fields(operation, arguments) if "fields" in tool.takes else frozenset[str]()
    page_cursor, shown_until = _open_cursor(arguments)
    batch = read_undone(UNDO, arguments.words(UNDO)) if action == UNDO else None
    object_id = _read_id(operation, arguments) if "{id}" in operation.path and batch is None else None
    includes = _read_includes(tool, kind, arguments)
    changes = tool.changes_directory and operation.effect is not Effect.READ
    if dry_run and not changes:
        raise bad_argument(UNDO, "is needed: there is nothing else to preview")
    call = _with_reason(tool, arguments, call, is_needed=changes and not dry_run)
    if "ifMatch" in tool.takes and (version := arguments.text("ifMatch")) is not None:
        call = replace(call, if_match=frozenset({version.strip('"')}))
    if (schedule := _read_schedule(tool, arguments)) is not None:
        call = replace(call, schedule=schedule)
    if dry_run:
        query["dryRun"] = "true"
    given = {name: arguments.take(name) for name in MATCHING if name in tool.takes and name in arguments.rest}
    matching = tuple(read_matching(name, search, call) for name, search in given.items())
    inputs = _inputs(tool, operation, arguments, call, object_id=object_id, query=query)
    if matching:
        inputs = inputs._replace(document=partial(with_matching, inputs.document, matching))
    if object_id is not None and parse_guid(object_id) is None:
        inputs = inputs._replace(arguments={}, find_id=partial(_find_id, call, arguments, object_id))
    return Plan(
        tool,
        (kind, action),
        operation,
        call,
        inputs,
        includes,
        has_chosen_attributes,
        fields=fields,
        page_cursor=page_cursor,
        shown_until=shown_until,
        is_preview=dry_run,
        batch=batch,
        searches=tuple(search.operation for search in matching),
    )


def _read_fields(operation: Operation, arguments: Arguments) -> frozenset[str]:
    """The members of records that `fields` asks for."""
    (record,) = get_args(operation.output)
    wanted = arguments.words("fields")
    members = [name for name in record.__annotations__ if name in record.__required_keys__]
    if unknown := {*wanted} - {*members}:
        arguments.refuse("fields", f"has no {min(unknown)}: may hold {', '.join(members)}")
    return frozenset(wanted)


_CUT = "after:"


def cut_cursor(item: str, cursor: str | None, arguments: Mapping[str, Any]) -> str:
    """The cursor of a list that is cut after this item. `cursor` is the one that led to the page, if any.

    The next call reads the same page again and shows what comes after the item. It is bound to the other arguments, as
    the cursors of operations are, except for `include`: of several lists each has its own.
    """
    return f"{_CUT}{item}:{_digest(arguments)}:{cursor or ''}"


def _open_cursor(arguments: Arguments) -> tuple[str | None, str | None]:
    """The cursor of the page and, of a cut list's cursor, the item; the operation gets only the former."""
    cursor = arguments.rest.get("cursor")
    if not isinstance(cursor, str) or not cursor.startswith(_CUT):
        return cursor, None
    item, _, rest = cursor.removeprefix(_CUT).partition(":")
    digest, _, inner = rest.partition(":")
    if digest != _digest(arguments.given):
        arguments.problem = arguments.problem or CursorInvalid()
    del arguments.rest["cursor"]
    if inner:
        arguments.rest["cursor"] = inner
    return inner or None, item


def _digest(arguments: Mapping[str, Any]) -> str:
    others = {name: value for name, value in arguments.items() if name not in ("cursor", "include")}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()[:16]


def _inputs(
    tool: Tool, operation: Operation, arguments: Arguments, call: Call, *, object_id: str | None, query: dict[str, str]
) -> pipeline.Inputs:
    """The remaining arguments as an operation's input: its query parameters by their names, the rest as the body."""
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
        document=lambda: _with_ids(tool, read(arguments.rest), call),
    )


def _with_ids(tool: Tool, document: dict[str, Any], call: Call) -> dict[str, Any]:
    """The body with the ids of objects that the agent has named otherwise. What is no name is left to validation."""
    named = {name: document[name] for name in tool.named if _is_list_of_texts(document.get(name))}
    return document | {
        list_name: [_id_of(call, name, f"#/{list_name}/{place}") for place, name in enumerate(names)]
        for list_name, names in named.items()
        if len(names) <= MAX_NAMED
    }


def _id_of(call: Call, name: str, pointer: str) -> str:
    if not name or len(name) > MAX_NAME_LENGTH or parse_guid(name) is not None:
        return name
    try:
        with translate_ldap_errors():
            return str(find_by_name(call, name))
    except (ObjectNotFound, ObjectAmbiguous) as refusal:
        raise type(refusal).naming(refusal.title, pointer=pointer, subject=pointer) from None


def _read_id(operation: Operation, arguments: Arguments) -> str | None:
    """The id, or the name of a living object of the directory, which `_find_id` finds."""
    value: str | None = arguments.text("id")
    if value is not None and len(value) > MAX_NAME_LENGTH:
        arguments.refuse("id", f"has at most {MAX_NAME_LENGTH} characters")
        return None
    if value is not None and (parse_guid(value) is not None or operation.path.startswith(_BY_NAME)):
        return value
    arguments.refuse("id", "must be an id, as `id` of a record" if value else "is needed")
    return None


def _find_id(call: Call, arguments: Arguments, name: str) -> UUID:
    if arguments.problem is not None:
        raise arguments.problem
    with translate_ldap_errors():
        return find_by_name(call, name)


def _read_includes(tool: Tool, kind: str, arguments: Arguments) -> dict[str, tuple[Operation, dict[str, str]]]:
    """The reads that `include` asks for, by name, each with its query."""
    found: dict[str, tuple[Operation, dict[str, str]]] = {}
    known = [action for action in tool.actions(kind) if action in tool.includes]
    if not tool.includes:
        return found
    names, cursor = dict.fromkeys(arguments.words("include")), arguments.text("cursor")
    for name in names:
        if name not in known:
            detail = f"may hold {', '.join(known)} for {kind}" if known else f"is nothing for {kind}"
            arguments.refuse("include", detail)
            continue
        operation = find_operation(tool.serves[kind, name])
        members = {field.alias for field in operation.query.model_fields.values()} if operation.query else set()
        query = {"pageSize": DEFAULT_LIMIT, "attributes": _FEW_ATTRIBUTES}
        query |= _INCLUDED_LISTS.get(name, {})
        found[name] = operation, {member: query[member] for member in query if member in members}
    if cursor is not None:
        lists = [name for name in found if name in _INCLUDED_LISTS]
        if len(lists) == 1:
            found[lists[0]][1]["cursor"] = cursor
        else:
            arguments.refuse("cursor", f"needs exactly one of {', '.join(_INCLUDED_LISTS)} in include")
    return found


def _read_schedule(tool: Tool, arguments: Arguments) -> Schedule | None:
    """When a change begins and ends, for the tools that take times; raises BadTime."""
    texts = {name: arguments.text(to_camel(name)) for name in SCHEDULE} if tool.takes >= TIMES else {}
    given = {name: (to_camel(name), text) for name, text in texts.items() if text is not None}
    return parse_schedule(given, in_body=True) if given else None


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


def _choose(  # noqa: PLR0911 - one for each tool that serves several operations
    tool: Tool, kind: str, arguments: Arguments
) -> tuple[str, dict[str, str]]:
    """The action on a kind of objects that a call means, and what its operation gets in the query besides."""
    given = arguments.rest
    match tool.name:
        case "search_directory":
            return _choose_search(tool, kind, arguments)
        case "read_object" if (kind, "read-by-dn") in tool.serves:
            name = given.get("id")
            if isinstance(name, str) and is_distinguished_name(name):
                del given["id"]
                return "read-by-dn", {"dn": name}
            return "read", {}
        case "count_objects":
            return "count", {"kind": kind}
        case "describe_schema":
            if given.get("attribute") in (ALL_ATTRIBUTES, [ALL_ATTRIBUTES]):
                del given["attribute"]
            return DESCRIBE, {"classes": _CLASSES[kind]} if kind in _CLASSES else {}
        case "move_or_rename_object":
            if ("parent" in given) is ("name" in given):
                raise bad_argument("parent", "give either parent or name; to do both, call twice")
            return "move" if "parent" in given else "rename", {}
        case "change_account":
            return arguments.word("action", tool.actions(kind)), {}
        case "my_change_requests":
            return _choose_own_request(arguments)
        case "my_changes":
            return (UNDO, {}) if UNDO in given else ("search-own", {"pageSize": LONG_ITEMS_LIMIT})
    return tool.actions(kind)[0], {}


def _choose_search(tool: Tool, kind: str, arguments: Arguments) -> tuple[str, dict[str, str]]:
    query = {"pageSize": DEFAULT_LIMIT, "attributes": _FEW_ATTRIBUTES + (",mail" if kind == "contacts" else "")}
    if "state" not in arguments.rest:
        return "search", query
    if (kind, "state") not in tool.serves:
        raise bad_argument("state", f"is for {', '.join(tool.kinds('state'))} only")
    return "state", {**query, "kinds": _ACCOUNT_KINDS[kind]}


def _choose_own_request(arguments: Arguments) -> tuple[str, dict[str, str]]:
    if "run" in arguments.rest:
        run = arguments.take("run")
        if "id" in arguments.rest or not isinstance(run, str) or parse_guid(run) is None:
            raise bad_argument("run", "must be the runId of an answer, without id")
        arguments.rest["id"] = run
        return "run", {}
    if arguments.flag("cancel"):
        return "cancel", {}
    return ("read", {}) if "id" in arguments.rest else ("search", {"pageSize": LONG_ITEMS_LIMIT})
