"""A typed client of the Directory Management Gateway.

`gateway_client.generated` is generated from the gateway's OpenAPI document: a method for each operation, a class for
each shape. This package adds what every program needs: a connection that retries, pages and streams, refusals as
exceptions, and waiting.
"""

from gateway_client.answers import Held, Refused, expect
from gateway_client.calls import pages, stream
from gateway_client.connection import connect, connect_async
from gateway_client.generated.api import AsyncGateway, Gateway
from gateway_client.waiting import wait_for_change, wait_for_run

__all__ = [
    "AsyncGateway",
    "Gateway",
    "Held",
    "Refused",
    "connect",
    "connect_async",
    "expect",
    "pages",
    "stream",
    "wait_for_change",
    "wait_for_run",
]
