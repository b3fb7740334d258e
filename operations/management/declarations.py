"""The contents of a file for `gateway apply`, and applying them with the operations that the console uses.

The file contains no secrets, only where to find them.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django.contrib.auth.models import Group
from django.db.models import Model
from pydantic import Field, model_validator

from active_directory import DistinguishedName, InvalidValue
from audit.admin import EndpointForm
from audit.model_changes.descriptions import RowChange, find_audited_model
from audit.model_changes.recording import recorded
from audit.models import WebhookEndpoint
from core.database.own_rows import lock_record
from core.errors import Conflict, FieldError, InvalidRequest, invalid_member
from core.operation import find_operation
from core.shapes import Body, load_body
from directory.models import DirectoryConnection
from gateway.pipeline.perform import OwnChanges
from keys.api_keys import CreateApiKey
from keys.models import ApiKey, Role
from keys.permission_catalogue import FOR_ROLES, find_preset
from operations.access.permission_groups import CreateGroupOfPermissions, GivenDirectoryGroup
from operations.access.roles import CreateRole
from operations.directory.directories import CreateDirectory

Name = Annotated[str, Field(min_length=1)]


class Reference(Body):
    """Where to read a secret or certificate: a file or an environment variable."""

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
        """Read the text, without line breaks around it; raises InvalidRequest naming the member."""
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
    """The permissions of `preset` are added to `permissions`."""

    preset: Literal[tuple(preset.name for preset in FOR_ROLES)] | None = None  # type: ignore[valid-type]


class DeclaredDirectoryGroup(GivenDirectoryGroup):
    directory: Name  # type: ignore[assignment]


class DeclaredGroup(CreateGroupOfPermissions):
    directory_groups: list[DeclaredDirectoryGroup] = []  # type: ignore[assignment]


class DeclaredKey(CreateApiKey):
    role: Name  # type: ignore[assignment]
    directories: list[Name] = []


class DeclaredWebhook(Body):
    """A webhook, whose values the form of the back office validates."""

    name: Name
    url: str
    events: list[str]
    format: str = "standard"
    enabled: bool = True


class Declarations(Body):
    """The whole file; the heading of each table is the name of a row."""

    directories: dict[str, DeclaredDirectory] = {}
    roles: dict[str, DeclaredRole] = {}
    groups: dict[str, DeclaredGroup] = {}
    keys: dict[str, DeclaredKey] = {}
    webhooks: dict[str, DeclaredWebhook] = {}


SECTIONS = tuple(Declarations.model_fields)


def read_declarations(text: str) -> Declarations:
    """Parse a file; raises InvalidRequest naming the line, or every invalid path."""
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
    """A TOML value as JSON has it, with times as text."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value


_DESTINATION_MEMBERS = ("urls", "startTls", "caCertificate", "bindDn")
"""Members that decide where a connection's password is sent; `directories.update` takes them only with it."""


class DeclarationApplier:
    """Applies declarations inside the caller's transaction.

    `place` is the table being applied, for error messages. `secrets` are the values generated, by section and name.
    """

    def __init__(self, changes: OwnChanges) -> None:
        self._changes = changes
        self.place = ""
        self.secrets: dict[str, dict[str, dict[str, Any]]] = {"keys": {}, "webhooks": {}}

    def apply(self, declared: Declarations) -> None:
        """Create and change what differs, each row after those that it refers to; raises GatewayError."""
        lock_record("declarations", "apply")  # two commands at once would both create what is missing
        steps: dict[str, Any] = {
            "directories": self._apply_directory,
            "roles": self._apply_role,
            "groups": self._apply_group,
            "keys": self._apply_key,
            "webhooks": self._apply_webhook,
        }
        for section, apply_one in steps.items():
            for name, item in getattr(declared, section).items():
                self.place = f'{section}."{name}"'
                apply_one(item)
        self.place = ""

    def _apply_directory(self, item: DeclaredDirectory) -> None:
        row = DirectoryConnection.objects.filter(name=item.name).first()
        document = _json(item, "bind_password", "ca_certificate")
        document["caCertificate"] = item.ca_certificate.read("caCertificate") if item.ca_certificate else None
        if row is None:
            self._changes.perform("directories.create", body=document | _password(item))
            return
        # Once the gateway has rotated the password of its account, that of the file is outdated.
        if row.rotated_at is None:
            kept = self._read("directories", row)
            moves = any(document[name] != kept[name] for name in _DESTINATION_MEMBERS)
            password = _password(item)
            if moves or row.bind_password != password["bindPassword"]:
                document |= password
        self._create_or_update("directories", row, document)

    def _apply_role(self, item: DeclaredRole) -> None:
        document = _json(item, "preset")
        if item.preset is not None and (preset := find_preset(item.preset)) is not None:
            document["permissions"] = sorted(preset.for_role.union(document["permissions"]))
        self._create_or_update("roles", Role.objects.filter(name=item.name).first(), document)

    def _apply_group(self, item: DeclaredGroup) -> None:
        groups = [
            {
                "directory": _id_of(DirectoryConnection, each.directory, f"directoryGroups/{index}/directory"),
                "group": each.group,
            }
            for index, each in enumerate(item.directory_groups)
        ]
        document = _json(item) | {"directoryGroups": groups}
        self._create_or_update("permission-groups", Group.objects.filter(name=item.name).first(), document)

    def _apply_key(self, item: DeclaredKey) -> None:
        role = _id_of(Role, item.role, "role")
        wanted = {_id_of(DirectoryConnection, name, f"directories/{at}") for at, name in enumerate(item.directories)}
        document = _json(item, "directories") | {"role": role}
        key = self._create_or_update("api-keys", _find_key(item), document)
        linked = {link["directory"]: link["clientId"] for link in key["links"]}
        for client_id in (linked[directory] for directory in linked if directory not in wanted):
            self._changes.perform("api-keys.delete-link", id=key["id"], clientId=client_id)
        made = [
            self._changes.perform("api-keys.create-link", id=key["id"], body={"directory": directory})
            for directory in sorted(wanted - linked.keys())
        ]
        if "value" in key:
            client_ids = {link["directoryName"]: link["clientId"] for link in made}
            self.secrets["keys"][item.name] = {"value": key["value"], "clientIds": client_ids}

    def _apply_webhook(self, item: DeclaredWebhook) -> None:
        """Webhooks have no operations, so the form of the back office validates and saves them."""
        row = WebhookEndpoint.objects.filter(name=item.name).first()
        form = EndpointForm(item.model_dump(), instance=row)
        if not form.is_valid():
            errors = [
                FieldError(InvalidRequest.code, str(message), pointer=f"#/{name}")
                for name, messages in form.errors.items()
                for message in messages
            ]
            raise InvalidRequest(errors=errors)
        if row is not None and not form.has_changed():
            return
        with recorded(self._changes.call) as administration:
            if row is not None:
                administration.watch_row(row)
            saved = form.save()
            if row is None:
                administration.note_new_row(saved)
                self.secrets["webhooks"][item.name] = {"secret": saved.secret}
        self._changes.made += administration.made

    def _create_or_update(self, resource: str, row: Model | None, document: Mapping[str, Any]) -> Any:
        """Create the row, or change the members that differ; return its record."""
        if row is None:
            return self._changes.perform(f"{resource}.create", body=document)
        record = self._read(resource, row)
        different = {name: value for name, value in document.items() if not _is_same(name, value, record)}
        if not different:
            return record
        return self._changes.perform(f"{resource}.update", id=record["id"], body=different)

    def _read(self, resource: str, row: Model) -> Any:
        id = find_audited_model(resource).id_of(row)
        return find_operation(f"{resource}.read").function(self._changes.call, id=id)


