"""The Python client's layer against a server that fails as servers do: limits, outages, answers that get lost.

Also what it sends: credentials, reasons, plain values.
"""

import asyncio
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import mypy.api
import pytest

from keys.authentication import read_reason
from tests.clients.conftest import programs


@pytest.fixture
def package(python_client: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(python_client))
    yield importlib.import_module("gateway_client")
    for name in [name for name in sys.modules if name.partition(".")[0] == "gateway_client"]:
        del sys.modules[name]


Send = Callable[..., int]


def send_at_once(package: ModuleType, url: str, method: str = "POST", headers: Any = None, **options: Any) -> int:
    with package.connect(url, "dgk_x", **options).get_httpx_client() as client:
        return int(client.request(method, "/", json={}, headers=headers).status_code)


def send_asynchronously(
    package: ModuleType, url: str, method: str = "POST", headers: Any = None, **options: Any
) -> int:
    async def ask() -> int:
        async with package.connect(url, "dgk_x", **options).get_async_httpx_client() as client:
            return int((await client.request(method, "/", json={}, headers=headers)).status_code)

    return asyncio.run(ask())


@pytest.fixture(params=[send_at_once, send_asynchronously])
def send(request: pytest.FixtureRequest) -> Send:
    given: Send = request.param
    return given


def test_a_limit_is_waited_for(package: ModuleType, send: Send, failing: Any) -> None:
    script, url = failing([429, 503, 299])
    assert send(package, url) == 299
    assert script.at[2] - script.at[0] >= 2
    assert script.keys[0]
    assert len(set(script.keys)) == 1


def test_a_lost_answer_is_asked_for_with_the_same_key(package: ModuleType, send: Send, failing: Any) -> None:
    script, url = failing([0, 409, 299], code="Idempotency.InProgress")
    assert send(package, url) == 299
    assert script.keys[0]
    assert len(set(script.keys)) == 1


def test_a_key_of_ones_own_is_kept(package: ModuleType, send: Send, failing: Any) -> None:
    script, url = failing([503, 299], retry_after="0")
    assert send(package, url, headers={"idempotency-key": "mine"}) == 299
    assert script.keys == ["mine", "mine"]


def test_another_request_has_another_key_and_a_read_none(package: ModuleType, send: Send, failing: Any) -> None:
    script, url = failing([299, 299, 299])
    assert [send(package, url), send(package, url), send(package, url, "GET")] == [299] * 3
    assert script.keys[0] != script.keys[1]
    assert script.keys[2] is None


@pytest.mark.parametrize("status", [400, 409, 422, 500, 504])
def test_what_would_not_change_is_answered_at_once(package: ModuleType, send: Send, failing: Any, status: int) -> None:
    script, url = failing([status])
    assert send(package, url) == status
    assert len(script.keys) == 1


def test_it_ends_at_some_time(package: ModuleType, send: Send, failing: Any) -> None:
    _, url = failing([503, 503], retry_after="0")
    assert send(package, url, attempts=2) == 503
    _, url = failing([429], retry_after="3600")
    assert send(package, url) == 429


@pytest.mark.parametrize("reason", ["Zürich, 50 % – ✓", "100%25 plain", "plain"])
def test_a_reason_in_any_language(package: ModuleType, send: Send, failing: Any, reason: str) -> None:
    script, url = failing([299])
    assert send(package, url, headers={"X-Change-Reason": reason}) == 299
    assert read_reason(script.reasons[0]) == reason


def test_an_answer_of_another_kind(package: ModuleType) -> None:
    models = importlib.import_module("gateway_client.generated.models")
    types = importlib.import_module("gateway_client.generated.types")
    parsed = models.UpdateAccount()
    answer = types.Response(status_code=200, content=b"", headers={}, parsed=parsed)
    assert package.expect(answer, models.UpdateAccount) is parsed
    with pytest.raises(TypeError, match="UpdateAccount, not ChangedObject"):
        package.expect(answer, models.ChangedObject)


def test_an_access_token(package: ModuleType, failing: Any) -> None:
    script, url = failing([299])
    with package.connect(url, token="dgp_x").get_httpx_client() as client:
        client.get("/")
    assert (script.headers[0]["Authorization"], script.headers[0]["X-API-Key"]) == ("Bearer dgp_x", None)
    for wrong in ({}, {"key": "dgk_x", "token": "dgp_x"}):
        with pytest.raises(TypeError, match="either an API key or an access token"):
            package.connect(url, **wrong)


def test_plain_values(package: ModuleType, failing: Any) -> None:
    script, url = failing([400, 502, 400])
    change = {"replace": {"title": "Countess"}, "account": {"expiresAt": datetime(2199, 1, 1, tzinfo=UTC)}}
    gateway = package.connect(url, "dgk_x")
    members = {"add": [UUID(int=1), "cn=x"], "if_match": "v", "reason": "Zürich ✓"}

    async def ask() -> None:
        await package.connect_async(url, "dgk_x").groups.change_members(UUID(int=2), **members)

    with pytest.raises(package.Refused, match=r"400 Any\.Code: A title"):
        gateway.users.update(UUID(int=2), **change)
    with pytest.raises(package.Refused, match=r"502 Any\.Code"):
        gateway.groups.change_members(str(UUID(int=2)), **members)
    with pytest.raises(package.Refused, match=r"400 Any\.Code"):
        asyncio.run(ask())
    updated, *changed = (json.loads(body) for body in script.bodies)
    assert updated == {"replace": {"title": "Countess"}, "account": {"expiresAt": "2199-01-01T00:00:00+00:00"}}
    assert changed == [{"add": [str(UUID(int=1)), "cn=x"]}] * 2
    assert [headers["If-Match"] for headers in script.headers] == [None, '"v"', '"v"']


@pytest.mark.parametrize(
    ("rest", "code"), [(b"", None), (b'{"code": "AD.Directory.Unavailable", "status": 503', "AD.Directory.Unavailable")]
)
def test_a_stream(package: ModuleType, failing: Any, rest: bytes, code: str | None) -> None:
    record: dict[str, Any] = {
        "id": str(UUID(int=1)),
        "kind": "user",
        "name": "Ada",
        "distinguishedName": "cn=Ada",
        "version": "1",
    }
    record |= dict.fromkeys(["parentId", "createdAt", "changedAt", "account", "group"])
    record |= {"objectClass": [], "protected": False, "attributes": {"cn": ["Ada\u2028"]}}
    script, url = failing([200], content=(json.dumps(record).encode() + b"\n") * 3 + rest)
    found: list[Any] = []
    with pytest.raises(package.Refused, match=code) if code else nullcontext():
        found.extend(package.stream(package.connect(url, "dgk_x").users.search, q="ada"))
    assert script.headers[0]["Accept"] == "application/x-ndjson"
    assert [(item.id, item.attributes["cn"]) for item in found] == [(UUID(int=1), ["Ada\u2028"])] * 3


def test_the_layer_is_typed(python_client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(python_client)
    Path("programs.py").write_text(programs(python_client, "python"), "utf-8")
    files = sorted(str(path) for path in [*Path("gateway_client").glob("*.py"), Path("programs.py")])
    output, errors, status = mypy.api.run(["--strict", "--config-file=", "--follow-imports=silent", *files])
    assert status == 0, output + errors
