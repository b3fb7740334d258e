"""Makes the tables in docs/ from the code: settings, permissions, events and errors.

A page has each of its tables between two comments; the text around them is written by hand.
"""

from collections.abc import Iterable
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from django.conf import settings

from audit.webhooks.events import all_events
from core.configuration_sections import Configuration, RateLimit
from core.errors import anchor_of, error_classes
from core.operation import operations
from keys.permission_catalogue import GRANTABLE, MEANINGS

DOCS = Path(settings.BASE_DIR) / "docs"


def settings_table() -> str:
    """Every key of the configuration, with a table for each section."""
    return "\n\n".join(
        f"### {section}\n\n"
        + _table(
            ("Key", "Default", "Meaning"),
            (
                (f"`{section}:{key}`", _shown(field.default), field.description or "")
                for key, field in type(getattr(Configuration(), section)).model_fields.items()
            ),
        )
        for section in Configuration.model_fields
    )


def permissions_table() -> str:
    """Every permission by group: what it allows, its danger, who may hold it, and the operations that need it."""
    asked_by: dict[str, list[str]] = {}
    for operation in operations():
        for permission in operation.permission:
            asked_by.setdefault(permission, []).append(f"`{operation.name}`")
    return "\n\n".join(
        f"### {group}\n\n"
        + _table(
            ("Permission", "Allows", "Who may hold it", "Operations"),
            (
                (
                    f"`{name}`",
                    f"{meaning.text} **{meaning.danger}**" if meaning.danger else meaning.text,
                    "roles and people" if name in GRANTABLE else "people",
                    ", ".join(asked_by.get(name, [])) or "–",
                )
                for name, meaning in meanings
            ),
        )
        for group, meanings in groupby(MEANINGS.items(), key=lambda item: item[1].group)
    )


def events_table() -> str:
    """Every event of the webhooks."""
    return _table(
        ("Event", "Groups", "Meaning"),
        (
            (f"`{event.name}`", ", ".join(f"`{group.value}`" for group in event.groups), event.meaning)
            for event in all_events()
        ),
    )


def errors_table() -> str:
    """Every error code that an answer can have, by status."""
    for module in ("gateway.urls", "gateway.tasks"):
        import_module(module)  # these import all modules that declare errors
    known: dict[tuple[int, str], str] = {}
    for error in error_classes():  # a code's own class comes before those that say the same in other words
        known.setdefault((error.status, error.code), error.title)
    lines = sorted(known.items())
    first = {code: status for (status, code), _ in reversed(lines)}
    return _table(
        ("Status", "Code", "Meaning"),
        (
            (str(status), f'<a id="{anchor_of(code)}"></a>`{code}`' if first[code] == status else f"`{code}`", title)
            for (status, code), title in lines
        ),
    )


TABLES = {
    ("configuration.md", "settings"): settings_table,
    ("permissions.md", "permissions"): permissions_table,
    ("events.md", "events"): events_table,
    ("api.md", "errors"): errors_table,
}
"""By page, and by the table's name in the comments."""


def filled_page(page: str) -> str:
    """Return a page of docs/ with its tables updated; raises ValueError unless each table has exactly one place."""
    text = (DOCS / page).read_text("utf-8")
    for (on_page, name), make in TABLES.items():
        if on_page != page:
            continue
        begin, end = f"<!-- {name}: made by manage.py check_docs --write -->", f"<!-- end of {name} -->"
        if (text.count(begin), text.count(end)) != (1, 1):
            raise ValueError(f"docs/{page} has no place for the table {name}, or several")
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{make()}\n\n{end}{rest.partition(end)[2]}"
    return text


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _shown(value: Any) -> str:
    if isinstance(value, RateLimit):
        return f"{value.Requests} in {value.WindowSeconds} s"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value) or "none"
    return f"`{value}`" if value != "" else "none"
