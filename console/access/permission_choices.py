"""Permissions to choose from or to show, in their groups and in plain words."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.utils.translation import gettext as _

from console.page_context import PageContext
from keys.permission_catalogue import MEANINGS
from keys.permissions.presets import Preset, find_preset

_ORDER = {name: number for number, name in enumerate(MEANINGS)}
_WORDS = ("group", "title", "meaning", "danger")


@dataclass(frozen=True, slots=True)
class Choice:
    """A permission (`record`, as `permissions.search` answers it), whether it is chosen, and whether it can be.

    Nobody gives what they do not hold: such a one is shown, but cannot be chosen.
    """

    record: dict[str, Any]
    chosen: bool
    held: bool


def choices(page: PageContext, chosen: Collection[str], *, for_role: bool) -> list[tuple[str, list[Choice]]]:
    """Every permission that a role (or, without `for_role`, a person) can be given, by group."""
    found = [item for item in _read(page) if item["grantable"] or not for_role]
    rows = (Choice(item, item["name"] in chosen, item["name"] in page.call.permissions) for item in found)
    return [(group, list(items)) for group, items in groupby(rows, key=lambda row: row.record["group"])]


def preset_of(page: PageContext) -> Preset | None:
    """The preset whose button was pressed: the form is shown again with its permissions."""
    return find_preset(page.form.get("preset", ""))


def by_group(page: PageContext, names: Iterable[str]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The permissions of these names, by group."""
    wanted = set(names)
    found = [item for item in _read(page) if item["name"] in wanted]
    return [(group, list(items)) for group, items in groupby(found, key=lambda item: item["group"])]


def explained(page: PageContext) -> dict[str, dict[str, Any]]:
    """Every permission by its name."""
    return {item["name"]: item for item in _read(page)}


def _read(page: PageContext) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.perform("permissions.search", query={"pageSize": "1000"})["items"]
    return [_in_words(item) for item in sorted(found, key=lambda item: _ORDER[item["name"]])]


def _in_words(record: dict[str, Any]) -> dict[str, Any]:
    """The record in the language of the page: operations answer in English."""
    return {**record, **{member: _(record[member]) for member in _WORDS if record[member]}}
