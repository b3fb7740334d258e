"""The gateway's own tables (keys, roles, people, connections …) as the operations log tells of their rows.

Each app declares its own in `<app>/log_descriptions.py`: what is shown of one, under the names of the API, and which
changes of it let somebody do more than before. What records them is `audit.model_changes`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
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
    """A value that is compared and never shown; an empty one is none."""

    value: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A row as it is at a moment.

    `shown` holds its values by the names that the API uses: text, flags, moments, lists of these, or a Secret; an empty
    value is none. `access` is what it lets people or keys do: numbers, text and tuples in a fixed order by what they
    are, or None where it lets nobody do anything.
    """

    name: str
    shown: Mapping[str, Any]
    access: Mapping[str, Any] | None = None


def columns_of(row: Model, *names: str) -> dict[str, Any]:
    """What is shown of a row's columns: of those named, or of all that can be edited. Encrypted ones are secrets."""
    columns = [column for column in row._meta.concrete_fields if column.name in names] or [
        column for column in row._meta.concrete_fields if column.editable and not column.is_relation
    ]
    return {to_camel(column.name): _value(row, column) for column in columns}


def _value(row: Model, column: "Field[Any, Any]") -> Any:
    value = getattr(row, column.attname)
    return Secret(value) if isinstance(column, EncryptedTextField) else value


Describe = Callable[[Any], Facts]
WidenedAccess = Callable[[Any, Any], list[str]]
"""The access before (None for a new row) and after (None for a deleted one) → in words, what became more."""


def _widens_nothing(_before: Any, _after: Any) -> list[str]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedModel:
    """A table of the gateway's own: the resource of its operations, its model, and how a row is described.

    `one` is what people call a row, with its article.
    `identifier` is the field that names a row: a UUID, or a number, which is then the last digits of a UUID.
    """

    resource: str
    model: type[Model]
    one: Message
    describe: Describe
    widened_access: WidenedAccess
    identifier: str
    rows: Callable[[], QuerySet[Any]]

    @property
    def gives_access(self) -> bool:
        """Whether a change of one can let somebody do more."""
        return self.widened_access is not _widens_nothing

    def id_of(self, row: Model) -> UUID:
        """The identifier by which the log knows a row."""
        value = getattr(row, self.identifier)
        return value if isinstance(value, UUID) else UUID(int=int(value))

    def find(self, id: UUID) -> Facts | None:
        """What the database says of one now; None when there is none."""
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
    identifier: str = "id",
    hidden: Iterable[str] = (),
) -> Callable[[F], F]:
    """Declare how a row of a table is told. `hidden` columns are not read: they are large, or nobody's business."""

    def declare(describe: F) -> F:
        if resource in _tables or any(table.model is model for table in _tables.values()):
            raise ValueError(f"{resource} or its table is declared already")
        _tables[resource] = AuditedModel(
            resource=resource,
            model=model,
            one=one,
            describe=describe,
            widened_access=widened_access,
            identifier=identifier,
            rows=lambda: model._base_manager.defer(*hidden),
        )
        return describe

    return declare


def find_audited_model(resource: str) -> AuditedModel:
    """The table of that resource; KeyError when there is none."""
    return _tables[resource]


def audited_model_of(model: type[Model]) -> AuditedModel | None:
    """What was declared of a model, if anything was."""
    return next((table for table in _tables.values() if table.model is model), None)


def names_of_changes() -> list[str]:
    """The names under which changes of own tables are recorded, beside those of operations."""
    return [f"{resource}.{action}" for resource in _tables for action in ("create", "update", "delete")]


def label_of_change(resource: str, action: str) -> Message | None:
    """What people call a change of an own table that no operation makes, such as `Create {a webhook endpoint}`."""
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
class Changed:
    """One row that became different. `before` is None for a new one, `after` for a deleted one."""

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
        """What was done to it, where nothing says more."""
        return "create" if self.before is None else "delete" if self.after is None else "update"

    @property
    def widened_access(self) -> list[str]:
        """In words, what somebody may do now and could not do before."""
        before = self.before.access if self.before else None
        return [] if self.after is None else self.table.widened_access(before, self.after.access)

    @property
    def changes(self) -> list[ChangeJson]:
        """What is different, secrets as `<secret>`."""
        before, after = _values(self.before), _values(self.after)
        names = list(dict.fromkeys([*before, *after]))
        return [
            {"attribute": name, "before": _shown(before.get(name)), "after": _shown(after.get(name))}
            for name in names
            if _raw(before.get(name)) != _raw(after.get(name))
        ]

    def fingerprint(self) -> list[Any]:
        """What the change begins from and comes to, for comparing two attempts at it. New identifiers are left out."""
        names = [change["attribute"] for change in self.changes]
        before = _values(self.before)
        return [
            self.table.resource,
            str(self.id) if self.before else None,
            {name: _raw(before.get(name)) for name in names},
            [facts.access if facts else None for facts in (self.before, self.after)],
        ]


def fingerprint_of(made: Iterable[Changed]) -> str:
    """The same for the same changes from the same state, different when anything of it is."""
    canonical = json.dumps([item.fingerprint() for item in made], sort_keys=True, default=str)
    return sha256(canonical.encode()).hexdigest()


def _values(facts: Facts | None) -> Mapping[str, Any]:
    return facts.shown if facts else {}


def _raw(value: Any) -> list[str]:
    """The texts that a value of a row is compared by."""
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
