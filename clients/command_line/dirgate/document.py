"""The commands, read from the OpenAPI document: `users.update` is `dirgate users update ID --replace title=Lady`."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

DOCUMENT: Final = Path(__file__).with_name("api.json")
ALIASES: Final = {"requests": "change-requests", "units": "organization-units"}
"""Short names of resources that are typed often."""
_OBJECTS: Final = "/api/ad/"
_METHODS: Final = frozenset({"get", "post", "patch", "delete"})
_NOT_OPTIONS: Final = frozenset({"X-Client-Id", "cursor", "pageSize", "fields", "reason"})
"""Parameters that dirgate sets itself. Reasons go into `X-Change-Reason`."""
_SCHEDULE: Final = {"X-Revert-After": "--for", "X-Revert-At": "--until", "X-Apply-At": "--at"}
_HEADERS: Final = {"X-Change-Reason": "--reason", **_SCHEDULE}

Kind = Literal["text", "number", "flag", "list", "values", "secret", "duration", "moment"]
"""`list` is given several times; `values` is `attribute=value`, given several times; a `secret` is asked for; a
`duration` is `8h` or `2d12h`; a `moment` is in this machine's time zone unless it names one.
"""


_TIMES: Final[Mapping[str, Kind]] = {
    "X-Revert-After": "duration", "X-Revert-At": "moment", "X-Apply-At": "moment", "until": "moment"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Option:
    """A parameter of an operation, or a member of its body; `part` is the member of the body that it is in."""

    name: str
    flag: str
    place: Literal["path", "query", "header", "body"]
    kind: Kind
    help: str = ""
    choices: tuple[str, ...] = ()
    is_required: bool = False
    part: str | None = None
    names_objects: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """One operation as it is called: `dirgate {resource} {action}`."""

    resource: str
    action: str
    method: str
    path: str
    summary: str
    options: tuple[Option, ...]
    has_body: bool = False
    is_paged: bool = False
    answers_csv: bool = False
    item: Mapping[str, Any] | None = field(default=None, hash=False)
    """The schema of a batch's items."""

    @property
    def name(self) -> str:
        return f"{self.resource} {self.action}"

    @property
    def is_change(self) -> bool:
        return self.method != "GET"

    @property
    def is_held(self) -> bool:
        """Whether it may wait for approval."""
        return any(option.name == "dryRun" for option in self.options)

    @property
    def names_object(self) -> bool:
        """Whether its id is that of a directory object, which may be called by its name."""
        return self.path.startswith(f"{_OBJECTS}{self.resource}/{{id}}") and self.resource not in _NOT_OBJECTS


