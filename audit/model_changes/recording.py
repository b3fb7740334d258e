"""Changes of the gateway's own tables, each with its record, in one commit: no record, no change.

The pipeline comes here for the operations, Django admin by `audit.model_changes.recorded_admin`, commands by
`commands`. What is told of the rows of each table is declared in `audit.model_changes.descriptions`.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Model, ProtectedError, RestrictedError
from django.db.models.deletion import Collector

from audit import log
from audit.chain.append_only import TABLE
from audit.model_changes.descriptions import AuditedModel, Changed, Facts, audited_model_of
from core.call import Call, Surface
from core.errors import GatewayError
from core.text.messages import message
from core.versions import lock_record

_is_open: ContextVar[bool] = ContextVar("administration", default=False)


class AccessNeedsTwo(GatewayError):
    """A change lets somebody do more, and a second person has to agree (`Approvals:AccessNeedsTwo`).

    `made` is what the change would come to; nothing of it was kept.
    """

    status, code, title = 409, "Approvals.AccessNeedsTwo", "Somebody else has to agree to more access"

    def __init__(self, made: list[Changed]) -> None:
        reasons = [reason for item in made for reason in item.widened_access]
        super().__init__(
            message(
                "This gives more access: {reasons}. Ask for it in the console or by /rest, where it waits until a "
                "second person has approved it.",
                reasons="; ".join(reasons),
            )
        )
        self.made = made
        self.reasons = reasons


class Administration:
    """What one transaction does to the gateway's own tables. Whatever is to be changed is watched before it is."""

    def __init__(self) -> None:
        self._watched: dict[tuple[str, UUID], tuple[AuditedModel, Facts | None]] = {}
        self.made: list[Changed] = []
        """What became different, once it is recorded."""

    def watch(self, table: AuditedModel, id: UUID, *, with_dependents: bool = False) -> None:
        """Note how a row is now; others who change it wait.

        `with_dependents` notes what the database would delete along with it, too.
        """
        lock_record(table.resource, id)
        self._watched.setdefault((table.resource, id), (table, table.find(id)))
        if with_dependents:
            row = table.rows().filter(**{table.identifier: id if _is_uuid(table) else id.int}).first()
            for dependent in _dependents(row) if row is not None else ():
                if (kind := audited_model_of(type(dependent))) is not None:
                    self.watch(kind, kind.id_of(dependent))

    def watch_row(self, row: Model, *, with_dependents: bool = False) -> None:
        """The same by its row."""
        table = _audited_model_of(row)
        self.watch(table, table.id_of(row), with_dependents=with_dependents)

    def note_new(self, table: AuditedModel, id: UUID) -> None:
        """Note that a row was just made."""
        self._watched.setdefault((table.resource, id), (table, None))

    def note_new_row(self, row: Model) -> None:
        """The same by its row."""
        table = _audited_model_of(row)
        self.note_new(table, table.id_of(row))

    def compare(self) -> list[Changed]:
        """What is different by now."""
        compared = (
            Changed(table=table, id=id, before=before, after=table.find(id))
            for (_, id), (table, before) in self._watched.items()
        )
        return [item for item in compared if item.changes]


@contextmanager
def recorded(call: Call, *, operation: str | None = None, approved_by: str | None = None) -> Iterator[Administration]:
    """Change own tables in one transaction that ends with a record of each row that became different.

    `operation` is what is done to the things of its resource; of others the log says created, updated or deleted.
    Raises NotRecorded, or AccessNeedsTwo where more access waits for a second person: then nothing is changed.
    """
    administration = Administration()
    with transaction.atomic():
        with keeps_own_records():
            yield administration
        made = administration.made = administration.compare()
        if any(item.widened_access for item in made) and _waits(call):
            raise AccessNeedsTwo(made)
        for item in made:
            log.record_administration(
                call,
                operation=_name_of(item, operation),
                target=log.TargetRef(id=item.id, kind=item.table.resource, distinguished_name=item.name),
                changes=item.changes,
                raised_access=item.widened_access,
                approved_by=approved_by,
            )


def _waits(call: Call) -> bool:
    """Whether more access waits: not while an approved change is applied, nor for who sits at the machine itself."""
    needs_two: bool = settings.CONFIGURATION.Approvals.AccessNeedsTwo
    return needs_two and call.surface is not Surface.WORKER


def _name_of(item: Changed, operation: str | None) -> str:
    if operation is not None and operation.partition(".")[0] == item.table.resource:
        return operation
    return f"{item.table.resource}.{item.action}"


def _audited_model_of(row: Model) -> AuditedModel:
    model = row._meta.model  # `request.user` is only a stand-in for its row
    table = audited_model_of(model)
    if table is None:
        raise LookupError(f"{model.__name__} is not in log_descriptions: its changes cannot be recorded")
    return table


def _is_uuid(table: AuditedModel) -> bool:
    return table.model._meta.get_field(table.identifier).get_internal_type() == "UUIDField"


def _dependents(row: Model) -> Iterator[Model]:
    """What the database deletes along with a row."""
    collector = Collector(using=row._state.db or "default", origin=row)
    try:
        collector.collect([row])
    except (ProtectedError, RestrictedError):  # then it is not deleted
        return
    for found in (*collector.data.values(), *collector.fast_deletes):
        yield from (item for item in found if item != row)


@contextmanager
def keeps_own_records() -> Iterator[None]:
    """For what writes the records of its changes itself, whatever request it comes to light in."""
    token = _is_open.set(True)
    try:
        yield
    finally:
        _is_open.reset(token)


_WRITE = re.compile(r'\s*(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM)\s+"?(\w+)', re.IGNORECASE)
_NOT_ADMINISTERED = frozenset(
    {
        *(TABLE, "django_session", "django_admin_log"),
        "gateway_shownonce",
        # what trying a code or a password writes
        *("keys_failedsignin", "keys_secondfactor", "keys_recoverycode"),
        *("directory_passwordattempt", "directory_bindpassword"),
    }
)


@contextmanager
def only_recorded_writes() -> Iterator[None]:
    """Refuse, in the rest of a request, every write to the database that no record goes with."""

    def guard(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        written = _WRITE.match(sql)
        if written and not _is_open.get() and written[1] not in _NOT_ADMINISTERED:
            raise RuntimeError(f"{written[1]} is written without a record in the operations log")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(guard):
        yield
