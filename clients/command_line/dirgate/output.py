"""Shows answers: tables that fit the terminal, JSON for programs. What is not data goes to standard error."""

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

_COLUMNS: Final = {
    "operations": ("at", "operation", "owner", "keyName", "target.distinguishedName", "outcome", "id"),
    "change-requests": (
        "id",
        "status",
        "operation",
        "risk",
        "target.distinguishedName",
        "requestedBy.owner",
        "expiresAt",
        "dueAt",
    ),
    "runs": (
        "runId",
        "action",
        "state",
        "organizationalUnit.distinguishedName",
        "total",
        "succeeded",
        "failed",
        "createdAt",
    ),
    "schema": ("name", "type", "singleValued", "writable"),
    "saved-filters": ("name", "kind", "filter", "shared", "id"),
}
_OBJECTS: Final = ("name", "account.samAccountName", "state", "distinguishedName")
_TITLES: Final = {
    "account.samAccountName": "account",
    "requestedBy.owner": "requestedBy",
    "target.distinguishedName": "target",
    "organizationalUnit.distinguishedName": "unit",
}
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_GAP: Final = "  "
_NARROWEST: Final = 8


def is_terminal() -> bool:
    return sys.stdout.isatty()


def say(text: str) -> None:
    """Tell the person something that is not the answer."""
    print(text, file=sys.stderr, flush=True)


def show_json(document: Any) -> None:
    """The answer as the gateway gave it."""
    print(json.dumps(document, ensure_ascii=False, indent=2 if is_terminal() else None), flush=True)


def columns_of(resource: str, items: Sequence[Mapping[str, Any]], attributes: Iterable[str] = ()) -> list[str]:
    """The columns that people want of these records, and the attributes that they asked for."""
    first = items[0] if items else {}
    if "distinguishedName" in first:
        shown = [name for name in _OBJECTS if any(_cell(item, name) for item in items)]
        return [*shown[:-1], *(f"attributes.{name}" for name in attributes if name != "*"), "distinguishedName"]
    if found := _COLUMNS.get(resource):
        return list(found)
    return [name for name, value in first.items() if not isinstance(value, (dict, list))][:6]


def show_table(columns: Sequence[str], items: Iterable[Mapping[str, Any]]) -> None:
    """One line for each record. On a terminal the widest columns are cut until all fit; elsewhere nothing is cut."""
    rows = [[_cell(item, column) for column in columns] for item in items]
    titles = [_title(column) for column in columns]
    widths = [max(map(_width, each)) for each in zip(titles, *rows, strict=True)]
    if is_terminal():
        _fit(widths, shutil.get_terminal_size().columns - len(_GAP) * (len(columns) - 1))
    print(_bold(_line(titles, widths)))
    for row in rows:
        print(_line(row, widths))
    sys.stdout.flush()


def show_record(record: Mapping[str, Any]) -> None:
    """One member to a line, its attributes among them."""
    flat = dict(_flat(record))
    width = max((_width(name) for name in flat), default=0)
    for name, value in flat.items():
        print(f"{_bold(_padded(name, width))}{_GAP}{value}")
    sys.stdout.flush()


def show_changes(changes: Iterable[Mapping[str, Any]]) -> None:
    """Each attribute with its values before and after."""
    for change in changes:
        names = {each["name"].casefold(): each.get("accountName") for each in change.get("references", ())}
        before, after = (_values(change[side], names) for side in ("before", "after"))
        print(f"{_bold(change['attribute'])}: {before} → {after}")
    sys.stdout.flush()


def _values(values: Iterable[str], names: Mapping[str, str | None]) -> str:
    shown = [names.get(value.casefold()) or _text(value) for value in values]
    return ", ".join(shown) or "(none)"


def show_progress(done: int, total: int, what: str) -> None:
    """A bar that is drawn over itself; nothing where nobody watches."""
    if not sys.stderr.isatty():
        return
    width = 30
    filled = width * done // max(total, 1)
    end = "\n" if done >= total else ""
    print(f"\r[{'#' * filled}{'.' * (width - filled)}] {done}/{total} {what}", end=end, file=sys.stderr, flush=True)


def _cell(item: Mapping[str, Any], column: str) -> str:
    if column == "state":
        account = item.get("account") or {}
        if "enabled" not in account:
            return ""
        return "locked out" if account.get("lockedOut") else "enabled" if account["enabled"] else "disabled"
    found: Any = item
    for name in column.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return _text(found)


def _title(column: str) -> str:
    name = column.removeprefix("attributes.")
    if name != column:
        return name
    name = _TITLES.get(name, name)
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", name).upper()


def _flat(record: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, str]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, "" if name == "attributes" else f"{before}{name}.")
        else:
            yield f"{before}{name}", _text(value)


def _text(value: Any) -> str:
    """A value in words, on one line; times in this machine's zone. Nothing in it can move the cursor."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    text = str(value)
    if _MOMENT.match(text):
        try:
            return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M}"
        except (ValueError, OverflowError):
            return text
    return "".join(each if each.isprintable() else " " for each in text)


def _width(text: str) -> int:
    """How many columns a text takes: letters of East Asia take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def _fit(widths: list[int], room: int) -> None:
    while sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(_padded(cell, width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _padded(text: str, width: int) -> str:
    if _width(text) > width:
        while _width(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - _width(text))


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if is_terminal() and not os.environ.get("NO_COLOR") else text
