"""How the operations log describes rows of the gateway's own tables (keys, roles, people, connections …).

Each app declares its tables in `<app>/log_descriptions.py`: what the log shows of a row, under the names of the API,
and which changes let somebody do more than before. `audit.model_changes.recording` records the changes.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Field, Model, QuerySet
from pydantic.alias_generators import to_camel

from audit.redact import SECRET, ChangeJson
from core.secrets.encryption import EncryptedTextField
from core.shapes import render_timestamp
from core.text.messages import Message, message

_LARGEST_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is compared and never shown; "" means that there is none."""

    value: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A row at one point in time.

    `shown` holds its values under the API's names: text, booleans, datetimes, lists of these, or a Secret; an empty
    value counts as none. `access` is what the row lets people or keys do, as JSON values and tuples in a fixed order;
    None if it gives no access.
    """

    name: str
    shown: Mapping[str, Any]
    access: Mapping[str, Any] | None = None


def columns_of(row: Model) -> dict[str, Any]:
    """Values of a row's columns for `Facts.shown`, as its table declares them. Encrypted columns are secrets."""
    table = audited_model_of(type(row))
    assert table is not None
    return {to_camel(column.name): _value(row, column) for column in table.shown_columns}


def _value(row: Model, column: "Field[Any, Any]") -> Any:
    value = getattr(row, column.attname)
    return Secret(value) if isinstance(column, EncryptedTextField) else value


Describe = Callable[[Any], Facts]
WidenedAccess = Callable[[Any, Any], list[str]]
"""Called with the access before (None for a new row) and after; says what became more."""


def _widens_nothing(_before: Any, _after: Any) -> list[str]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedModel:
    """One of the gateway's own tables: the resource of its operations, its model, and how to describe a row.

    `one` is what people call a row, with its article. `identifier` is the field that identifies a row: a UUID, or an
    integer, which the log stores as a UUID of that value. The log shows the `columns` of a row, or all editable ones if
    none are named, and the further `members` that `describe` returns. `access_without` is what a deleted row leaves.
    """

    resource: str
    model: type[Model]
    one: Message
    columns: tuple[str, ...]
    members: tuple[str, ...]
    describe: Describe
    widened_access: WidenedAccess
    access_without: Mapping[str, Any] | None
    identifier: str
    rows: Callable[[], QuerySet[Any]]

    @property
    def shown_columns(self) -> list["Field[Any, Any]"]:
        fields = self.model._meta.concrete_fields
        if self.columns:
            return [field for field in fields if field.name in self.columns]
        return [field for field in fields if field.editable and not field.is_relation]

    @property
    def shown_members(self) -> list[str]:
        """The possible names in `Facts.shown`, which need words in both languages."""
        return [*(to_camel(column.name) for column in self.shown_columns), *self.members]

    @property
    def gives_access(self) -> bool:
        """Whether a change of a row can let somebody do more."""
        return self.widened_access is not _widens_nothing

    def id_of(self, row: Model) -> UUID:
        """The UUID by which the log knows a row."""
        value = getattr(row, self.identifier)
        return value if isinstance(value, UUID) else UUID(int=int(value))

    def find(self, id: UUID) -> Facts | None:
        """Describe a row as it is in the database now; None if there is none."""
        value: UUID | int = id
        if self.model._meta.get_field(self.identifier).get_internal_type() != "UUIDField":
            value = id.int
            if value > _LARGEST_NUMBER:
                return None
        row = self.rows().filter(**{self.identifier: value}).first()
        return None if row is None else self.describe(row)


_tables: dict[str, AuditedModel] = {}

F = TypeVar("F", bound=Describe)