_NOT_OBJECTS: Final = frozenset({"runs", "saved-filters"})


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document of `/api`."""
    found: dict[str, Any] = json.loads(DOCUMENT.read_bytes())
    return found


def resources() -> dict[str, list[str]]:
    """The actions of each resource, in the order of the document."""
    found: dict[str, list[str]] = {}
    for _, _, _, resource, action in _operations():
        found.setdefault(resource, []).append(action)
    found["groups"] += ["add-members", "remove-members"]
    found["change-requests"].append("wait")
    return found


def find_command(resource: str, action: str) -> Command | None:
    """The command with these names, or None."""
    resource = ALIASES.get(resource, resource)
    if resource == "groups" and action in ("add-members", "remove-members"):
        return _change_of_members(action)
    if resource == "change-requests" and action == "wait":
        reading = find_command(resource, "read")
        return reading and replace(reading, action="wait", summary="Wait until a change request is decided and done.")
    for path, method, operation, its_resource, its_action in _operations():
        if its_resource == resource and action in (its_action, "list" if its_action == "search" else its_action):
            return _command(path, method, operation, resource, its_action)
    return None


def summary_of(resource: str, action: str) -> str:
    """What a command does, in a sentence."""
    command = find_command(resource, action)
    return command.summary if command else ""


def _operations() -> Iterator[tuple[str, str, dict[str, Any], str, str]]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            if method in _METHODS:
                resource, _, action = operation["operationId"].partition(".")
                yield path, method, operation, resource, action


def _command(path: str, method: str, operation: Mapping[str, Any], resource: str, action: str) -> Command:
    parameters = [_resolved(parameter) for parameter in operation.get("parameters", ())]
    # What moves the end of a change has none of its own.
    left_out = _NOT_OPTIONS | (_SCHEDULE.keys() if resource == "change-requests" else set())
    options = [_of_parameter(each) for each in parameters if each["name"] not in left_out]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    item = None
    if body is not None:
        members = _members(body)
        if "items" in members and action.startswith("batch-"):
            item = _resolved(_resolved(members.pop("items"))["items"])
        options += _of_members(members, _required(body), taken={option.flag for option in options})
    accepted = operation["responses"].get("200", {}).get("content", {})
    return Command(
        resource=resource,
        action=action,
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        options=tuple(options),
        has_body=body is not None,
        is_paged=any(each["name"] == "cursor" for each in parameters),
        answers_csv="text/csv" in accepted,
        item=item,
    )


def _change_of_members(action: str) -> Command | None:
    """`add-members` and `remove-members`: the one change of members with one of its two lists."""
    command = find_command("groups", "change-members")
    if command is None:
        return None
    listed = action.removesuffix("-members")
    options = [option for option in command.options if option.place != "body"]
    (members,) = (option for option in command.options if option.place == "body" and option.name == listed)
    options.append(replace(members, flag="--member", help="Who: id, account name, UPN or DN.", is_required=True))
    summary = "Add members to a group." if listed == "add" else "Remove members from a group."
    return replace(command, action=action, summary=summary, options=tuple(options))


def _of_parameter(parameter: Mapping[str, Any]) -> Option:
    name, schema = parameter["name"], _resolved(parameter.get("schema", {}))
    return Option(
        name=name,
        flag=_HEADERS.get(name, flag_of(name)),
        place=parameter["in"],
        kind=_kind(name, schema),
        help=_help(parameter.get("description", "")),
        choices=_choices(schema),
        is_required=bool(parameter.get("required")),
    )


def _of_members(members: Mapping[str, Any], required: frozenset[str], *, taken: set[str]) -> Iterator[Option]:
    for name, given in members.items():
        schema = _resolved(given)
        parts = schema.get("properties") if "$ref" in _without_null(given) else None
        for inner, member in (parts or {name: schema}).items():
            if member.get("maxProperties") == 0 or member.get("maxItems") == 0:
                continue  # "must be empty"
            resolved = _resolved(member)
            flag = flag_of(inner)
            yield Option(
                name=inner,
                flag=flag if flag not in taken else f"--{name}-{flag[2:]}",
                place="body",
                kind=_kind(inner, resolved),
                help=_help(given.get("description", "") if parts is None else member.get("description", "")),
                choices=_choices(resolved),
                is_required=name in required,
                part=name if parts else None,
                names_objects=_resolved(resolved.get("items", {})).get("format") == "uuid",
            )


def flag_of(name: str) -> str:
    """The option for a parameter or member. Names of attributes, such as `sAMAccountName`, stay as they are."""
    return f"--{name}" if re.search("[A-Z]{2}", name) else "--" + re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _kind(name: str, schema: Mapping[str, Any]) -> Kind:
    match schema.get("type"):
        case "boolean":
            return "flag"
        case "integer":
            return "number"
        case "array":
            return "list"
        case "object":
            return "values"
    return _TIMES.get(name, "secret" if name.lower().endswith("password") else "text")


def _choices(schema: Mapping[str, Any]) -> tuple[str, ...]:
    listed = _resolved(schema.get("items", {})) if schema.get("type") == "array" else schema
    return tuple(listed.get("enum", ()))


def _help(text: str) -> str:
    """The first sentence of a description, without the marks of code."""
    return re.split(r"(?<=[.])\s", text.replace("`", ""), maxsplit=1)[0]


def _members(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a body, or of all its alternatives."""
    resolved = _resolved(schema)
    found = dict(resolved.get("properties", {}))
    for alternative in resolved.get("oneOf", ()):
        found |= _members(alternative)
    return found


def _required(schema: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(_resolved(schema).get("required", ()))


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    possible = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return possible[0] if len(possible) == 1 else schema


def _resolved(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A part of the document, by its reference if it is one, without `null` among the alternatives."""
    schema = _without_null(schema)
    if "$ref" not in schema:
        return dict(schema)
    found = document()
    for name in schema["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return _resolved(found)
