"""The SDK's own client against the deployed gateway, in both eras of the protocol and as it chooses by itself."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
import pytest
from mcp import Client, types
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from directory.models import DirectoryConnection
from keys.models.agents import AgentGrant
from lab.directory import Directory
from lab.gateway import LiveGateway
from tests.keys.agents.sign_in import fields_of
from tests.support.agent_tools import ENVELOPE
from tests.support.agents import Agent, make_agent
from tests.support.cast import Console


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
    assert len(seen["tools"]) == 16
    dn = f"CN=Ada Lovelace,{organizational_unit}"
    assert seen["created"].structured_content["distinguishedName"] == dn
    assert directory.exists(dn)
    assert seen["read"].structured_content["memberships"]["items"][0]["name"] == "Domain Users"
    assert seen["held"].structured_content["changeRequest"]["status"] == "pending"
    assert not seen["held"].is_error
    assert seen["refused"].is_error
    assert isinstance(seen["refused"].content[0], types.TextContent)


class _Kept:
    """What a program keeps of its sign-in."""

    def __init__(self, agent: Agent) -> None:
        client = agent.grant.client
        self.tokens: Any = OAuthToken(
            access_token=agent.token, refresh_token=agent.refresh_token, scope=" ".join(agent.grant.scopes)
        )
        self.client: Any = OAuthClientInformationFull(
            client_id=client.client_id, redirect_uris=[AnyUrl(client.redirect_uris)], token_endpoint_auth_method="none"
        )

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


async def step_up(url: str, agent: Agent, console: Console, unit: str) -> Any:
    """Create an object, for which the program has to ask its person, who agrees in a browser."""
    kept = _Kept(agent)
    told: dict[str, str] = {}
    cookies = {name: morsel.value for name, morsel in console.client.cookies.items()}

    async def open_browser(address: str) -> None:
        async with httpx2.AsyncClient(cookies=cookies, timeout=60) as browser:
            page = await browser.get(address)
            scope = parse_qs(urlsplit(address).query)["scope"][0].split()
            form = {**fields_of(page.content), "scope": scope, "decision": "allow"}
            answer = await browser.post(address, data={"csrfmiddlewaretoken": console.token, **form})
            told.update(parse_qsl(urlsplit(answer.headers["Location"]).query))

    async def take_answer() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=told["code"], state=told["state"], iss=told["iss"])

    metadata = OAuthClientMetadata(redirect_uris=kept.client.redirect_uris, scope="read")
    provider = OAuthClientProvider(url, metadata, kept, open_browser, take_answer)
    async with (
        httpx2.AsyncClient(auth=provider, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        return await client.call_tool(
            "create_object", {"kind": "groups", "name": "Readers", "parent": unit, "reason": "They read."}
        )


def test_it_asks_its_person_for_a_scope(
    transactional_db: None,
    live_gateway: LiveGateway,
    connection: DirectoryConnection,
    directory: Directory,
    organizational_unit: str,
) -> None:
    url = f"{live_gateway.base_url}/mcp"
    agent = make_agent(connection, audience=url, scopes=["read"], refused_scopes=[])
    with ThreadPoolExecutor(1) as apart:
        asking = step_up(url, agent, Console(agent.person), organizational_unit)
        created = apart.submit(asyncio.run, asking).result()
    assert not created.is_error
    assert directory.exists(f"CN=Readers,{organizational_unit}")
    assert AgentGrant.objects.latest("created_at").scopes == ["read", "create"]
