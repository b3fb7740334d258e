"""A connection that can retry safely, since the gateway carries out requests with the same idempotency key once."""

import asyncio
import time
from collections.abc import Generator, Mapping
from typing import Any, TypedDict, TypeVar, Unpack
from urllib.parse import quote
from uuid import uuid4

import httpx

from gateway_client.generated.api import AsyncGateway, Gateway

WRITES = frozenset({"POST", "PATCH", "DELETE"})
PASSING = frozenset({429, 503})
"""A limit is reached, or a part of the gateway is away: nothing was changed, and `Retry-After` says when to retry."""
IN_PROGRESS = "Idempotency.InProgress"
REASON = "x-change-reason"

GatewayKind = TypeVar("GatewayKind", Gateway, AsyncGateway)
Attempts = Generator[float, httpx.Response | None, None]


class _RetryPolicy:
    """How often to send a request, and how long to wait in between.

    A request that got no answer may have been carried out. With the same idempotency key it is not carried out twice.
    """

    def __init__(self, attempts: int, longest_wait: float) -> None:
        self._attempts = attempts
        self._longest_wait = longest_wait

    def attempts(self) -> Attempts:
        """Yield the seconds to wait before each attempt. Send it the previous response, None if there was none."""
        wait = 0.0
        for attempt in range(1, self._attempts + 1):
            response = yield wait
            wait = min(2.0**attempt / 2, self._longest_wait)
            if response is not None:
                if not _is_passing(response):
                    return
                wait = _seconds(response, default=wait)
                if wait > self._longest_wait:
                    return


class _Retrying(httpx.BaseTransport):
    def __init__(self, inner: httpx.BaseTransport, policy: _RetryPolicy) -> None:
        self._inner = inner
        self._policy = policy

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        attempts = self._policy.attempts()
        next(attempts)
        while True:
            response, failure = None, None
            try:
                response = self._inner.handle_request(request)
                if response.status_code == 409:
                    response.read()
            except httpx.TransportError as error:
                failure = error
            try:
                wait = attempts.send(response)
            except StopIteration:
                return _result(response, failure)
            if response is not None:
                response.close()
            time.sleep(wait)

    def close(self) -> None:
        self._inner.close()


class _AsyncRetrying(httpx.AsyncBaseTransport):
    def __init__(self, inner: httpx.AsyncBaseTransport, policy: _RetryPolicy) -> None:
        self._inner = inner
        self._policy = policy

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        attempts = self._policy.attempts()
        next(attempts)
        while True:
            response, failure = None, None
            try:
                response = await self._inner.handle_async_request(request)
                if response.status_code == 409:
                    await response.aread()
            except httpx.TransportError as error:
                failure = error
            try:
                wait = attempts.send(response)
            except StopIteration:
                return _result(response, failure)
            if response is not None:
                await response.aclose()
            await asyncio.sleep(wait)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Client(httpx.Client):
    def build_request(self, method: str, url: Any, *, headers: Any = None, **given: Any) -> httpx.Request:
        return _with_key(super().build_request(method, url, headers=_encoded(headers), **given))


class _AsyncClient(httpx.AsyncClient):
    def build_request(self, method: str, url: Any, *, headers: Any = None, **given: Any) -> httpx.Request:
        return _with_key(super().build_request(method, url, headers=_encoded(headers), **given))


def _encoded(headers: Any) -> Any:
    """Percent-encode the reason, which may be in any language: httpx takes headers in ASCII only."""
    if not isinstance(headers, Mapping):
        return headers
    safe = " !#$&'()*+,-./:;<=>?@[]^_`{|}~"
    return {name: quote(value, safe=safe) if name.lower() == REASON else value for name, value in headers.items()}


def _with_key(request: httpx.Request) -> httpx.Request:
    """Give a write an idempotency key, unless it has one."""
    if request.method in WRITES:
        request.headers.setdefault("Idempotency-Key", str(uuid4()))
    return request


def _is_passing(response: httpx.Response) -> bool:
    if response.status_code == 409:
        # The previous request, which got no answer, is still being carried out.
        return response.content != b"" and response.json().get("code") == IN_PROGRESS
    return response.status_code in PASSING


def _seconds(response: httpx.Response, *, default: float) -> float:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdigit() else default


def _result(response: httpx.Response | None, failure: httpx.TransportError | None) -> httpx.Response:
    if response is None:
        assert failure is not None
        raise failure
    return response


class Options(TypedDict, total=False):
    """`client_id` chooses the directory for a key with several links.

    Times are in seconds; if a retry would have to wait longer than `longest_wait`, the response is returned as it is.
    `verify` may name a file of certificate authorities.
    """

    token: str
    client_id: str
    timeout: float
    attempts: int
    longest_wait: float
    verify: bool | str


def connect(base_url: str, key: str | None = None, **options: Unpack[Options]) -> Gateway:
    """Make a connection with an API key, or with a person's access token as `token`."""
    return _connect(Gateway, base_url, key, **options)


def connect_async(base_url: str, key: str | None = None, **options: Unpack[Options]) -> AsyncGateway:
    """Make a connection as `connect` does; its methods are awaited."""
    return _connect(AsyncGateway, base_url, key, **options)


def _connect(
    kind: type[GatewayKind],
    base_url: str,
    key: str | None,
    *,
    token: str | None = None,
    client_id: str | None = None,
    timeout: float = 60,
    attempts: int = 5,
    longest_wait: float = 60,
    verify: bool | str = True,
) -> GatewayKind:
    if (key is None) == (token is None):
        raise TypeError("give either an API key or an access token")
    headers = {"X-API-Key": key} if key is not None else {"Authorization": f"Bearer {token}"}
    headers |= {} if client_id is None else {"X-Client-Id": client_id}
    given: dict[str, Any] = {"base_url": base_url, "headers": headers, "timeout": httpx.Timeout(timeout)}
    policy = _RetryPolicy(attempts, longest_wait)
    client = kind(base_url=base_url, token=key or token or "", headers=headers)
    client.set_httpx_client(_Client(transport=_Retrying(httpx.HTTPTransport(verify=verify), policy), **given))
    transport = _AsyncRetrying(httpx.AsyncHTTPTransport(verify=verify), policy)
    client.set_async_httpx_client(_AsyncClient(transport=transport, **given))
    return client
