"""HTTP at `/mcp`: which requests are taken at all, and what the others are told."""

import json
import re
from typing import Any

import pytest

from audit.models import OperationRecord
from core.configuration_sections import RateLimit
from directory.models import DirectoryConnection
from tests.support.agent_tools import ACCEPTED, send, send_with_envelope
from tests.support.agents import Agent
from tests.support.cast import Answer, Integration
from tests.support.cast import send as send_anything
from tests.support.configuration import Configure

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def test_it_answers_in_both_eras(agent: Agent) -> None:
    began = send(
        agent,
        "initialize",
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}},
    )
    assert began.status == 200, began
    assert began.body["result"]["protocolVersion"] == "2025-06-18"
    assert began.body["result"]["serverInfo"]["name"] == "directory-management-gateway"
    assert began.body["result"]["capabilities"] == {kind: {"listChanged": False} for kind in ("tools", "prompts")}
    assert "Mcp-Session-Id" not in began.headers
    found = send_with_envelope(agent, "server/discover")
    assert (found.status, found.body["result"]["supportedVersions"]) == (200, ["2026-07-28"])
    listed = [answer(agent, "tools/list").body["result"]["tools"] for answer in (send, send_with_envelope)]
    assert listed[0] == listed[1]
    assert len(listed[0]) == 16


def test_a_notification_is_taken_without_a_word(agent: Agent) -> None:
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = agent.call("POST", "/mcp", told)
    assert (answer.status, answer.body) == (202, b"")
    answer = agent.call("POST", "/mcp", {"jsonrpc": "2.0", "id": 7, "result": {}})
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
def test_only_post_is_answered(method: str, agent: Agent) -> None:
    for headers in ({}, {"Authorization": f"Bearer {agent.token}"}):
        answer = send_anything(agent.client, method, "/mcp", **headers)
        assert (answer.status, answer.code) == (405, "Request.MethodNotAllowed")
        assert answer.headers["Allow"] == "POST"


def test_it_is_not_there_when_agents_are_switched_off(agent: Agent, configure: Configure) -> None:
    configure("Agents", Enabled=False)
    for method in ("POST", "GET"):
        answer = agent.call(method, "/mcp", PING if method == "POST" else None)
        assert (answer.status, answer.code) == (404, "Request.NotFound")


@pytest.mark.parametrize("origin", ["https://evil.example.com", "null", "http://testserver.evil.example", "testserver"])
def test_another_origin_is_refused_before_the_credential(origin: str, agent: Agent) -> None:
    agent.token = "wrong"
    answer = agent.call("POST", "/mcp", PING, Origin=origin)
    assert (answer.status, answer.code) == (403, "Auth.Forbidden")


def test_the_own_origin_is_none_other(agent: Agent) -> None:
    assert agent.call("POST", "/mcp", PING, Origin="http://testserver").status == 200


def test_other_credentials_are_none(agent: Agent, integration: Integration) -> None:
    answer = send_anything(agent.client, "POST", "/mcp", PING, **{"X-API-Key": integration.value})
    assert (answer.status, answer.code) == (401, "Auth.Unauthorized")
    assert "resource_metadata=" in answer.headers["WWW-Authenticate"]
    assert OperationRecord.objects.count() == 0


def test_the_media_type_has_to_be_json(agent: Agent) -> None:
    authorized = {"Authorization": f"Bearer {agent.token}"}
    for media_type, encoding in (("text/plain", None), ("application/json", "gzip"), ("", None)):
        headers = authorized if encoding is None else {**authorized, "Content-Encoding": encoding}
        response = agent.client.generic("POST", "/mcp", json.dumps(PING), content_type=media_type, headers=headers)
        assert (response.status_code, response.json()["code"]) == (415, "Request.UnsupportedMediaType")


def test_json_has_to_be_accepted(agent: Agent) -> None:
    answer = agent.call("POST", "/mcp", PING, Accept="text/event-stream, text/html")
    assert (answer.status, answer.code) == (406, "Request.NotAcceptable")
    for accepted in (ACCEPTED, "*/*", "application/json;q=0.5"):
        assert agent.call("POST", "/mcp", PING, Accept=accepted).status == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("{", -32700),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}', -32700),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\u0000"}}', -32700),
        ('{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700),
        ("[" * 100 + "]" * 100, -32700),
        ("null", -32700),
        (json.dumps([PING, PING]), -32600),
        ('"ping"', -32600),
        ('{"id":1,"method":"ping"}', -32600),
        ('{"jsonrpc":"2.0","id":1}', -32600),
    ],
)
def test_what_is_no_message_is_told_so_in_the_protocol(body: str, code: int, agent: Agent) -> None:
    answer = agent.call("POST", "/mcp", body)
    assert answer.status == 400
    assert (answer.body["jsonrpc"], answer.body["id"], answer.body["error"]["code"]) == ("2.0", None, code)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("resources/list", {}, -32601),
        ("tools/forget", {}, -32601),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": "approve_change", "arguments": {}}, -32602),
        ("tools/call", {"name": "read_object", "arguments": []}, -32602),
        ("tools/list", {"cursor": "next"}, -32602),
    ],
)
def test_what_the_protocol_does_not_know(method: str, params: dict[str, Any], code: int, agent: Agent) -> None:
    answer = send(agent, method, params)
    assert (answer.status, answer.body["error"]["code"], answer.body["id"]) == (200, code, 1)
    assert send_with_envelope(agent, method, params).body["error"]["code"] == code


