"""From a stored connection to a pooled LDAP client of this process, and the test of a connection.

Whether a caller may use a connection is read by `keys` at each request; what is kept here is only how to reach it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import F
from django.utils import timezone

from active_directory import Client, Opener, ServerSettings, open_connection
from directory.lookup.preferred_controller import agreement_of
from directory.models import DirectoryConnection

REVISION_SECONDS = 1.0
"""For how long the revision of a connection is believed before it is read again."""


@dataclass(slots=True)
class _Known:
    client: Client
    revision: int
    read_at: float


_clients: dict[UUID, _Known] = {}
_lock = threading.Lock()


def get_client(connection_id: UUID) -> Client:
    """The client of a connection: one per process and revision; raises DirectoryConnection.DoesNotExist."""
    known = _clients.get(connection_id)
    if known is not None and monotonic() - known.read_at < REVISION_SECONDS:
        return known.client
    row = DirectoryConnection.objects.get(pk=connection_id)
    with _lock:
        known = _clients.get(connection_id)
        if known is None or known.revision != row.revision:
            if known is not None:
                known.client.close()
            client = Client(server_settings(row), _opener_of(row), agreement_of(row.pk, row.urls))
            known = _clients[connection_id] = _Known(client, row.revision, 0)
        known.read_at = monotonic()
    return known.client


_opener_of: Callable[[DirectoryConnection], Opener] = lambda _: open_connection  # noqa: E731 - exchanged as a whole


def sign_in_by(opener_of: Callable[[DirectoryConnection], Opener]) -> None:
    """Have the clients that are made from now on open their connections so; once for each process, as it starts."""
    global _opener_of  # noqa: PLW0603 - one for the process
    _opener_of = opener_of


def load_schemas_soon() -> None:
    """Begin to read the schemas of the enabled connections: a process that has just started waits less for them."""
    threading.Thread(target=_begin_to_load_schemas, name="schemas", daemon=True).start()


def _begin_to_load_schemas() -> None:
    with closing(connection), suppress(DatabaseError):  # whoever needs a schema reads it then
        for id in DirectoryConnection.objects.filter(enabled=True).values_list("pk", flat=True):
            with suppress(DirectoryConnection.DoesNotExist):
                get_client(id).load_schema_soon()


def server_settings(row: DirectoryConnection) -> ServerSettings:
    """The LDAP layer's settings for a connection."""
    limits = settings.CONFIGURATION.Directory
    return ServerSettings(
        urls=tuple(row.urls),
        base_dn=row.base_dn,
        bind_dn=row.bind_dn,
        # Without a password nobody signs in, and nothing is sent.
        bind_password=row.bind_password if row.is_bind_password_sealed else "",
        other_passwords=tuple(other_passwords(row)) if row.is_bind_password_sealed else (),
        ca_certificate=row.ca_certificate or None,
        start_tls=row.start_tls,
        connect_seconds=limits.ConnectSeconds,
        operation_seconds=limits.OperationSeconds,
        pool_size=limits.PoolSize,
    )


class _BindNames:
    """What is known of the connections' bind names; `forget` makes the next look-up read them."""

    def __init__(self) -> None:
        self._known: tuple[tuple[DirectoryConnection, ...], float] = (), 0.0

    def get(self) -> tuple[DirectoryConnection, ...]:
        rows, until = self._known
        if monotonic() >= until:
            until = monotonic() + REVISION_SECONDS
            columns = ("name", "bind_dn", "bind_account", "bind_account_learnt_for")
            rows = tuple(DirectoryConnection.objects.order_by("name").only(*columns))
            self._known = rows, until
        return rows

    def forget(self) -> None:
        self._known = (), 0.0


_bind_names = _BindNames()


def bind_names() -> tuple[DirectoryConnection, ...]:
    """All connections, enabled or not, as they were at most REVISION_SECONDS ago.

    Only with their names and bind names, and the SID of the account that the bind name stood for when that was learnt.
    """
    return _bind_names.get()


def learn_bind_account(row: DirectoryConnection, account: str) -> None:
    """Keep the SID of the account that a bind name stands for, by which it is known when it is called otherwise."""
    if (row.bind_account, row.bind_account_learnt_for) != (account, row.bind_dn):
        unchanged = DirectoryConnection.objects.filter(pk=row.pk, bind_dn=row.bind_dn)
        unchanged.update(bind_account=account, bind_account_learnt_for=row.bind_dn)
        _bind_names.forget()


def count_protection_change() -> None:
    """Let every process know that what it knows of who is protected is outdated.

    All connections count it, for several may lead to one domain. They are locked in one order, until the caller's
    transaction ends.
    """
    with transaction.atomic(savepoint=False):
        every = list(DirectoryConnection.objects.select_for_update().order_by("pk").values_list("pk", flat=True))
        DirectoryConnection.objects.filter(pk__in=every).update(protection_changes=F("protection_changes") + 1)


def connection_of(client: Client) -> UUID | None:
    """The connection that a client is that of; None for one that was not made by `get_client`."""
    with _lock:
        return next((id for id, known in _clients.items() if known.client is client), None)


PREVIOUS_PASSWORD_FOR = timedelta(hours=1)
"""How long after a rotation a domain controller may not have heard of it."""


def other_passwords(row: DirectoryConnection) -> Iterator[str]:
    """What the account's password may be besides: while it is being changed, and until every server knows of it."""
    if row.pending_bind_password:
        yield row.pending_bind_password
    if row.previous_bind_password and row.rotated_at and timezone.now() - row.rotated_at < PREVIOUS_PASSWORD_FOR:
        yield row.previous_bind_password
