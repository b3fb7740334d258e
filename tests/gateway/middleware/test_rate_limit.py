"""The four limits, their headers, path overrides, and what happens without Redis."""

import re
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from redis import Redis

from core.redis import clients
from core.redis.clients import TIMEOUT
from lab.redis import RedisServer


@pytest.fixture(autouse=True)
def fresh_counters(redis_server: RedisServer, patient_counters: None) -> None:
    Redis.from_url(redis_server.url).flushall()


def limits(*, window: int = 60, paths: list[dict[str, Any]] | None = None, **quotas: int) -> dict[str, Any]:
    """A configuration of generous limits, except those given."""
    names = ("Global", "DirectorySearch", "PasswordReset", "PasswordChange")
    sections = {name: {"Requests": quotas.get(name, 1000), "WindowSeconds": window} for name in names}
    return {"RateLimiting": {**sections, "Paths": paths or []}}


def left(client: Client, path: str, name: str, **more: Any) -> int:
    header = client.get(path, **more)["RateLimit"]
    return int(re.search(rf'"{name}";r=(\d+)', header)[1])


def change(client: Client, account: object) -> Any:
    return client.post(f"/api/ad/users/{account}/change-password")


def reset(client: Client) -> Any:
    return client.post(f"/api/ad/users/{uuid4()}/reset-password")


def test_headers(client_with: Callable[..., Client]) -> None:
    client = client_with(**limits(window=600, Global=9, DirectorySearch=5))
    response = client.get("/api/ad/users")
    assert response["RateLimit-Policy"] == '"Global";q=9;w=600, "DirectorySearch";q=5;w=600'
    assert response["RateLimit"] == '"Global";r=8;t=600, "DirectorySearch";r=4;t=600'
    response = client.get("/api/echo")
    assert response["RateLimit-Policy"] == '"Global";q=9;w=600'
    told = re.fullmatch(r'"Global";r=7;t=(\d+)', response["RateLimit"])
    assert told
    assert 400 < int(told[1]) <= 600


def test_global_limit_refuses_everything_but_health(client_with: Callable[..., Client]) -> None:
    client = client_with(**limits(window=600, Global=2))
    assert [client.get(path).status_code for path in ("/api/echo", "/api/none", "/api/echo")] == [200, 404, 429]
    response = client.get("/api/ad/users")
    assert response.status_code == 429
    assert response.json()["code"] == "RateLimit.Exceeded"
    assert 400 < int(response["Retry-After"]) <= 600
    assert '"Global";r=0' in response["RateLimit"]
    assert client.get("/page").status_code == 429
    health = client.get("/health")
    assert health.status_code == 200
    assert "RateLimit" not in health
    assert "RateLimit-Policy" not in health


def test_refusals_by_the_gateway_itself_count(client_with: Callable[..., Client]) -> None:
    client = client_with(**limits(Global=100))
    client.post("/api/echo", b"", "application/json", CONTENT_LENGTH="2000000")
    client.get("/api/" + "a" * 17_000)
    assert left(client, "/api/echo", "Global") == 97


def test_category_is_counted_beside_global(client_with: Callable[..., Client]) -> None:
    client = client_with(**limits(DirectorySearch=1))
    assert client.get("/api/ad/users").status_code == 200
    assert client.get("/api/ad/users").status_code == 429
    assert client.get("/api/echo").status_code == 200
    assert client.head("/api/ad/users").status_code == 429


def test_window_ends_when_the_headers_say(client_with: Callable[..., Client], redis_server: RedisServer) -> None:
    client = client_with(**limits(window=600, DirectorySearch=1))
    assert client.get("/api/ad/users").status_code == 200
    (counter,) = Redis.from_url(redis_server.url).scan_iter("gateway:limit:*DirectorySearch*")
    Redis.from_url(redis_server.url).expire(counter, 300)  # half of the window has passed
    refused = client.get("/api/ad/users")  # which does not begin the window anew
    assert refused.status_code == 429
    assert 100 < int(refused["Retry-After"]) <= 300
    Redis.from_url(redis_server.url).expire(counter, 0)
    assert client.get("/api/ad/users").status_code == 200


def test_identifiers_share_one_limit(client_with: Callable[..., Client]) -> None:
    client = client_with(**limits(PasswordReset=2))
    assert [reset(client).status_code for _ in range(3)] == [204, 204, 429]


def test_addresses_are_counted_apart_and_ipv6_by_network(client_with: Callable[..., Client]) -> None:
    client = client_with(**limits())
    assert left(client, "/api/echo", "Global", REMOTE_ADDR="192.0.2.1") == 999
    assert left(client, "/api/echo", "Global", REMOTE_ADDR="192.0.2.2") == 999
    assert left(client, "/api/echo", "Global", REMOTE_ADDR="2001:db8::1") == 999
    assert left(client, "/api/echo", "Global", REMOTE_ADDR="2001:db8::ffff:1") == 998
    assert left(client, "/api/echo", "Global", REMOTE_ADDR="2001:db8:0:1::1") == 999


def test_password_changes_are_counted_per_account(client_with: Callable[..., Client]) -> None:
    client = client_with(**limits(PasswordChange=2))
    one, other = uuid4(), uuid4()
    assert [change(client, one).status_code for _ in range(3)] == [204, 204, 429]
    assert change(client, str(one).upper()).status_code == 429
    assert client.post(f"/api/ad/users/{one}/change-password", REMOTE_ADDR="192.0.2.9").status_code == 429
    response = change(client, other)
    assert response.status_code == 204
    assert '"PasswordChange";q=2;w=60' in response["RateLimit-Policy"]
    assert '"PasswordChange";r=1;t=60' in response["RateLimit"]


