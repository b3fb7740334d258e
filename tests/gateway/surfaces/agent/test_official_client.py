"""The SDK's own client against the deployed gateway, in both eras of the protocol and as it chooses by itself."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.gateway import LiveGateway
from tests.support.agent_tools import ENVELOPE
from tests.support.agents import make_agent


async def converse(url: str, token: str, mode: Any, unit: str) -> dict[str, Any]:
    """What a program does with the client: find out about the server, list its tools, and use some."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        tools = await client.list_tools()
        created = await client.call_tool(
            "create_object", {"kind": "users", "name": "Ada Lovelace", "parent": unit, "reason": "She begins today."}
        )
        made: Any = created.structured_content
        read = await client.call_tool("read_object", {"kind": "users", "id": made["id"], "include": ["memberships"]})
        held = await client.call_tool("delete_object", {"kind": "users", "id": made["id"], "reason": "A mistake."})
        refused = await client.call_tool("read_object", {"kind": "groups", "id": made["id"]})
        return {
            "version": client.session.protocol_version,
            "tools": [tool.name for tool in tools.tools],
            "created": created,
            "read": read,
            "held": held,
            "refused": refused,
        }


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), (ENVELOPE, ENVELOPE), ("auto", ENVELOPE)])
def test_the_official_client(
    mode: str,
    version: str,
    transactional_db: None,
    live_gateway: LiveGateway,
    connection: DirectoryConnection,
    directory: Directory,
    organizational_unit: str,
) -> None:
    url = f"{live_gateway.base_url}/mcp"
    agent = make_agent(connection, audience=url)
    with ThreadPoolExecutor(1) as apart:  # a browser test of this process may have left its event loop running
        seen = apart.submit(asyncio.run, converse(url, agent.token, mode, organizational_unit)).result()
    assert seen["version"] == version
    assert len(seen["tools"]) == 12
    dn = f"CN=Ada Lovelace,{organizational_unit}"
    assert seen["created"].structured_content["distinguishedName"] == dn
    assert directory.exists(dn)
    assert seen["read"].structured_content["memberships"]["items"][0]["name"] == "Domain Users"
    assert seen["held"].structured_content["changeRequest"]["status"] == "pending"
    assert not seen["held"].is_error
    assert seen["refused"].is_error
    assert isinstance(seen["refused"].content[0], types.TextContent)
