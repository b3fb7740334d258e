"""Forecasts what pending migrations will do to the tables, and keeps our own code out of new migrations.

The forecast also tells whether processes of the previous release can keep running during an upgrade. They do not write
new columns, so each of these must be null or have a default in the database (`db_default`), and they need the columns
that they know under the same names. A rename therefore takes two releases: the first adds the new column and writes
both, the second drops the old one.

Nobody can tell from outside what a migration's code does (`RunPython`, `RunSQL`), or what a constraint refuses. Such a
migration says in `rolling` why processes of the previous release can keep running:

    class Migration(migrations.Migration):
        rolling = "The triggers are made again as they were."

The locks are PostgreSQL's, by its documentation of ALTER TABLE (Notes) and CREATE INDEX.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.apps import AppConfig
from django.apps import apps as global_apps
from django.apps.registry import Apps
from django.contrib.auth.management import create_permissions
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.questioner import MigrationQuestioner
from django.db.migrations.state import ModelState, ProjectState
from django.db.models import Field
from django.db.models.expressions import Value
from django.utils.module_loading import import_string

_HARMLESS = (
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
    migrations.AlterModelTableComment,
    migrations.RemoveIndex,
    migrations.RenameIndex,
    migrations.RemoveConstraint,
    RemoveIndexConcurrently,
)
_BUILDS_INDEX = "builds an index; changes of the table wait until it is there"
_READS_TABLE = "reads the whole table; everybody else waits meanwhile"
_REWRITES_TABLE = "writes the whole table anew; everybody else waits meanwhile"
_UNKNOWN = "takes as long as its code does"


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a table (None if the table is unknown).

    `slow` says how others have to wait if the table is large; None if they do not. `breaks` says why processes of the
    previous release cannot keep running; None if they can.
    """

    table: str | None
    does: str
    slow: str | None = None
    breaks: str | None = None


@dataclass(frozen=True, slots=True)
class PendingMigration:
    """A migration that is not applied yet. Its name is `app.name`."""

    name: str
    steps: tuple[Step, ...]

    @property
    def breaks(self) -> list[str]:
        """Why processes of the previous release cannot keep running; empty if they can."""
        return [f"{step.does}: {step.breaks}" for step in self.steps if step.breaks]


def assess_pending(loader: MigrationLoader, applied: Collection[tuple[str, str]]) -> list[PendingMigration]:
    """Assess all migrations that are not applied, in order. Running processes know the tables of the applied ones."""
    ordered: dict[tuple[str, str], Any] = {}
    for leaf in loader.graph.leaf_nodes():
        ordered |= {node: loader.graph.nodes[node] for node in loader.graph.forwards_plan(leaf)}
    state = ProjectState(real_apps=loader.unmigrated_apps)
    for node, migration in ordered.items():
        if node in applied:
            migration.mutate_state(state, preserve=False)
    known = state.clone()
    judged = []
    for (app, name), migration in ordered.items():
        if (app, name) not in applied:
            judged.append(PendingMigration(f"{app}.{name}", tuple(_assess(migration, state, known))))
    return judged


def _assess(migration: migrations.Migration, state: ProjectState, known: ProjectState) -> Iterator[Step]:
    """Yield the steps of one migration, and apply it to `state`."""
    is_declared = bool(getattr(migration, "rolling", ""))
    for operation in migration.operations:
        if isinstance(operation, migrations.SeparateDatabaseAndState):
            database = state.clone()
            for each in operation.database_operations:
                yield from _OperationAssessor(migration.app_label, database, known, is_declared).steps(each)
                each.state_forwards(migration.app_label, database)
        else:
            yield from _OperationAssessor(migration.app_label, state, known, is_declared).steps(operation)
        operation.state_forwards(migration.app_label, state)


