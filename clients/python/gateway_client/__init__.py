"""A typed client of the Directory Management Gateway.

`gateway_client.generated` is made from the gateway's OpenAPI document, one module for each operation. This package adds
what every program needs besides: a connection that tries again, pages, refusals as exceptions, and waiting.
"""

from gateway_client.answers import Held, Refused, expect, pages
from gateway_client.connection import connect
from gateway_client.waiting import wait_for_change, wait_for_run

__all__ = ["Held", "Refused", "connect", "expect", "pages", "wait_for_change", "wait_for_run"]
