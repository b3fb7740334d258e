"""The tools of the agent endpoint, called as a client of the protocol calls them."""

import json
from dataclasses import dataclass
from typing import Any

from gateway.surfaces.agent.tools import TOOLS
from tests.support.agents import Agent
from tests.support.cast import Answer

HANDSHAKE, ENVELOPE = "2025-11-25", "2026-07-28"
"""A revision of each era of the protocol."""
ACCEPTED = "application/json, text/event-stream"


@dataclass
class Result:
    """What a tool has answered. `said` is the text besides the copy of the structured content."""

    structured: dict[str, Any]
    said: str
    copy: str
    is_error: bool

    @property
    def code(self) -> str | None:
        return self.structured.get("code") if self.is_error else None


def send(agent: Agent, method: str, params: dict[str, Any] | None = None, **headers: str) -> Answer:
    """One request of the era of handshakes."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    return agent.call("POST", "/mcp", message, **{"Accept": ACCEPTED, "MCP-Protocol-Version": HANDSHAKE, **headers})


def send_with_envelope(agent: Agent, method: str, params: dict[str, Any] | None = None, **headers: str) -> Answer:
    """One request of the era in which each says by itself which revision it is of."""
    prefix = "io.modelcontextprotocol"
    envelope = {
        f"{prefix}/protocolVersion": ENVELOPE,
        f"{prefix}/clientInfo": {"name": "tests", "version": "1"},
        f"{prefix}/clientCapabilities": {},
    }
    given = {**(params or {}), "_meta": envelope}
    named = {"Mcp-Name": given["name"]} if "name" in given else {}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}
    told = {"Accept": ACCEPTED, "MCP-Protocol-Version": ENVELOPE, "Mcp-Method": method, **named}
    return agent.call("POST", "/mcp", message, **{**told, **headers})


def list_tools(agent: Agent) -> dict[str, dict[str, Any]]:
    """The tools that are listed, by name."""
    answer = send(agent, "tools/list")
    assert answer.status == 200, answer
    return {tool["name"]: tool for tool in answer.body["result"]["tools"]}


def call_tool(agent: Agent, tool: str, /, **arguments: Any) -> Result:
    """Call a tool and get what it answers, a refusal too."""
    answer = send(agent, "tools/call", {"name": tool, "arguments": arguments})
    assert answer.status == 200, answer
    return read_result(answer.body["result"])


def read_result(result: dict[str, Any]) -> Result:
    """The result of a tool, whose copy as text says what the structured content says."""
    said, copy = (part["text"] for part in result["content"])
    assert json.loads(copy) == result["structuredContent"]
    return Result(structured=result["structuredContent"], said=said, copy=copy, is_error=result["isError"])


def served_operations() -> frozenset[str]:
    """The names of all operations that a tool of agents serves."""
    return frozenset(name for tool in TOOLS.values() for name in tool.serves.values())
