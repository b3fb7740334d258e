"""Measures single reads: people and scratch accounts, on one connection and on eight, with If-None-Match, by agents.

An agent's `read_object` call is measured against the same read on `/api`, in both generations of the protocol.
"""

import json
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import ldap

from bench.client import Client, expect, in_threads
from bench.servers import Domain, Gateway, running_web
from bench.turns import RAW, Figure, Measure, Way
from lab.directory import Connection

ATTRIBUTES = ["cn", "displayName", "mail", "sAMAccountName", "userPrincipalName", "department", "title"]
"""The attributes that are read."""
ACCOUNTS = 50
_RECORDED_WITHIN = 1.2
"""How long it takes until a read is recorded."""

Accounts = Callable[[Domain, int], list[uuid.UUID]]


def people(domain: Domain, count: int) -> list[uuid.UUID]:
    """Enabled accounts with passwords and groups, in a domain with password settings objects."""
    return domain.find_people(count)


def scratch(domain: Domain, count: int) -> list[uuid.UUID]:
    """Disabled accounts in no group."""
    return domain.add_users(domain.add_unit("Reads"), count)


def path_of(item: uuid.UUID) -> str:
    return f"/api/ad/users/{item}?attributes={','.join(ATTRIBUTES)}"


def raw_reads(domain: Domain, ids: Sequence[uuid.UUID], connections: int, each: int) -> Way:
    def read(connection: Connection) -> None:
        for number in range(each):
            connection.search_ext_s(f"<GUID={ids[number % len(ids)]}>", ldap.SCOPE_BASE, attrlist=ATTRIBUTES)

    opened = [domain.bind() for _ in range(connections)]
    return Way(partial(in_threads, [partial(read, connection) for connection in opened]))


def gateway_reads(
    gateway: Gateway, ids: Sequence[uuid.UUID], connections: int, each: int, *, url: str | None = None
) -> Way:
    paths = [path_of(item) for item in ids]

    def read(client: Client) -> None:
        for number in range(each):
            expect(client.send("GET", paths[number % len(paths)]))

    clients = [Client(gateway, url) for _ in range(connections)]
    return Way(partial(in_threads, [partial(read, client) for client in clients]))


def _known_reads(gateway: Gateway, ids: Sequence[uuid.UUID], each: int) -> Way:
    """Conditional reads of objects that the client already has."""
    client = Client(gateway)
    known = [
        (path_of(item), f"If-None-Match: {expect(client.send('GET', path_of(item))).header('ETag')}\r\n")
        for item in ids
    ]

    def read() -> None:
        for number in range(each):
            path, header = known[number % len(known)]
            expect(client.send("GET", path, headers=header), 304)

    return Way(read)


def measure_reads(accounts: Accounts, connections: int, count: int) -> Measure:
    """Reads of these accounts on a number of connections, `count` reads per round in total."""
    each = count // connections

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        ids = accounts(domain, min(ACCOUNTS, count))
        ways = {gateway.name: gateway_reads(gateway, ids, connections, each) for gateway in gateways}
        return {RAW: raw_reads(domain, ids, connections, each), **ways}

    figure, target = (Figure.ADDED, 1.0) if connections == 1 else (Figure.SHARE, 0.5)
    return Measure(
        name=f"read of {accounts.__name__} on {connections} connection{'s' if connections > 1 else ''}",
        figure=figure,
        target=target,
        prepare=prepare,
        requests=each * connections,
        settle=_RECORDED_WITHIN,
    )


@contextmanager
def running_bare(domain: Domain, gateway: Gateway) -> Iterator[str]:
    """The URL of `bench.bare`, served as the gateway is."""
    settings = {
        "BENCH_LDAP_URL": domain.url,
        "BENCH_CA_FILE": str(domain.ca_file),
        "BENCH_BIND_DN": domain.bind_dn,
        "BENCH_PASSWORD": domain.bind_password,
    }
    with (
        tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder,
        running_web(gateway, Path(folder), "bench.bare:application", **settings) as (url, _),
    ):
        yield url


def measure_bare_reads(bare_url: str, connections: int, count: int) -> Measure:
    """The same reads by `bench.bare`, which is the best that a web server in Python can do."""
    each = count // connections

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        ids = people(domain, min(ACCOUNTS, count))
        return {
            RAW: raw_reads(domain, ids, connections, each),
            "bare function": gateway_reads(gateways[0], ids, connections, each, url=bare_url),
        }

    return Measure(
        f"read of people on {connections} connections without a gateway",
        Figure.SHARE,
        None,
        prepare,
        each * connections,
    )


def measure_known_reads(count: int) -> Measure:
    """A read that is answered with 304 against a full one, both through the gateway."""

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        ids = people(domain, min(ACCOUNTS, count))
        ways = {gateway.name: _known_reads(gateway, ids, count) for gateway in gateways}
        return {RAW: gateway_reads(gateways[0], ids, 1, count), **ways}

    return Measure(
        name="304 by `If-None-Match`",
        figure=Figure.TIMES,
        target=0.8,
        prepare=prepare,
        requests=count,
        settle=_RECORDED_WITHIN,
        reference="full read",
    )


_TOKEN = """\
import sys
import django
django.setup()
from directory.models import DirectoryConnection
from keys.models import Person
connection, person = DirectoryConnection.objects.get(), Person.objects.get(is_superuser=True)
try:
    from lab.accounts.agents import make_tokens
    made = make_tokens(connection, person, audience=sys.argv[1])
except ImportError:  # an earlier commit
    from tests.support.agents import make_agent
    made = make_agent(connection, person=person, audience=sys.argv[1])
print(made.token)
"""
_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class AgentClient(Client):
    """One keep-alive connection of an agent."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway)
        token = gateway.live.run([sys.executable, "-c", _TOKEN, f"{gateway.base_url}/mcp"]).strip()
        host = urlsplit(gateway.base_url).netloc
        self._head = f"Host: {host}\r\nAuthorization: Bearer {token}\r\nAccept: application/json, text/event-stream\r\n"

    def read(self, item: uuid.UUID, *, envelope: bool) -> None:
        """Read a user; ends the benchmark if it is refused."""
        params = {"name": "read_object", "arguments": {"kind": "users", "id": str(item), "attributes": ATTRIBUTES}}
        headers = "MCP-Protocol-Version: 2025-11-25\r\n"
        if envelope:
            params["_meta"] = _ENVELOPE
            headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: read_object\r\n"
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = expect(self.send("POST", "/mcp", json.dumps(message).encode(), headers))
        if b'"isError":false' not in answer.body:
            raise SystemExit(f"an agent's read was answered with {answer.body[:500]!r}")


def measure_agent_reads(count: int) -> Measure:
    """Reads of people by an agent's tool on one connection, `count` per round."""

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        ids = people(domain, min(ACCOUNTS, count))

        def read(client: AgentClient, *, envelope: bool) -> None:
            for number in range(count):
                client.read(ids[number % len(ids)], envelope=envelope)

        ways = {RAW: gateway_reads(gateways[0], ids, 1, count)}
        for gateway in (each for each in gateways if each.live.release.has_agents):
            client = AgentClient(gateway)
            ways[gateway.name] = Way(partial(read, client, envelope=False))
            ways[f"{gateway.name}, envelope"] = Way(partial(read, client, envelope=True))
        return ways

    return Measure(
        name="`read_object` by an agent",
        figure=Figure.TIMES,
        target=1.5,
        prepare=prepare,
        requests=count,
        settle=_RECORDED_WITHIN,
        reference="the read on /api",
    )