class _OperationAssessor:
    """Assesses an operation. `state` is the one before it, `known` that of the previous release."""

    def __init__(self, app: str, state: ProjectState, known: ProjectState, is_declared: bool) -> None:
        self._app = app
        self._state = state
        self._known = known
        self._is_declared = is_declared

    def steps(self, operation: Operation) -> Iterator[Step]:  # noqa: PLR0912 - a case for each kind of operation
        """Yield the steps of the operation."""
        match operation:
            case migrations.CreateModel():
                yield Step(_table(self._app, operation.name, operation.options), "makes the table")
            case migrations.DeleteModel():
                yield self._step(operation.name, "drops the table", breaks="they use the table")
            case migrations.RenameModel(old_name=model):
                if self._table(model) != _table(self._app, operation.new_name, self._model(model).options):
                    yield self._step(model, "renames the table", breaks="they use its old name")
            case migrations.AlterModelTable(name=model):
                if self._table(model) != (operation.table or _table(self._app, model, {})):
                    yield self._step(model, "renames the table", breaks="they use its old name")
            case migrations.AddField(field=models.ManyToManyField()):
                yield Step(None, f"makes the table of {operation.name}")
            case migrations.AddField(field=field):
                is_given = field.null or field.has_db_default() or isinstance(field, models.GeneratedField)
                breaks = None if is_given else "they insert rows without it (`db_default`)"
                does = f"adds the column {operation.name}"
                yield self._step(operation.model_name, does, _cost_of_new_column(field), breaks)
            case migrations.RemoveField(name=column):
                yield self._step(
                    operation.model_name, f"drops the column {column}", breaks="they use it", column=column
                )
            case migrations.RenameField(old_name=column):
                if self._model(operation.model_name).fields[column].db_column is None:
                    does, breaks = f"renames the column {column}", "they use its old name"
                    yield self._step(operation.model_name, does, breaks=breaks, column=column)
            case migrations.AlterField():
                yield from self._alter_field(operation)
            case AddIndexConcurrently():
                yield self._step(operation.model_name, f"adds the index {operation.index.name} beside all work")
            case migrations.AddIndex():
                yield self._step(operation.model_name, f"adds the index {operation.index.name}", _BUILDS_INDEX)
            case migrations.AddConstraint(model_name=model, constraint=constraint):
                is_known = all(self._is_known(model, name) for name in getattr(constraint, "fields", ()))
                breaks = "they may write what it refuses" if is_known and not self._is_declared else None
                slow = _BUILDS_INDEX if isinstance(constraint, models.UniqueConstraint) else _READS_TABLE
                yield self._step(model, f"adds the constraint {constraint.name}", slow, breaks)
            case _ if not isinstance(operation, _HARMLESS):
                is_code = isinstance(operation, migrations.RunPython | migrations.RunSQL)
                does = "runs code of its own" if is_code else operation.describe()
                undeclared = "its migration does not say that they may go on (`rolling`)"
                yield Step(None, does, _UNKNOWN, None if self._is_declared else undeclared)

    def _alter_field(self, operation: migrations.AlterField) -> Iterator[Step]:
        old, new = self._model(operation.model_name).fields[operation.name], operation.field
        step = partial(self._step, operation.model_name, column=operation.name)
        does = f"changes the column {operation.name}"
        if _database_definition(old) == _database_definition(new):
            return
        if old.null and not new.null:
            yield step(f"{does} to NOT NULL", _READS_TABLE, "they may write none")
        if new.unique and not old.unique:
            yield step(f"{does} to unique", _BUILDS_INDEX, "they may write a value again")
        elif _is_indexed(new) and not _is_indexed(old):
            yield step(does, _BUILDS_INDEX)
        if old.has_db_default() and not new.has_db_default() and not new.null:
            yield step(f"{does}: no default any more", breaks="they may give no value")
        if type(old) is not type(new) or old.max_length != new.max_length:
            if _is_wider(old, new):
                yield step(f"{does} to longer texts")
            else:
                yield step(f"{does} to another type", _REWRITES_TABLE, "their values may not fit")

    def _step(
        self, model: str, does: str, slow: str | None = None, breaks: str | None = None, column: str | None = None
    ) -> Step:
        """A step on a model's table, which only breaks what the previous release knows: the table, or its column."""
        return Step(self._table(model), does, slow, breaks if self._is_known(model, column) else None)

    def _model(self, name: str) -> ModelState:
        model: ModelState = self._state.models[self._app, name.lower()]
        return model

    def _table(self, name: str) -> str:
        return _table(self._app, name, self._model(name).options)

    def _is_known(self, name: str, field: str | None = None) -> bool:
        """Whether the previous release declares a table, or a column of it."""
        table = self._table(name)
        return any(
            _table(app, model, state.options) == table and (field is None or field in state.fields)
            for (app, model), state in self._known.models.items()
        )


