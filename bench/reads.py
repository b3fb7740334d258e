"""Single reads of people, on one connection and on several, with If-None-Match, by agents.

An agent's `read_object` call is measured against the same read on `/api`, in both generations of the protocol.
"""

import json
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import ldap

from bench.client import Client, expect, on_each
from bench.servers import Domain, Gateway, running_web
from bench.turns import RAW, Way, Ways, compare
from lab.directory import Connection

ATTRIBUTES = ["cn", "displayName", "mail", "sAMAccountName", "userPrincipalName", "department", "title"]
"""The attributes that are read."""
_ACCOUNTS = 50


def paths_of(items: Sequence[uuid.UUID]) -> list[str]:
    return [f"/api/ad/users/{item}?attributes={','.join(ATTRIBUTES)}" for item in items]


def compare_reads(connections: int, count: int, domain: Domain, gateways: list[Gateway]) -> Ways:
    """Reads on a number of connections, `count` reads per round in total."""
    ids = domain.find_people(min(_ACCOUNTS, count))

    def read(connection: Connection, number: int) -> None:
        connection.search_ext_s(f"<GUID={ids[number % len(ids)]}>", ldap.SCOPE_BASE, attrlist=ATTRIBUTES)

    get = _getting(ids)
    return compare(domain, gateways, read, get, connections=connections, times=count // connections)


def _getting(ids: Sequence[uuid.UUID]) -> Callable[[Client, int], object]:
    """Reads of these accounts, one after another."""
    paths = paths_of(ids)
    return lambda client, number: expect(client.send("GET", paths[number % len(paths)]))


def compare_bare_reads(bare_url: str, connections: int, count: int, domain: Domain, gateways: list[Gateway]) -> Ways:
    """The same reads by `bench.bare`, which is the best that a web server in Python can do."""
    bare = replace(gateways[0], name="bare function", base_url=bare_url)
    return compare_reads(connections, count, domain, [bare])


@contextmanager
def running_bare(domain: Domain, gateway: Gateway) -> Iterator[str]:
    """The URL of `bench.bare`, served as the gateway is."""
    settings = {
        "BENCH_LDAP_URL": domain.url,
        "BENCH_CA_FILE": str(domain.ca_file),
        "BENCH_BIND_DN": domain.bind_dn,
        "BENCH_PASSWORD": domain.bind_password,
    }
    with running_web(gateway, "bench.bare:application", **settings) as (url, _):
        yield url


def compare_known_reads(count: int, domain: Domain, gateways: list[Gateway]) -> Ways:
    """Reads of objects that the client has, answered with 304, against full ones, both through the gateway."""
    ids = domain.find_people(min(_ACCOUNTS, count))

    def known_reads_of(gateway: Gateway) -> Way:
        client = Client(gateway)
        known = [(path, expect(client.send("GET", path)).header("ETag")) for path in paths_of(ids)]

        def read(client: Client, number: int) -> None:
            path, tag = known[number % len(known)]
            expect(client.send("GET", path, headers=f"If-None-Match: {tag}\r\n"), 304)

        return Way(partial(on_each, [client], count, read))

    ways = {gateway.name: known_reads_of(gateway) for gateway in gateways}
    return {RAW: Way(partial(on_each, [Client(gateways[0])], count, _getting(ids))), **ways}


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


def compare_agent_reads(count: int, domain: Domain, gateways: list[Gateway]) -> Ways:
    """Reads of people by an agent's tool on one connection, in both generations of the protocol."""
    ids = domain.find_people(min(_ACCOUNTS, count))

    def read(client: Client, number: int, *, envelope: bool) -> None:
        arguments = {"kind": "users", "id": str(ids[number % len(ids)]), "attributes": ATTRIBUTES}
        params: dict[str, object] = {"name": "read_object", "arguments": arguments}
        headers = "MCP-Protocol-Version: 2025-11-25\r\n"
        if envelope:
            params["_meta"] = _ENVELOPE
            headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: read_object\r\n"
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = expect(client.send("POST", "/mcp", json.dumps(message).encode(), headers))
        if b'"isError":false' not in answer.body:
            raise SystemExit(f"an agent's read was answered with {answer.body[:500]!r}")

    ways = {RAW: Way(partial(on_each, [Client(gateways[0])], count, _getting(ids)))}
    for gateway in (each for each in gateways if each.live.release.has_agents):
        token = gateway.live.run([sys.executable, "-c", _TOKEN, f"{gateway.base_url}/mcp"]).strip()
        agent = Client(gateway, f"Authorization: Bearer {token}\r\nAccept: application/json, text/event-stream")
        for name, envelope in ((gateway.name, False), (f"{gateway.name}, envelope", True)):
            ways[name] = Way(partial(on_each, [agent], count, partial(read, envelope=envelope)))
    return ways
