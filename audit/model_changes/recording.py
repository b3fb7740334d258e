"""Records changes of the gateway's own tables, each in one commit with its record: no record, no change.

The pipeline uses it for operations, and Django admin through `audit.model_changes.recorded_admin`. Changes that nobody
signed in for have calls of their own: by a command, by the gateway itself, by the set-up page.
`audit.model_changes.descriptions` says how each table's rows are described.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Model, ProtectedError, RestrictedError
from django.db.models.deletion import Collector

from audit import log
from audit.chain.seals import TABLE
from audit.model_changes.descriptions import AuditedModel, Facts, RowChange, audited_model_of
from core.call import Call, CredentialKind, CredentialRef, PersonRef, Surface
from core.database.own_rows import lock_record
from core.errors import GatewayError
from core.text.messages import message

_is_open: ContextVar[bool] = ContextVar("administration", default=False)


class AccessNeedsTwo(GatewayError):
    """A change lets somebody do more, so that a second person has to agree (`Approvals:AccessNeedsTwo`).

    `made` are the changes that were rolled back.
    """

    status, code, title = 409, "Approvals.AccessNeedsTwo", "Somebody else has to agree to more access"

    def __init__(self, made: list[RowChange]) -> None:
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
    """The changes that one transaction makes to the gateway's own tables. A row must be watched before it changes."""

    def __init__(self) -> None:
        self._watched: dict[tuple[str, UUID], tuple[AuditedModel, Facts | None]] = {}
        self.made: list[RowChange] = []
        """The changes, once the transaction has compared the rows."""

    def watch(self, table: AuditedModel, id: UUID, *, with_dependents: bool = False) -> None:
        """Remember a row as it is now, and lock it: other transactions that watch it wait.

        `with_dependents` also watches the rows that the database would delete along with it.
        """
        lock_record(table.resource, id)
        self._watched.setdefault((table.resource, id), (table, table.find(id)))
        if with_dependents:
            row = table.rows().filter(**{table.identifier: id if _is_uuid(table) else id.int}).first()
            for dependent in _dependents(row) if row is not None else ():
                if (kind := audited_model_of(type(dependent))) is not None:
                    self.watch(kind, kind.id_of(dependent))

    def watch_row(self, row: Model, *, with_dependents: bool = False) -> None:
        """Watch a row that is at hand; see `watch`."""
        table = _audited_model_of(row)
        self.watch(table, table.id_of(row), with_dependents=with_dependents)

    def note_new(self, table: AuditedModel, id: UUID) -> None:
        """Remember that a row was just created."""
        self._watched.setdefault((table.resource, id), (table, None))

    def note_new_row(self, row: Model) -> None:
        """Remember that this row was just created."""
        table = _audited_model_of(row)
        self.note_new(table, table.id_of(row))

    def compare(self) -> list[RowChange]:
        """The watched rows that are different now."""
        compared = (
            RowChange(table=table, id=id, before=before, after=table.find(id))
            for (_, id), (table, before) in self._watched.items()
        )
        return [item for item in compared if item.changes]


@contextmanager
def recorded(
    call: Call, *watched: Model, operation: str | None = None, approved_by: str | None = None
) -> Iterator[Administration]:
    """Change rows of our own tables inside the block, in one transaction that ends with a record of each changed row.

    `watched` are rows that the block changes; it may watch more. Changes of the operation's own resource are recorded
    under `operation`, others as create, update or delete. Raises NotRecorded, or AccessNeedsTwo if more access waits
    for a second person; either rolls back everything.
    """
    administration = Administration()
    with transaction.atomic():
        for row in watched:
            administration.watch_row(row)
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
    """Whether more access waits: not while a worker applies an approved change, nor for a command on the server."""
    needs_two: bool = settings.CONFIGURATION.Approvals.AccessNeedsTwo
    return needs_two and call.surface is not Surface.WORKER


def _name_of(item: RowChange, operation: str | None) -> str:
    if operation is not None and operation.partition(".")[0] == item.table.resource:
        return operation
    return f"{item.table.resource}.{item.action}"


def _audited_model_of(row: Model) -> AuditedModel:
    model = row._meta.model  # not type(row): `request.user` is a lazy proxy
    table = audited_model_of(model)
    if table is None:
        raise LookupError(f"{model.__name__} is not in log_descriptions: its changes cannot be recorded")
    return table


def _is_uuid(table: AuditedModel) -> bool:
    return table.model._meta.get_field(table.identifier).get_internal_type() == "UUIDField"


def _dependents(row: Model) -> Iterator[Model]:
    """The rows that the database deletes along with this one."""
    collector = Collector(using=row._state.db or "default", origin=row)
    try:
        collector.collect([row])
    except (ProtectedError, RestrictedError):  # the deletion will fail, too
        return
    for rows in (*collector.data.values(), *collector.fast_deletes):
        yield from (each for each in rows if each != row)


@contextmanager
def keeps_own_records() -> Iterator[None]:
    """Allow writes inside the block, which records its changes itself, even under `only_recorded_writes`."""
    token = _is_open.set(True)
    try:
        yield
    finally:
        _is_open.reset(token)


# Django's own statements; it writes no data-modifying CTEs, which this would miss.
_WRITE = re.compile(r'\s*(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM)\s+"?(\w+)', re.IGNORECASE)
_NOT_ADMINISTERED = frozenset(
    {
        *(TABLE, "django_session", "django_admin_log"),
        "gateway_shownonce",
        # written by attempts with codes and passwords
        *("keys_failedsignin", "keys_secondfactor", "keys_recoverycode"),
        *("directory_passwordattempt", "directory_bindpassword"),
    }
)


@contextmanager
def only_recorded_writes() -> Iterator[None]:
    """Refuse every write to the database inside the block that has no record: RuntimeError.

    A safety net under Django admin, where a forgotten override would otherwise change a table silently.
    """

    def guard(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        written = _WRITE.match(sql)
        if written and not _is_open.get() and written[1] not in _NOT_ADMINISTERED:
            raise RuntimeError(f"{written[1]} is written without a record in the operations log")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(guard):
        yield


_COMMAND_LINE = "(command line)"


def call_of_command(name: str) -> Call:
    """The call of a management command. Its changes never wait: whoever runs it controls the database anyway."""
    return _call(_COMMAND_LINE, f"manage.py {name}")


def is_command(call: Call) -> bool:
    """Whether the caller is a management command, which may do what superusers may."""
    return call.surface is Surface.WORKER and call.person.id == 0 and call.person.username == _COMMAND_LINE


def call_of_gateway(reason: str) -> Call:
    """The call for what the gateway does by itself; `reason` says why."""
    return _call("(gateway)", "gateway", reason)


def call_of_set_up(*, client_address: str, request_id: str) -> Call:
    """The call of somebody who creates the first administrator on the set-up page with the code from the server log."""
    return replace(_call("(set-up)", "set-up"), client_address=client_address or None, request_id=request_id)


def _call(owner: str, credential: str, reason: str | None = None) -> Call:
    """A call without a person. No local account and nobody from a directory can have such a user name."""
    return Call(
        surface=Surface.WORKER,
        person=PersonRef(id=0, username=owner, display_name=owner.strip("()").capitalize()),
        credential=CredentialRef(kind=CredentialKind.SESSION, id=credential),
        permissions=frozenset(),
        reason=reason,
    )
