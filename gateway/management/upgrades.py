"""What an upgrade will do to the tables, told beforehand, and whether the processes that run may go on meanwhile.

Those of the release before know the columns that it made. They write none of the newer ones, so each of these needs
null or a default of the database's own (`db_default`), and what they read and write must keep its name. A rename
therefore takes two releases: the first makes the new place and writes both, the second drops the old one.

What code of its own does in a migration (`RunPython`, `RunSQL`), or what a constraint refuses, nobody can tell from
outside. Such a migration says in `rolling` why the processes of the release before may go on:

    class Migration(migrations.Migration):
        rolling = "The triggers are made again as they were."

What holds others up is told of PostgreSQL, by its documentation of ALTER TABLE (Notes) and CREATE INDEX.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState, ProjectState
from django.db.models.expressions import Value

_HARMLESS: Final = (
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
    migrations.AlterModelTableComment,
    migrations.RemoveIndex,
    migrations.RenameIndex,
    migrations.RemoveConstraint,
    RemoveIndexConcurrently,
)
_BUILDS: Final = "builds an index; changes of the table wait until it is there"
_READS: Final = "reads the whole table; everybody else waits meanwhile"
_REWRITES: Final = "writes the whole table anew; everybody else waits meanwhile"
_UNKNOWN: Final = "takes as long as its code does"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is done to a table (None where that cannot be told).

    `slow` says how it holds others up where the table is large, None if it does not. `breaks` says why processes of the
    release before cannot go on, None if they can.
    """

    table: str | None
    does: str
    slow: str | None = None
    breaks: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A migration that is still to be applied, as `app.name`, and its steps."""

    name: str
    steps: tuple[Step, ...]

    @property
    def breaks(self) -> list[str]:
        """Why processes of the release before cannot go on."""
        return [f"{step.does}: {step.breaks}" for step in self.steps if step.breaks]


def judge_pending(loader: MigrationLoader, applied: Collection[tuple[str, str]]) -> list[Judged]:
    """All migrations that are not applied, in their order. Processes know the tables that the applied ones made."""
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
            judged.append(Judged(f"{app}.{name}", tuple(_judge(migration, state, known))))
    return judged


def _judge(migration: migrations.Migration, state: ProjectState, known: ProjectState) -> Iterator[Step]:
    """The steps of one migration; the state is what it leaves."""
    is_declared = bool(getattr(migration, "rolling", ""))
    for operation in migration.operations:
        if isinstance(operation, migrations.SeparateDatabaseAndState):
            database = state.clone()
            for each in operation.database_operations:
                yield from _Judge(migration.app_label, database, known, is_declared).steps(each)
                each.state_forwards(migration.app_label, database)
        else:
            yield from _Judge(migration.app_label, state, known, is_declared).steps(operation)
        operation.state_forwards(migration.app_label, state)


class _Judge:
    """`state` is that before the operation, `known` what the processes of the release before know."""

    def __init__(self, app: str, state: ProjectState, known: ProjectState, is_declared: bool) -> None:
        self._app = app
        self._state = state
        self._known = known
        self._is_declared = is_declared

    def steps(self, operation: Operation) -> Iterator[Step]:
        """What the operation does."""
        method = getattr(self, f"_{type(operation).__name__}", None)
        if method is not None:
            yield from method(operation)
        elif not isinstance(operation, _HARMLESS):
            is_code = isinstance(operation, migrations.RunPython | migrations.RunSQL)
            does = "runs code of its own" if is_code else operation.describe()
            undeclared = None if self._is_declared else "its migration does not say that they may go on (`rolling`)"
            yield Step(None, does, _UNKNOWN, undeclared)

    def _CreateModel(self, operation: migrations.CreateModel) -> Iterator[Step]:  # noqa: N802 - named as what it judges
        yield Step(_table(self._app, operation.name, operation.options), "makes the table")

    def _DeleteModel(self, operation: migrations.DeleteModel) -> Iterator[Step]:  # noqa: N802
        breaks = "they use the table" if self._knows(operation.name) else None
        yield Step(self._table(operation.name), "drops the table", None, breaks)

    def _RenameModel(self, operation: migrations.RenameModel) -> Iterator[Step]:  # noqa: N802
        before = self._table(operation.old_name)
        if before != _table(self._app, operation.new_name, self._model(operation.old_name).options):
            yield self._renamed(operation.old_name, "renames the table")

    def _AlterModelTable(self, operation: migrations.AlterModelTable) -> Iterator[Step]:  # noqa: N802
        if self._table(operation.name) != (operation.table or _table(self._app, operation.name, {})):
            yield self._renamed(operation.name, "renames the table")

    def _renamed(self, model: str, does: str) -> Step:
        return Step(self._table(model), does, None, "they use its old name" if self._knows(model) else None)

    def _AddField(self, operation: migrations.AddField) -> Iterator[Step]:  # noqa: N802
        field, table = operation.field, self._table(operation.model_name)
        does = f"adds the column {operation.name}"
        if isinstance(field, models.ManyToManyField):
            yield Step(None, f"makes the table of {operation.name}")
            return
        needs = not (field.null or field.has_db_default() or isinstance(field, models.GeneratedField))
        breaks = "they insert rows without it (`db_default`)" if needs and self._knows(operation.model_name) else None
        yield Step(table, does, _cost_of_new(field), breaks)

    def _RemoveField(self, operation: migrations.RemoveField) -> Iterator[Step]:  # noqa: N802
        breaks = "they use it" if self._knows(operation.model_name, operation.name) else None
        yield Step(self._table(operation.model_name), f"drops the column {operation.name}", None, breaks)

    def _RenameField(self, operation: migrations.RenameField) -> Iterator[Step]:  # noqa: N802
        if self._model(operation.model_name).fields[operation.old_name].db_column is None:
            breaks = "they use its old name" if self._knows(operation.model_name, operation.old_name) else None
            yield Step(self._table(operation.model_name), f"renames the column {operation.old_name}", None, breaks)

    def _AlterField(self, operation: migrations.AlterField) -> Iterator[Step]:  # noqa: N802
        old, new = self._model(operation.model_name).fields[operation.name], operation.field
        is_known = self._knows(operation.model_name, operation.name)
        table, does = self._table(operation.model_name), f"changes the column {operation.name}"
        if _in_database(old) == _in_database(new):
            return
        if old.null and not new.null:
            yield Step(table, f"{does} to NOT NULL", _READS, "they may write none" if is_known else None)
        if new.unique and not old.unique:
            yield Step(table, f"{does} to unique", _BUILDS, "they may write a value again" if is_known else None)
        elif _is_indexed(new) and not _is_indexed(old):
            yield Step(table, does, _BUILDS)
        if old.has_db_default() and not new.has_db_default() and not new.null:
            yield Step(table, f"{does}: no default any more", None, "they may give no value" if is_known else None)
        if type(old) is not type(new) or old.max_length != new.max_length:
            if _is_wider(old, new):
                yield Step(table, f"{does} to longer texts")
            else:
                breaks = "their values may not fit" if is_known else None
                yield Step(table, f"{does} to another type", _REWRITES, breaks)

    def _AddIndex(self, operation: migrations.AddIndex) -> Iterator[Step]:  # noqa: N802
        yield Step(self._table(operation.model_name), f"adds the index {operation.index.name}", _BUILDS)

    def _AddIndexConcurrently(self, operation: AddIndexConcurrently) -> Iterator[Step]:  # noqa: N802
        yield Step(self._table(operation.model_name), f"adds the index {operation.index.name} beside all work")

    def _AddConstraint(self, operation: migrations.AddConstraint) -> Iterator[Step]:  # noqa: N802
        fields = getattr(operation.constraint, "fields", ())
        is_of_theirs = self._knows(operation.model_name) and all(
            self._knows(operation.model_name, name) for name in fields
        )
        breaks = "they may write what it refuses" if is_of_theirs and not self._is_declared else None
        slow = _BUILDS if isinstance(operation.constraint, models.UniqueConstraint) else _READS
        yield Step(self._table(operation.model_name), f"adds the constraint {operation.constraint.name}", slow, breaks)

    def _model(self, name: str) -> ModelState:
        model: ModelState = self._state.models[self._app, name.lower()]
        return model

    def _table(self, name: str) -> str:
        return _table(self._app, name, self._model(name).options)

    def _knows(self, name: str, field: str | None = None) -> bool:
        """Whether the release before uses a table, or a column of it: a state says what its code says."""
        table = self._table(name)
        return any(
            _table(app, model, state.options) == table and (field is None or field in state.fields)
            for (app, model), state in self._known.models.items()
        )


def _table(app: str, model: str, options: dict[str, Any]) -> str:
    return str(options.get("db_table") or f"{app}_{model.lower()}")


def _cost_of_new(field: models.Field) -> str | None:
    """A constant default is kept beside the table; what is computed for each row is written into it."""
    default = field.db_default if field.has_db_default() else None
    is_computed = hasattr(default, "resolve_expression") and not isinstance(default, Value)
    if is_computed or isinstance(field, models.GeneratedField):
        return _REWRITES
    return _BUILDS if field.unique or _is_indexed(field) else None


def _is_indexed(field: models.Field) -> bool:
    return bool(getattr(field, "db_index", False))


def _in_database(field: models.Field) -> tuple[str, Any, dict[str, Any]]:
    """What the database knows of a field."""
    _, path, arguments, options = field.deconstruct()
    return path, arguments, {name: value for name, value in options.items() if name not in field.non_db_attrs}


def _is_wider(old: models.Field, new: models.Field) -> bool:
    """Whether a text may become longer and nothing else: no row is looked at then."""
    if not isinstance(old, models.CharField) or type(new) not in (type(old), models.CharField, models.TextField):
        return False
    return new.max_length is None or (old.max_length is not None and old.max_length <= new.max_length)
