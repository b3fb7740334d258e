"""The ASGI application that granian serves (`--interface asginl`): `RequestGateway` in front of Django."""

import ctypes
import os
import resource
from contextlib import suppress

from gateway.application import application as django  # sets Django up

from directory.lookup.connection import load_schemas_soon  # isort: skip
from gateway.server.asgi import RequestGateway  # isort: skip
from keys.first_administrator import announce_soon  # isort: skip

# What the event loop answers relies on Django's refusal to work there. Django would open a connection for each request.
os.environ.pop("DJANGO_ALLOW_ASYNC_UNSAFE", None)

# Every connection needs a file descriptor, and the soft limit of many systems is 1024.
_, _hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_hard_limit, _hard_limit))

# Return the memory of large search results to the system (mallopt(3), glibc only). By default every thread that reads
# one keeps a heap of its own, and glibc raises its thresholds to the size of the largest block that was ever freed.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_MEGABYTE = 1 << 20
with suppress(AttributeError, OSError):
    _mallopt = ctypes.CDLL(None).mallopt
    _mallopt(_M_ARENA_MAX, 2)
    _mallopt(_M_MMAP_THRESHOLD, _MEGABYTE)
    _mallopt(_M_TRIM_THRESHOLD, _MEGABYTE)

load_schemas_soon()
announce_soon()
application = RequestGateway(django)