def _json(item: Body, *without: str) -> dict[str, Any]:
    return item.model_dump(mode="json", by_alias=True, exclude=set(without))


def _password(item: DeclaredDirectory) -> dict[str, str]:
    return {"bindPassword": item.bind_password.read("bindPassword")}


def _id_of(model: type[Model], name: str, member: str) -> str:
    """The id of the row with that name; raises InvalidRequest naming the member."""
    row = model._default_manager.filter(name=name).first()
    if row is None:
        raise invalid_member(member, f"there is no {model._meta.verbose_name} called {name}")
    return str(row.pk)


def _find_key(item: DeclaredKey) -> ApiKey | None:
    """The key with that name and owner, if any; raises Conflict if there are several, or only revoked ones."""
    keys = ApiKey.objects.filter(name=item.name, owner__username=item.owner)
    usable = list(keys.filter(revoked_at__isnull=True))
    if len(usable) > 1:
        raise Conflict(f"{item.owner} has several keys of this name.")
    if not usable and keys.exists():
        raise Conflict("The key was revoked. Delete it, or take it out of the file.")
    return usable[0] if usable else None


def _is_same(name: str, wanted: Any, record: Mapping[str, Any]) -> bool:
    """Whether a member of a body equals the record's, ignoring the order of permissions, scopes and groups."""
    match name:
        case "permissions":
            return set(wanted) == set(record[name])
        case "scopes":
            return _are_same_objects(wanted, record["scopeObjects"])
        case "directoryGroups":
            directories = {item["directory"] for item in wanted} | {item["directory"] for item in record[name]}
            return all(
                _are_same_objects(
                    [item["group"] for item in wanted if item["directory"] == directory],
                    [item for item in record[name] if item["directory"] == directory],
                )
                for directory in directories
            )
        case _:
            return bool(wanted == record.get(name))


def _are_same_objects(texts: Sequence[str], kept: Iterable[Mapping[str, str]]) -> bool:
    known = [(UUID(item["id"]), _parse_reference(item["distinguishedName"])) for item in kept]
    given = {_parse_reference(text) for text in texts}
    return len(given) == len(known) and all(given & set(names) for names in known)


def _parse_reference(text: str) -> UUID | DistinguishedName | str:
    """A reference in a form that can be compared, whatever its spelling."""
    try:
        return UUID(text.strip())
    except ValueError:
        pass
    try:
        return DistinguishedName.parse(text.strip())
    except InvalidValue:
        return text


def merge_changes(made: Iterable[RowChange]) -> list[RowChange]:
    """One change per row, from its first state to its last; rows that end up unchanged are left out."""
    rows: dict[tuple[str, UUID], RowChange] = {}
    for item in made:
        key = (item.table.resource, item.id)
        before = rows[key].before if key in rows else item.before
        rows[key] = RowChange(table=item.table, id=item.id, before=before, after=item.after)
    return [item for item in rows.values() if item.changes]


def find_undeclared(declared: Declarations) -> list[str]:
    """The rows that the file does not name, as they would stand in one."""
    keys = ApiKey.objects.filter(revoked_at__isnull=True).values_list("name", "owner__username").order_by("name")
    known = {(key.name, key.owner) for key in declared.keys.values()}
    tables: tuple[tuple[str, type[Model]], ...] = (
        ("directories", DirectoryConnection),
        ("roles", Role),
        ("groups", Group),
        ("webhooks", WebhookEndpoint),
    )
    others = [
        f'{section}."{name}"'
        for section, model in tables
        for name in model._default_manager.order_by("name").values_list("name", flat=True)
        if name not in getattr(declared, section)
    ]
    return others + [f'keys."{name}" of {owner}' for name, owner in keys if (name, owner) not in known]
