"""What migrations are made of: the tables as Django declares them, and none of the gateway's own code.

A migration runs for years, and the code that it would import moves and changes. So what Python alone knows of a field
(a default that is a function of ours, a validator, a choice of rows) is left out of the state that migrations are
compared with and written from. The database knows nothing of it either; where a new column needs a value in rows that
are there already, `db_default` gives it. What a data migration needs of our code it keeps in a module beside it.
"""

from typing import Any, Final

from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.questioner import MigrationQuestioner
from django.db.migrations.state import ProjectState
from django.db.models import Field
from django.utils.module_loading import import_string

OWN_PACKAGES: Final = frozenset(
    {"console", "operations", "gateway", "approvals", "keys", "directory", "audit", "core", "active_directory"}
)


class Autodetector(MigrationAutodetector):
    """Django's own, which compares the migrations with the models as `without_own_code` has them."""

    def __init__(
        self, from_state: ProjectState, to_state: ProjectState, questioner: MigrationQuestioner | None = None
    ) -> None:
        for model in to_state.models.values():
            model.fields = {name: without_own_code(field) for name, field in model.fields.items()}
        super().__init__(from_state, to_state, questioner)


def without_own_code(field: Field) -> Field:
    """The field with nothing of ours in it; itself where there is nothing."""
    _, path, arguments, options = field.deconstruct()
    kept = {name: _kept(value) for name, value in options.items() if not _is_own(value)}
    if kept == options and path == f"{type(field).__module__}.{type(field).__qualname__}":
        return field
    bare: Field = import_string(path)(*arguments, **kept)
    return bare


def _kept(value: Any) -> Any:
    return [part for part in value if not _is_own(part)] if isinstance(value, list) else value


def _is_own(value: Any) -> bool:
    """Whether a value is a function or a class of ours. A choice of ours, such as a default state, is a plain text."""
    return callable(value) and str(getattr(value, "__module__", "")).partition(".")[0] in OWN_PACKAGES
