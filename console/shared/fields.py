"""From the fields of a form to the members of a body. Whether they make sense is for the operation to say."""

from collections.abc import Mapping
from typing import Any


def lines_of(text: str) -> list[str]:
    """What is written one a line."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def midnight_of(day: str) -> str | None:
    """The beginning (UTC) of the day that a date field gives; None where it is empty."""
    return f"{day}T00:00:00Z" if day else None


def scopes_of(text: str, known: list[Mapping[str, Any]]) -> list[str]:
    """The scopes of a role from its text area. One that was there before stays the object it is, whatever is called
    that now.
    """
    ids = {scope["distinguishedName"]: scope["id"] for scope in known}
    return [ids.get(line, line) for line in lines_of(text)]
