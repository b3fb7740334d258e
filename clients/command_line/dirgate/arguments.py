"""From the words on the command line to a request."""

import argparse
import csv
import getpass
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dirgate import times
from dirgate.document import Command, Option
from dirgate.failures import Failure

_GENERAL: Final = (
    ("--json", {"action": "store_true", "help": "Print the answer as JSON."}),
    ("--url", {"metavar": "URL", "help": "The gateway's address; else GATEWAY_URL, or that of `dirgate login`."}),
    ("--client-id", {"metavar": "ID", "help": "The directory link, for a key that has several."}),
)


@dataclass(slots=True)
class Given:
    """What was given for a command: the members of its request, and how its answer is wanted."""

    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    options: argparse.Namespace = field(default_factory=argparse.Namespace)


def make_parser(command: Command) -> argparse.ArgumentParser:
    """The parser of one command."""
    parser = argparse.ArgumentParser(
        prog=f"dirgate {command.name}", description=command.summary, allow_abbrev=False, add_help=True
    )
    for option in command.options:
        _add(parser, command, option)
    if command.item is not None:
        parser.add_argument(
            "file", metavar="FILE", help="The items: CSV with a header, a JSON array or JSON lines; - reads them."
        )
    elif command.has_body:
        parser.add_argument("--body", metavar="FILE", help="A file with the body as JSON; options come on top.")
    if command.is_paged:
        parser.add_argument("--limit", type=_count, default=100, metavar="N", help="At most so many; 100 unless given.")
        parser.add_argument("--all", action="store_true", help="All of them, page after page.")
        parser.add_argument("--columns", metavar="A,B", help="The columns of the table, such as name,account.sid.")
    if command.answers_csv:
        parser.add_argument("--csv", action="store_true", help="Print all of them as CSV.")
    if command.is_held:
        parser.add_argument("--wait", action="store_true", help="Wait until a held change is decided and made.")
    for flag, settings in _GENERAL:
        parser.add_argument(flag, **settings)  # type: ignore[arg-type]
    return parser


def parse(command: Command, words: list[str]) -> Given:
    """Sort the words into a request's parts. Exits with status 2, or raises Failure, for words that are wrong."""
    found = make_parser(command).parse_args(words)
    given = Given(options=found)
    if (file := getattr(found, "body", None)) is not None:
        given.body = _json_object(file)
    for option in command.options:
        value = getattr(found, _destination(option))
        if option.kind == "secret":
            file = getattr(found, f"{_destination(option)}_file")
            value = _secret(option, asked=value or (option.is_required and option.name not in given.body), file=file)
        if value is not None:
            _put(given, option, _pairs(option, value) if option.kind == "values" else value)
    needed = [option for option in command.options if option.is_required and option.place == "body"]
    missing = [option.flag for option in needed if (option.part or option.name) not in given.body]
    if missing:
        raise Failure(f"{', '.join(missing)} must be given.")
    return given


def _add(parser: argparse.ArgumentParser, command: Command, option: Option) -> None:
    if option.place == "path":
        names = command.names_object and option.name == "id"
        parser.add_argument(
            _destination(option),
            metavar=option.name.upper(),
            help="Id, account name, UPN, name or distinguished name." if names else option.help.replace("%", "%%"),
        )
        return
    settings: dict[str, Any] = {"dest": _destination(option), "help": option.help.replace("%", "%%"), "default": None}
    match option.kind:
        case "flag":
            is_switch = option.name in ("dryRun", "generate", "recursive")
            settings["action"] = "store_const" if is_switch else argparse.BooleanOptionalAction
            settings |= {"const": True} if is_switch else {}
        case "number":
            settings |= {"type": int, "metavar": "N"}
        case "list":
            settings |= {"action": "append", "metavar": "VALUE"}
        case "values":
            settings |= {"action": "append", "metavar": "ATTRIBUTE=VALUE"}
        case "secret":
            settings |= {"action": "store_true", "help": f"{settings['help']} Asked for, or read from standard input."}
            parser.add_argument(
                f"{option.flag}-file", dest=f"{_destination(option)}_file", metavar="FILE", help="A file with it."
            )
        case "duration":
            settings["metavar"] = "8h"
        case "moment":
            settings["metavar"] = "TIME"
        case _:
            settings["metavar"] = "TEXT"
    if option.choices and option.kind in ("text", "list"):
        settings["choices"] = option.choices
        settings["metavar"] = "|".join(option.choices) if len(option.choices) < 7 else "WORD"
    parser.add_argument(option.flag, **settings)


