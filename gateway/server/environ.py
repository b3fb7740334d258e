"""A request as ASGI describes it, as the environment of WSGI (PEP 3333), but for its body."""

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes

Environ = dict[str, Any]
Scope = Mapping[str, Any]


@lru_cache(maxsize=1024)
def _variable(name: bytes) -> str | None:
    """The variable of a header; None for one that is dropped: its name holds an underscore.

    A WSGI environment has one variable, HTTP_X_FORWARDED_FOR, for `X-Forwarded-For` and `X_Forwarded_For`. No header
    that we know is spelt so, and a proxy that replaces the one would let the other through.
    """
    if b"_" in name:
        return None
    variable = name.decode("latin-1").upper().replace("-", "_")
    return variable if variable in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{variable}"


def environ_of(scope: Scope) -> Environ:
    """The environment of a request. Bytes beyond ASCII stand in it as latin-1, as PEP 3333 wants it."""
    raw_path: bytes = scope["raw_path"]
    host, port = scope["server"]
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": (unquote_to_bytes(raw_path) if b"%" in raw_path else raw_path).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": scope["client"][0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        variable = _variable(name)
        if variable is None:
            continue
        text = value.decode("latin-1")
        if variable in environ:  # several lines of one header are one list (RFC 9110 5.2, of cookies RFC 6265 5.4)
            environ[variable] += ("; " if variable == "HTTP_COOKIE" else ",") + text
        else:
            environ[variable] = text
    return environ
