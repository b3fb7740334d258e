"""The ASGI application that granian serves (`--interface asginl`): Django's application behind the front."""

import ctypes
import resource
from contextlib import suppress

from gateway.application import application as django  # sets Django up

from directory.lookup.connection import load_schemas_soon  # isort: skip
from gateway.server.asgi import RequestGateway  # isort: skip
from keys.first_administrator import announce_soon  # isort: skip

# A connection is a file descriptor, and many systems allow 1024 of them until more are asked for.
_, _most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_most, _most))

# What answers to large searches leave behind (mallopt(3), glibc only). Every thread that reads one would keep a heap of
# its own; and once a large block was freed, glibc would keep what is as large, and all below it, for the next.
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