def _destination(option: Option) -> str:
    return f"{option.place}_{option.part or ''}_{option.name}"


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _put(given: Given, option: Option, value: Any) -> None:
    if option.kind == "duration":
        value = times.duration(value)
    elif option.kind == "moment":
        value = None if option.place == "body" and value == "never" else times.moment(value)
    match option.place:
        case "path":
            given.path[option.name] = value
        case "query":
            given.query[option.name] = _in_url(value)
        case "header":
            given.headers[option.name] = value
        case "body":
            part = given.body if option.part is None else given.body.setdefault(option.part, {})
            part[option.name] = value


def _in_url(value: Any) -> Any:
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else value


def _pairs(option: Option, given: Iterable[str]) -> dict[str, Any]:
    """`title=Countess` as a member; an attribute given twice has two values."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise Failure(f"{option.flag} {each}: write it as attribute=value.")
        found[name] = value if name not in found else [*_listed(found[name]), value]
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _secret(option: Option, *, asked: bool, file: str | None) -> str | None:
    """A password from a file, a terminal or standard input: never an argument, which other people's `ps` shows."""
    if file is not None:
        return _text(file).removesuffix("\n").removesuffix("\r")
    if not asked:
        return None
    if sys.stdin.isatty():
        return getpass.getpass(f"{option.flag[2:].replace('-', ' ').capitalize()}: ")
    return sys.stdin.readline().removesuffix("\n").removesuffix("\r")


def _text(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{file} cannot be read: {error}.") from None


def _json_object(file: str) -> dict[str, Any]:
    try:
        found = json.loads(_text(file))
    except ValueError as error:
        raise Failure(f"{file} is no JSON: {error}.") from None
    if not isinstance(found, dict):
        raise Failure(f"{file} is no JSON object.")
    return found


def read_items(command: Command, file: str) -> list[dict[str, Any]]:
    """The items of a batch. Raises Failure, which names the line, for what cannot be understood."""
    text = _text(file)
    start = text.lstrip()[:1]
    found: list[Any]
    if start == "[":
        found = _parsed(file, text)
    elif start == "{":
        lines = ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())
        found = [_parsed(f"{file}, line {number}", line) for number, line in lines]
    else:
        found = _csv_items(command, file, text)
    for number, item in enumerate(found, 1):
        if not isinstance(item, dict):
            raise Failure(f"{file}: item {number} is no object.")
    if not found:
        raise Failure(f"{file} has no items.")
    return found


def _parsed(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Failure(f"{where} is no JSON: {error}.") from None


def _csv_items(command: Command, file: str, text: str) -> list[Any]:
    """Columns are members (`name`, `account.expiresAt`) or else attributes to set; empty cells say nothing."""
    first = text.split("\n", 1)[0]
    separator = max(",;\t", key=first.count)
    rows = csv.DictReader(text.splitlines(keepends=True), delimiter=separator, strict=True)
    items = []
    try:
        for row in rows:
            if None in row or None in row.values():
                raise Failure(f"{file}, line {rows.line_num}: it has not as many cells as the header line.")
            items.append(_item(command.item or {}, row))
    except csv.Error as error:
        raise Failure(f"{file}, line {rows.line_num}: {error}.") from None
    return items


def _item(schema: Mapping[str, Any], row: Mapping[str, str]) -> dict[str, Any]:
    members = schema.get("properties", {})
    item: dict[str, Any] = {}
    for column, cell in row.items():
        if cell == "":
            continue
        name, _, inner = column.strip().partition(".")
        if name not in members:
            item.setdefault("replace", {})[column.strip()] = cell
        elif inner:
            item.setdefault(name, {})[inner] = _typed(cell)
        else:
            is_list = members[name].get("type") == "array"
            item[name] = cell.split(";") if is_list else _typed(cell) if _is_flag(members[name]) else cell
    return item


def _is_flag(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "boolean"


def _typed(cell: str) -> Any:
    """Options of accounts and switches: `true`, `false`, or a text."""
    return {"true": True, "false": False, "yes": True, "no": False}.get(cell.lower(), cell)
