"""What a file for `gateway apply` may hold: the bodies of the operations, with names in place of identifiers.

Secrets are never in it: it says where they are kept.
"""

import os
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from core.errors import InvalidRequest, invalid_member
from core.shapes import Body, load_body
from keys.api_keys.shapes import CreateApiKey
from keys.permissions.presets import FOR_ROLES
from operations.access.permission_groups import CreateGroupOfPermissions, GivenDirectoryGroup
from operations.access.roles import CreateRole
from operations.directory.directories import CreateDirectory

Name = Annotated[str, Field(min_length=1)]


class Reference(Body):
    """Where a text is that the file does not hold."""

    file: Name | None = None
    variable: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _require_table(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError('must say where it is kept: { file = "…" } or { variable = "…" }')  # noqa: TRY004 - told
        return value

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.file is None) == (self.variable is None):
            raise ValueError("must name either a file or a variable")
        return self

    def read(self, member: str) -> str:
        """The text without line breaks around it; raises InvalidRequest naming the member."""
        try:
            text = Path(self.file).read_text("utf-8") if self.file else os.environ[self.variable or ""]
        except KeyError:
            raise invalid_member(f"{member}/variable", f"{self.variable} is not set") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise invalid_member(f"{member}/file", f"{self.file} cannot be read: {reason}") from None
        if not (stripped := text.strip("\r\n")):
            raise invalid_member(member, "is empty")
        return stripped


class DeclaredDirectory(CreateDirectory):
    bind_password: Reference  # type: ignore[assignment]
    ca_certificate: Reference | None = None  # type: ignore[assignment]


class DeclaredRole(CreateRole):
    """`preset` gives its permissions besides."""

    preset: Literal[tuple(preset.name for preset in FOR_ROLES)] | None = None  # type: ignore[valid-type]


class DeclaredDirectoryGroup(GivenDirectoryGroup):
    directory: Name  # type: ignore[assignment]


class DeclaredGroup(CreateGroupOfPermissions):
    directory_groups: list[DeclaredDirectoryGroup] = Field(default_factory=list)  # type: ignore[assignment]


class DeclaredKey(CreateApiKey):
    role: Name  # type: ignore[assignment]
    directories: list[Name] = Field(default_factory=list)


class DeclaredWebhook(Body):
    """What else holds for its values the form of the back office says."""

    name: Name
    url: str
    events: list[str]
    format: str = "standard"
    enabled: bool = True


class Declarations(Body):
    """The whole file; the name of each thing is the heading of its table."""

    directories: dict[str, DeclaredDirectory] = Field(default_factory=dict)
    roles: dict[str, DeclaredRole] = Field(default_factory=dict)
    groups: dict[str, DeclaredGroup] = Field(default_factory=dict)
    keys: dict[str, DeclaredKey] = Field(default_factory=dict)
    webhooks: dict[str, DeclaredWebhook] = Field(default_factory=dict)


SECTIONS: Final = tuple(Declarations.model_fields)


def read_declarations(text: str) -> Declarations:
    """What a file declares; raises InvalidRequest naming the line or every path that is wrong."""
    try:
        document = _plain(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(str(error)) from None
    for section in set(SECTIONS) & document.keys():
        if isinstance(document[section], dict):
            document[section] = {name: _named(section, name, it) for name, it in document[section].items()}
    return load_body(Declarations, document)


def _named(section: str, name: str, table: Any) -> Any:
    if not isinstance(table, dict):
        return table
    if "name" in table:
        raise invalid_member(f"{section}/{name}/name", "is not known here: the heading is the name")
    return {**table, "name": name}


def _plain(value: Any) -> Any:
    """As JSON would have it: moments as text."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value