def test_headers_that_contradict_the_message_are_refused(agent: Agent) -> None:
    answer = send_with_envelope(agent, "tools/list", None, **{"Mcp-Method": "tools/call"})
    assert (answer.status, answer.body["error"]["code"]) == (400, -32020)
    answer = send_with_envelope(agent, "tools/list", None, **{"MCP-Protocol-Version": "2031-01-01"})
    assert (answer.status, "error" in answer.body) == (400, True)


def test_bodies_are_limited_as_elsewhere(agent: Agent, configure: Configure) -> None:
    configure("RequestLimits", MaxBodyBytes=2000)
    answer = send(agent, "tools/call", {"name": "read_object", "arguments": {"id": "x" * 2000}})
    assert (answer.status, answer.code, answer.body["maxBodyBytes"]) == (413, "Request.BodyTooLarge", 2000)


def test_a_search_counts_as_one(agent: Agent, configure: Configure, limited: None) -> None:
    configure("RateLimiting", DirectorySearch=RateLimit(Requests=2, WindowSeconds=60))
    search = {"name": "search_directory", "arguments": {"kind": "users", "q": "nobody-at-all"}}
    for remaining in (1, 0):
        answer = send(agent, "tools/call", search)
        assert answer.status == 200, answer
        assert '"DirectorySearch";q=2;w=60' in answer.headers["RateLimit-Policy"]
        assert f'"DirectorySearch";r={remaining}' in answer.headers["RateLimit"]
    require_told_when_to_go_on(send(agent, "tools/call", search))
    # What is no search goes on.
    answer = send(agent, "tools/list")
    assert answer.status == 200
    assert "DirectorySearch" not in answer.headers["RateLimit"]


def require_told_when_to_go_on(answer: Answer) -> None:
    """Agents stop at an HTTP error, and read what a tool says."""
    assert answer.status == 200, answer
    result = answer.body["result"]
    assert (result["isError"], result["structuredContent"]["code"]) == (True, "RateLimit.Exceeded")
    assert re.search(r"try again in [0-9]+ s", result["structuredContent"]["detail"])


def test_a_search_counts_for_its_agent_wherever_it_comes_from(
    agent: Agent, configure: Configure, limited: None
) -> None:
    configure("RateLimiting", DirectorySearch=RateLimit(Requests=1, WindowSeconds=60))
    configure("ForwardedHeaders", KnownProxies=("127.0.0.0/8",))
    search = {"name": "search_directory", "arguments": {"kind": "users", "q": "nobody-at-all"}}
    answers = [send(agent, "tools/call", search, **{"X-Forwarded-For": f"192.0.2.{n}"}) for n in (1, 2)]
    assert answers[0].body["result"]["isError"] is False
    require_told_when_to_go_on(answers[1])


def test_every_request_counts(agent: Agent, configure: Configure, limited: None) -> None:
    configure("RateLimiting", Global=RateLimit(Requests=1, WindowSeconds=60))
    assert send(agent, "ping").status == 200
    answer = send(agent, "ping")
    assert (answer.status, answer.code) == (429, "RateLimit.Exceeded")
    assert int(answer.headers["Retry-After"]) >= 1
    search = {"name": "search_directory", "arguments": {"kind": "users", "q": "nobody-at-all"}}
    require_told_when_to_go_on(send(agent, "tools/call", search))
    require_told_when_to_go_on(send_with_envelope(agent, "tools/call", search))
    large = {"name": "read_object", "arguments": {"id": "x" * 70_000}}
    assert send(agent, "tools/call", large).status == 429


def test_a_failure_of_ours_tells_nothing(
    agent: Agent, connection: DirectoryConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr("gateway.surfaces.agent.conversation.plan_call", fail)
    answer = send(agent, "tools/call", {"name": "search_directory", "arguments": {"kind": "users"}})
    assert (answer.status, answer.body["result"]["structuredContent"]["code"]) == (200, "Server.Error")
    assert "swordfish" not in json.dumps(answer.body)
