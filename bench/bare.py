"""The minimal cost of a read through a web server: the same LDAP search without key, limit or record.

It is served as the gateway is. No gateway written in Python can be faster on the same machine.
"""

import json
import os
import threading
from typing import Any

import django
import ldap
from django.http import HttpResponse

from bench.reads import ATTRIBUTES

_own = threading.local()


def _connection() -> ldap.ldapobject.SimpleLDAPObject:
    """This thread's connection."""
    if not hasattr(_own, "connection"):
        connection = ldap.initialize(os.environ["BENCH_LDAP_URL"])
        connection.set_option(ldap.OPT_X_TLS_CACERTFILE, os.environ["BENCH_CA_FILE"])
        connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
        connection.simple_bind_s(os.environ["BENCH_BIND_DN"], os.environ["BENCH_PASSWORD"])
        _own.connection = connection
    return _own.connection


def _read(environ: dict[str, Any]) -> HttpResponse:
    """`GET …/<objectGUID>`: the attributes of the object."""
    guid = environ["PATH_INFO"].rpartition("/")[2]
    _, values = _connection().search_ext_s(f"<GUID={guid}>", ldap.SCOPE_BASE, attrlist=ATTRIBUTES)[0]
    body = json.dumps({name: [value.decode() for value in found] for name, found in values.items()}).encode()
    return HttpResponse(body, headers={"Content-Type": "application/json", "Content-Length": str(len(body))})


django.setup()
from gateway.server.asgi import RequestGateway  # noqa: E402 - after Django is set up, for the limits of bodies

application = RequestGateway(_read)