def test_path_takes_the_place_of_the_category(client_with: Callable[..., Client]) -> None:
    paths = [
        {"Path": "/api/ad/*", "Requests": 1, "WindowSeconds": 300},
        {"Path": "/api/ad/users*", "Requests": 3, "WindowSeconds": 300},
    ]
    client = client_with(**limits(DirectorySearch=1, paths=paths))
    response = client.get("/api/ad/users")
    assert response["RateLimit"] == '"Global";r=999;t=60, "DirectorySearch";r=2;t=300'
    assert [client.get("/api/ad/users").status_code for _ in range(3)] == [200, 200, 429]
    assert client.get("/api/ad/none").status_code == 404
    assert client.get("/api/ad/none").status_code == 429


def test_path_limit_of_password_changes_stays_per_account(client_with: Callable[..., Client]) -> None:
    paths = [{"Path": "/api/ad/users/*/change-password", "Requests": 3, "WindowSeconds": 300}]
    client = client_with(**limits(PasswordChange=1, paths=paths))
    account = uuid4()
    assert [change(client, account).status_code for _ in range(4)] == [204, 204, 204, 429]
    assert change(client, uuid4()).status_code == 204


def test_nothing_is_limited_or_announced_when_disabled(client_with: Callable[..., Client]) -> None:
    client = client_with(RateLimiting={"Enabled": False, "Global": {"Requests": 1, "WindowSeconds": 60}})
    responses = [client.get("/api/echo") for _ in range(3)]
    assert all(response.status_code == 200 and "RateLimit-Policy" not in response for response in responses)


def test_without_redis_only_password_routes_stop(
    client_with: Callable[..., Client], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "PAUSE", 600.0)  # all that follows is within one
    client = client_with(**limits(), REDIS_URL="unix:///nonexistent/redis.sock")
    for _ in range(5):
        response = client.get("/api/ad/users")
        assert response.status_code == 200
        assert "RateLimit-Policy" in response
        assert "RateLimit" not in response
    for refused in (reset(client), change(client, uuid4())):
        assert refused.status_code == 503
        assert refused.json()["code"] == "Service.Unavailable"
        assert int(refused["Retry-After"]) >= 1
    assert len([record for record in caplog.records if "Redis does not answer" in str(record.msg)]) == 1


def test_frozen_redis_costs_one_timeout_and_recovers(
    client_with: Callable[..., Client], redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "TIMEOUT", TIMEOUT)
    client = client_with(**limits(PasswordReset=1000))
    wait_until_counted(client)
    redis_server.pause()
    try:
        started = time.monotonic()
        assert [client.get("/api/echo").status_code for _ in range(50)] == [200] * 50
        assert time.monotonic() - started < 50 * TIMEOUT
        assert reset(client).status_code == 503
    finally:
        redis_server.resume()
    wait_until_counted(client)


def wait_until_counted(client: Client) -> None:
    deadline = time.monotonic() + 120
    while reset(client).status_code != 204:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_redis_started_anew_is_noticed_at_once(client_with: Callable[..., Client], redis_server: RedisServer) -> None:
    client = client_with(**limits())
    assert left(client, "/api/echo", "Global") == 999
    redis = Redis.from_url(redis_server.url)
    redis.script_flush()
    redis.client_kill_filter(_type="normal", skipme=True)
    assert left(client, "/api/echo", "Global") == 998


def test_a_page_of_the_console_waits_and_goes_on(client_with: Callable[..., Client]) -> None:
    client = client_with(**limits(Global=1))
    client.get("/page")
    page = client.get("/console/changes/?risk=security")
    text = page.content.decode()
    assert (page.status_code, page["Cache-Control"]) == (429, "no-store")
    assert f'<meta http-equiv="refresh" content="{page["Retry-After"]}">' in text
    assert 'href="/console/changes/?risk=security"' in text
    assert "default-src 'none'" in page["Content-Security-Policy"]
    part = client.get("/console/changes/", headers={"HX-Request": "true"}).content.decode()
    assert "data-countdown" in part
    assert "<html" not in part


def test_a_form_of_the_console_is_kept_to_be_sent_again(client_with: Callable[..., Client]) -> None:
    client = client_with(**limits(Global=1))
    client.get("/page")
    sent = "change=1%3Aa&change=2%3Ab&comment=%3Cb%3EAgreed%3C%2Fb%3E&csrfmiddlewaretoken=t"

    def send(content: str, content_type: str = "application/x-www-form-urlencoded") -> str:
        return client.generic("POST", "/console/changes/together/decide?q=x", content, content_type).content.decode()

    page = send(sent)
    assert 'action="/console/changes/together/decide?q=x"' in page
    for field in (
        'name="change" value="1:a"',
        'name="change" value="2:b"',
        'name="comment" value="&lt;b&gt;Agreed&lt;/b&gt;"',
        'name="csrfmiddlewaretoken" value="t"',
    ):
        assert field in page
    for not_kept in (
        send(f"{sent}&newPassword=Correct-Horse-9"),
        send(f"{sent}&code=123456"),
        send(f"{sent}&more={'x' * 70_000}"),
        send('{"a": 1}', "application/json"),
    ):
        assert "Agreed" not in not_kept
        assert "Your browser keeps what you typed" in not_kept
        assert "Correct-Horse-9" not in not_kept
