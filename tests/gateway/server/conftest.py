"""A real server of the slow and long views, with four threads and so long time for bodies that no test sees its end."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from lab.redis import RedisServer
from tests.gateway.middleware.conftest import Server, serving

THREADS = 4


@pytest.fixture(scope="session")
def server(redis_server: RedisServer) -> Iterator[Server]:
    with serving_slow_clients() as server:
        yield server


def serving_slow_clients(workers: int = 1, /, **environment: str) -> AbstractContextManager[Server]:
    """A server of its own, for a test that leaves it in a state of its own."""
    given = {
        "RateLimiting__Enabled": "false",
        "RequestLimits__BodySeconds": "120",
        # All come from one address.
        "Web__ThreadsPerCredential": str(THREADS),
        "ForwardedHeaders__KnownProxies": '["127.0.0.0/8"]',
    }
    return serving("tests.gateway.server.served:application", workers, **given | environment)