def _table(app: str, model: str, options: dict[str, Any]) -> str:
    return str(options.get("db_table") or f"{app}_{model.lower()}")


def _cost_of_new_column(field: models.Field) -> str | None:
    """The cost of a new column: PostgreSQL rewrites the rows only for a computed default, not for a constant one."""
    default = field.db_default if field.has_db_default() else None
    is_computed = hasattr(default, "resolve_expression") and not isinstance(default, Value)
    if is_computed or isinstance(field, models.GeneratedField):
        return _REWRITES_TABLE
    return _BUILDS_INDEX if field.unique or _is_indexed(field) else None


def _is_indexed(field: models.Field) -> bool:
    return bool(getattr(field, "db_index", False))


def _database_definition(field: models.Field) -> tuple[str, Any, dict[str, Any]]:
    """The part of a field's definition that concerns the database."""
    _, path, arguments, options = field.deconstruct()
    return path, arguments, {name: value for name, value in options.items() if name not in field.non_db_attrs}


def _is_wider(old: models.Field, new: models.Field) -> bool:
    """Whether the change only allows longer texts, for which PostgreSQL reads no row."""
    if not isinstance(old, models.CharField) or type(new) not in (type(old), models.CharField, models.TextField):
        return False
    return new.max_length is None or (old.max_length is not None and old.max_length <= new.max_length)


# Migrations must not import the gateway's own code: they run for years, while that code moves and changes. So the parts
# of a field that only Python knows (a default that is our function, a validator, a limit of choices) are left out of
# the state from which migrations are detected and written. A new column gets its value in existing rows by
# `db_default`. A data migration keeps a copy of the code that it needs in a module beside it.

OWN_PACKAGES = frozenset("console operations gateway approvals keys directory audit core active_directory".split())


class Autodetector(MigrationAutodetector):
    """Django's autodetector, comparing migrations with models `without_own_code` and without their permissions."""

    def __init__(
        self, from_state: ProjectState, to_state: ProjectState, questioner: MigrationQuestioner | None = None
    ) -> None:
        for model in to_state.models.values():
            model.fields = {name: without_own_code(field) for name, field in model.fields.items()}
        for model in (*from_state.models.values(), *to_state.models.values()):
            model.options = {name: value for name, value in model.options.items() if name != "permissions"}
        super().__init__(from_state, to_state, questioner)


def create_declared_permissions(app_config: AppConfig, apps: Apps = global_apps, **options: Any) -> None:
    """Create the permissions that the models of an app declare, after `migrate`; those that are there stay as they are.

    Django's own receiver of the signal sees the models as the migrations left them, which know no permissions.
    """
    try:
        models_now = apps.get_app_config(app_config.label).get_models()
    except LookupError:  # the app's tables are not made yet
        return
    for model in models_now:
        with suppress(LookupError):  # on the way to an earlier state, a model may be gone from the code
            model._meta.permissions = app_config.get_model(model.__name__)._meta.permissions
    create_permissions(app_config, apps=apps, **options)


def without_own_code(field: Field) -> Field:
    """Return the field without our own functions and classes; the field itself if it has none."""
    _, path, arguments, options = field.deconstruct()
    kept = {name: _without_own_parts(value) for name, value in options.items() if not _is_own(value)}
    if kept == options and path == f"{type(field).__module__}.{type(field).__qualname__}":
        return field
    bare: Field = import_string(path)(*arguments, **kept)
    return bare


def _without_own_parts(value: Any) -> Any:
    return [part for part in value if not _is_own(part)] if isinstance(value, list) else value


def _is_own(value: Any) -> bool:
    """Whether a value is one of our functions or classes. A member of our enumerations is a plain text and stays."""
    return callable(value) and str(getattr(value, "__module__", "")).partition(".")[0] in OWN_PACKAGES
