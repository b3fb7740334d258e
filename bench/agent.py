"""A `read_object` call of an agent against the same read on `/api`, in both eras of the protocol."""

import json
import subprocess
import sys
import uuid
from collections.abc import Sequence
from urllib.parse import urlsplit

from bench.client import Client, expect
from bench.domain import Domain
from bench.gateway import Gateway, has_agents
from bench.reads import ACCOUNTS, ATTRIBUTES, gateway_reads, people
from bench.turns import RAW, Figure, Measure, Way

TARGET = 1.5
"""Times what the read takes on `/api`."""
_RECORDED_WITHIN = 1.2
"""Seconds after a read in which its record is written."""

_TOKEN = """\
import sys
import django
django.setup()
from bench.gateway import PERSON
from directory.models import DirectoryConnection
from keys.models import Person
from tests.support.agents import make_agent
agent = make_agent(DirectoryConnection.objects.get(), person=Person.objects.get(username=PERSON), audience=sys.argv[1])
print(agent.token)
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
        made = subprocess.run(
            [sys.executable, "-c", _TOKEN, f"{gateway.base_url}/mcp"],
            env=gateway.environment,
            cwd=gateway.checkout,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise SystemExit(f"no agent could be made:\n{made.stderr}")
        token, host = made.stdout.strip(), urlsplit(gateway.base_url).netloc
        self._head = f"Host: {host}\r\nAuthorization: Bearer {token}\r\nAccept: application/json, text/event-stream\r\n"

    def read(self, item: uuid.UUID, *, envelope: bool) -> None:
        """Have one user read; ends the benchmark if it is refused."""
        params = {"name": "read_object", "arguments": {"kind": "users", "id": str(item), "attributes": ATTRIBUTES}}
        version = "2025-11-25"
        headers = ""
        if envelope:
            params["_meta"] = _ENVELOPE
            version, headers = "2026-07-28", "Mcp-Method: tools/call\r\nMcp-Name: read_object\r\n"
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers += f"MCP-Protocol-Version: {version}\r\n"
        answer = expect(self.send("POST", "/mcp", json.dumps(message).encode(), headers))
        if b'"isError":false' not in answer.body:
            raise SystemExit(f"an agent's read was answered with {answer.body[:500]!r}")


def _agent_reads(client: AgentClient, ids: Sequence[uuid.UUID], count: int, *, envelope: bool) -> Way:
    def read() -> None:
        for number in range(count):
            client.read(ids[number % len(ids)], envelope=envelope)

    return Way(read)


def measure_agent_reads(count: int) -> Measure:
    """Reads of people by an agent's tool on one connection, a round of `count`."""

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        ids = people(domain, min(ACCOUNTS, count))
        ways = {RAW: gateway_reads(gateways[0], ids, 1, count)}
        for gateway in (item for item in gateways if has_agents(item.checkout)):
            client = AgentClient(gateway)
            ways[gateway.name] = _agent_reads(client, ids, count, envelope=False)
            ways[f"{gateway.name}, envelope"] = _agent_reads(client, ids, count, envelope=True)
        return ways

    return Measure(
        name="`read_object` by an agent",
        figure=Figure.TIMES,
        target=TARGET,
        prepare=prepare,
        requests=count,
        settle=_RECORDED_WITHIN,
        reference="the read on /api",
    )
