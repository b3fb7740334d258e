"""A connection that may try again, because the gateway carries out a request with one idempotency key once."""

import time
from uuid import uuid4

import httpx

from gateway_client.generated import AuthenticatedClient

WRITES = frozenset({"POST", "PATCH", "DELETE"})
PASSING = frozenset({429, 503})
"""A limit is reached, or a part of the gateway is away: nothing was changed, and `Retry-After` says when to come."""
IN_PROGRESS = "Idempotency.InProgress"


class Retrying(httpx.BaseTransport):
    """Gives each write an idempotency key, unless it has one, and sends again what failed for the moment.

    A request that got no answer may have been carried out. It is sent again with the same key, and so not done twice.
    """

    def __init__(self, inner: httpx.BaseTransport, *, attempts: int, longest_wait: float) -> None:
        self._inner = inner
        self._attempts = attempts
        self._longest_wait = longest_wait

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method in WRITES and "Idempotency-Key" not in request.headers:
            request.headers["Idempotency-Key"] = str(uuid4())
        for attempt in range(1, self._attempts):
            try:
                response = self._inner.handle_request(request)
                if not _is_passing(response):
                    return response
            except httpx.TransportError:
                time.sleep(min(2.0**attempt / 2, self._longest_wait))
                continue
            wait = _seconds(response, default=2.0**attempt / 2)
            if wait > self._longest_wait:
                return response
            response.close()
            time.sleep(wait)
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


def _is_passing(response: httpx.Response) -> bool:
    if response.status_code == 409:
        # The request before, which got no answer, is still being carried out.
        return response.read() != b"" and response.json().get("code") == IN_PROGRESS
    return response.status_code in PASSING


def _seconds(response: httpx.Response, *, default: float) -> float:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdigit() else default


def connect(
    base_url: str,
    key: str,
    *,
    client_id: str | None = None,
    timeout: float = 60,
    attempts: int = 5,
    longest_wait: float = 60,
    verify: bool | str = True,
) -> AuthenticatedClient:
    """A client with an API key.

    `client_id` chooses the directory for a key with several links. Times are seconds; what should wait for longer than
    `longest_wait` is answered as it is. `verify` may name a file of certificate authorities.
    """
    transport = Retrying(httpx.HTTPTransport(verify=verify), attempts=attempts, longest_wait=longest_wait)
    return AuthenticatedClient(
        base_url=base_url,
        token=key,
        prefix="",
        auth_header_name="X-API-Key",
        headers={} if client_id is None else {"X-Client-Id": client_id},
        timeout=httpx.Timeout(timeout),
        httpx_args={"transport": transport},
    )