def audited_model(
    resource: str,
    model: type[Model],
    *,
    one: Message,
    widened_access: WidenedAccess = _widens_nothing,
    access_without: Mapping[str, Any] | None = None,
    identifier: str = "id",
    columns: tuple[str, ...] = (),
    members: tuple[str, ...] = (),
    hidden: Iterable[str] = (),
) -> Callable[[F], F]:
    """Declare a function that describes rows of a table. `hidden` columns, large or private, are not read."""

    def declare(describe: F) -> F:
        if resource in _tables or any(table.model is model for table in _tables.values()):
            raise ValueError(f"{resource} or its table is declared already")
        _tables[resource] = AuditedModel(
            resource=resource,
            model=model,
            one=one,
            columns=columns,
            members=members,
            describe=describe,
            widened_access=widened_access,
            access_without=access_without,
            identifier=identifier,
            rows=lambda: model._base_manager.defer(*hidden),
        )
        return describe

    return declare


def find_audited_model(resource: str) -> AuditedModel:
    """The table of that resource. Raises KeyError."""
    return _tables[resource]


def audited_model_of(model: type[Model]) -> AuditedModel | None:
    """The declaration of a model's table, if any."""
    return next((table for table in _tables.values() if table.model is model), None)


def audited_models() -> Iterator[AuditedModel]:
    """All declared tables."""
    yield from _tables.values()


def change_operations() -> list[str]:
    """The operation names of changes of our own tables that no operation makes, such as those in Django admin."""
    return [f"{resource}.{action}" for resource in _tables for action in ("create", "update", "delete")]


def label_of_change(resource: str, action: str) -> Message | None:
    """The label of a change that no operation makes, such as `Create {a webhook endpoint}`; None if unknown."""
    if resource not in _tables:
        return None
    one = _tables[resource].one
    labels = {
        "create": message("Create {{{object}}}", object=one),
        "update": message("Update {{{object}}}", object=one),
        "delete": message("Delete {{{object}}}", object=one),
    }
    return labels.get(action)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """The change of one row. `before` is None for a new one, `after` for a deleted one."""

    table: AuditedModel
    id: UUID
    before: Facts | None
    after: Facts | None

    @property
    def name(self) -> str:
        facts = self.after or self.before
        return facts.name if facts else ""

    @property
    def action(self) -> str:
        """The action to record unless an operation names it."""
        return "create" if self.before is None else "delete" if self.after is None else "update"

    @property
    def widened_access(self) -> list[str]:
        """What somebody may do now and could not do before, in words."""
        before = self.before.access if self.before else None
        if self.after is None and self.table.access_without is None:
            return []
        return self.table.widened_access(before, self.after.access if self.after else self.table.access_without)

    @property
    def changes(self) -> list[ChangeJson]:
        """The values that changed, with secrets as `<secret>`."""
        before, after = _values(self.before), _values(self.after)
        names = list(dict.fromkeys([*before, *after]))
        return [
            {"attribute": name, "before": _shown(before.get(name)), "after": _shown(after.get(name))}
            for name in names
            if _raw(before.get(name)) != _raw(after.get(name))
        ]

    def fingerprint(self) -> list[Any]:
        """The state before and the access before and after, to compare two attempts. Leaves new identifiers out."""
        names = [change["attribute"] for change in self.changes]
        before = _values(self.before)
        return [
            self.table.resource,
            str(self.id) if self.before else None,
            {name: _raw(before.get(name)) for name in names},
            [facts.access if facts else None for facts in (self.before, self.after)],
        ]


def fingerprint_of(changes: Iterable[RowChange]) -> str:
    """A SHA-256 in hex that is equal only for the same changes from the same state."""
    canonical = json.dumps([change.fingerprint() for change in changes], sort_keys=True, default=str)
    return sha256(canonical.encode()).hexdigest()


def _values(facts: Facts | None) -> Mapping[str, Any]:
    return facts.shown if facts else {}


def _raw(value: Any) -> list[str]:
    """A value as the texts by which it is compared."""
    match value:
        case Secret():
            return _raw(value.value)
        case None | "":
            return []
        case bool():
            return ["true" if value else "false"]
        case datetime():
            return [render_timestamp(value) or ""]
        case list() | tuple():
            return [str(item) for item in value]
    return [str(value)]


def _shown(value: Any) -> list[str]:
    return [SECRET for _ in _raw(value)] if isinstance(value, Secret) else _raw(value)
