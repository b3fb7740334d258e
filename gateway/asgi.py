"""The ASGI application that granian serves (`--interface asginl`): Django's application behind the front."""

import ctypes
import resource
from contextlib import suppress

from gateway.application import application as django  # sets Django up

from directory.lookup.connection import load_schemas_soon  # isort: skip
from gateway.monitoring.access_lines import access_lines  # isort: skip
from gateway.server.front import Front  # isort: skip
from keys.first_administrator import announce_soon  # isort: skip

# A connection is a file descriptor, and many systems allow 1024 of them until more are asked for.
_, _most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_most, _most))

# Every thread in which LDAP answers are read would keep a heap of its own for the largest of them (mallopt(3), glibc
# only): a process is a fifth smaller after searches of a thousand objects.
_M_ARENA_MAX = -8
with suppress(AttributeError, OSError):
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)

load_schemas_soon()
announce_soon()
application = Front(django)
access_lines.start()
