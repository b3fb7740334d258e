"""Who shares a turn with whom: one credential is one claimant, however it is sent and whatever is sent beside it."""

import asyncio
import threading
from collections import Counter
from functools import partial
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from directory.models import DirectoryConnection
from gateway.server import threads
from gateway.server.threads import Claimants, Threads
from gateway.surfaces.routes import PROGRAM_PATHS
from keys.callers import IS_IDENTIFIED
from tests.support.agents import make_agent
from tests.support.cast import Console, Integration, make_person

KEY = "dgk_of_somebody"


def environ(path: str = "/api/me", **headers: str) -> dict[str, Any]:
    return {"PATH_INFO": path, "REMOTE_ADDR": "127.0.0.9", **{f"HTTP_{name}": text for name, text in headers.items()}}


@pytest.mark.parametrize(
    "headers",
    [
        {"X_API_KEY": KEY},
        {"X_API_KEY": f" {KEY}\t"},
        {"AUTHORIZATION": f"Bearer {KEY}"},
        {"AUTHORIZATION": f"bearer   {KEY} "},
        {"X_API_KEY": KEY, "COOKIE": f"{settings.SESSION_COOKIE_NAME}=any"},
    ],
)
def test_a_key_is_one_claimant_however_it_is_sent(headers: dict[str, str]) -> None:
    assert Claimants().find(environ(**headers)) == KEY


@pytest.mark.parametrize("prefix", PROGRAM_PATHS)
def test_wherever_a_key_counts_it_is_the_claimant(prefix: str) -> None:
    takes_no_key = {"/oauth/", "/.well-known/", "/health/", "/metrics/", "/calendar.ics/"}
    claimant = "127.0.0.9" if prefix in takes_no_key else KEY
    assert Claimants().find(environ(f"{prefix}anything", X_API_KEY=KEY)) == claimant


def test_two_credentials_at_once_are_refused(integration: Integration, connection: DirectoryConnection) -> None:
    """Otherwise one of them, which nobody looks at, could make a claimant of its own of each request."""
    answer = integration.get("/api/me", Authorization="Bearer another")
    assert (answer.status, answer.code) == (400, "Request.AmbiguousCredential")
    agent = make_agent(connection)
    assert agent.call("POST", "/mcp", {}).status != 401
    answer = agent.call("POST", "/mcp", {}, **{"X-API-Key": integration.value})
    assert (answer.status, answer.code) == (400, "Request.AmbiguousCredential")


def test_a_session_counts_once_it_was_let_in(db: None) -> None:
    client = Console(make_person()).client
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    cookies = f"{settings.SESSION_COOKIE_NAME}={session}"
    request = environ("/console/", COOKIE=cookies, X_API_KEY="no key is looked at here")
    found = Claimants()
    assert found.find(request) == "127.0.0.9"
    found.remember_session(request)
    assert found.find(request) == "127.0.0.9"
    assert client.get("/rest/me").wsgi_request.META[IS_IDENTIFIED]
    assert IS_IDENTIFIED not in Client().get("/rest/me").wsgi_request.META
    found.remember_session({**request, IS_IDENTIFIED: True})
    assert found.find(request) == session
    another = environ("/console/", COOKIE=f"other=1; {cookies}; more=2")
    assert found.find(another) == found.find(request)


def test_sessions_are_forgotten_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_SESSIONS", 2)
    found = Claimants()
    requests = [environ("/console/", COOKIE=f"{settings.SESSION_COOKIE_NAME}={name}") for name in "abc"]
    for request in requests:
        found.remember_session({**request, IS_IDENTIFIED: True})
    assert [found.find(request) for request in requests] == ["127.0.0.9", "b", "c"]


def test_behind_a_proxy_addresses_are_those_of_clients(configure: Any) -> None:
    configure("ForwardedHeaders", KnownProxies=["127.0.0.9"])
    request = environ(X_FORWARDED_FOR="2001:db8::1:2:3:4")
    assert Claimants().find(request) == "2001:db8::/64"


def test_claimants_take_turns_within_their_shares() -> None:
    async def play() -> tuple[list[str], int]:
        threads, order, at_work, most = Threads(4, "test", share=2), list[str](), Counter[str](), 0
        is_open, lock = threading.Event(), threading.Lock()

        def job(claimant: str) -> None:
            nonlocal most
            with lock:
                order.append(claimant)
                at_work[claimant] += 1
                most = max(most, at_work["first"])
            is_open.wait()
            with lock:
                at_work[claimant] -= 1

        asked = ["first"] * 5 + ["second"] * 4
        results = [asyncio.ensure_future(threads.do(partial(job, claimant), claimant)) for claimant in asked]
        await asyncio.sleep(0)
        results.pop(4).cancel()  # the first claimant's third, which waits
        assert threads.are_busy
        while len(order) < 4:
            await asyncio.sleep(0.001)
        is_open.set()
        await asyncio.gather(*results)
        assert not threads.are_busy
        return order, most

    order, most = asyncio.run(play())
    assert Counter(order) == {"first": 4, "second": 4}
    assert Counter(order[:4]) == {"first": 2, "second": 2}
    assert most == 2
