"""The gateway's clients in tests: one for each test, but what is the same for all is not done anew by each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

from active_directory import Client, Modification, Modify, Schema
from active_directory.connections.connection import Connection

_DOMAINS = "ldaps://127.0.40."
"""Where the tests' domain controllers are. What is reached through a proxy is never kept."""
_KEPT = 2


class ClientOfTests(Client):
    """Takes over the schema, the naming contexts and the connections of those that ended before it.

    Reading the schema takes a fifth of a second of two processors, and signing in a hundredth: more than many a test
    does besides. What a process keeps of a directory for a while, such as who is protected, is not taken over.
    """

    schemas: ClassVar[dict[str | None, Schema]] = {}
    _contexts: ClassVar[dict[str | None, dict[str, Any]]] = {}
    _connections: ClassVar[dict[Any, list[Connection]]] = {}

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.__dict__.update(self._contexts.get(self.settings.ca_certificate, {}))
        if self.settings.urls[0].startswith(_DOMAINS):
            kept = self._connections.pop(self.settings, [])
            self._pool._idle.extend(kept)
            self._pool._open += len(kept)

    def end(self) -> None:
        """Close it, but for what the next one may take over."""
        found = {name: value for name, value in self.__dict__.items() if name.endswith(("naming_context", "_contexts"))}
        self._contexts.setdefault(self.settings.ca_certificate, {}).update(found)
        pool = self._pool
        with pool._changed:
            fit = [connection for connection in pool._idle if self._may_be_kept(connection)][-_KEPT:]
            for connection in fit:
                pool._idle.remove(connection)
                pool._open -= 1
        for replaced in self._connections.pop(self.settings, []):
            replaced.close()
        self._connections[self.settings] = fit
        self.close()

    @classmethod
    def forget(cls) -> None:
        """Take nothing over from those that have ended: the domain is another one."""
        for connection in chain.from_iterable(cls._connections.values()):
            connection.close()
        for kept in (cls._connections, cls._contexts, cls.schemas):
            kept.clear()

    @staticmethod
    def _may_be_kept(connection: Connection) -> bool:
        return (
            connection.url.startswith(_DOMAINS) and not connection.abandoned and not connection.has_unexpected_input()
        )

    def _load_schema(self) -> Schema:
        domain = self.settings.ca_certificate
        if self._schema.present is not None or domain not in self.schemas:
            self.schemas[domain] = super()._load_schema()
        return self.schemas[domain]


@contextmanager
def impatient(*clients: Client, seconds: float = 2) -> Iterator[None]:
    """What these ask meanwhile is given up so soon: only that, for on a busy machine everything may take as long."""
    before = [(client.settings, client._pool.settings) for client in clients]
    for client in clients:
        hasty = replace(client.settings, connect_seconds=seconds, operation_seconds=seconds)
        client.settings = client._pool.settings = hasty
    try:
        yield
    finally:
        for client, (settings, of_pool) in zip(clients, before, strict=True):
            client.settings, client._pool.settings = settings, of_pool


def titled(user: object, title: bytes) -> Modify:
    return Modify(f"<GUID={user}>", (Modification("replace", "title", (title,)),))
