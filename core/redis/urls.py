"""The URL of Redis: of a server, of its socket, or of the Sentinels that know which server is the primary."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from core.configuration import BadConfiguration

_SENTINEL_URL = re.compile(
    r"(?P<scheme>sentinels?)://(?:(?P<credentials>[^/?#@]*)@)?(?P<addresses>[^/?#@]+)"
    r"/(?P<service>[A-Za-z0-9._-]+)(?:/(?P<database>\d{1,4}))?(?:\?(?P<query>[^#]*))?"
)
_SENTINEL_PORT = 26379
_PASSWORD, _USERNAME = "sentinel_password", "sentinel_username"
_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""Parameters of redis-py that name PEM files."""
_FORMS = (
    "REDIS_URL: must be redis://host:port/number, rediss://…, unix:///socket or sentinel://host:port,host:port/name; "
    "in its password /, ?, #, @, : and % are percent-encoded"
)


@dataclass(frozen=True)
class Sentinels:
    """What `sentinel://[user:password@]host:port,…/name[/number]` says; `sentinels://` is the same with TLS.

    `server` and `sentinel` are options of the connections to Redis and to its Sentinels: credentials and TLS.
    """

    addresses: tuple[tuple[str, int], ...]
    service: str
    database: int
    server: dict[str, Any] = field(repr=False)
    sentinel: dict[str, Any] = field(repr=False)


def sentinels_of(url: str) -> Sentinels | None:
    """Parse a URL of Sentinels; None for that of a server. Raises BadConfiguration, which never shows the URL."""
    if not url.startswith(("sentinel:", "sentinels:")):
        return None
    found = _SENTINEL_URL.fullmatch(url)
    if found is None:
        raise BadConfiguration(_FORMS)
    given = dict(parse_qsl(found["query"] or "", keep_blank_values=True))
    if unknown := given.keys() - {_PASSWORD, _USERNAME, *_TLS}:
        raise BadConfiguration(f"REDIS_URL: there is no parameter {sorted(unknown)[0]!r} for Sentinels")
    tls: dict[str, Any] = {name: given[name] for name in _TLS if name in given}
    if found["scheme"] == "sentinels":
        tls["ssl"] = True
    elif tls:
        raise BadConfiguration("REDIS_URL: has files for TLS; begin it with sentinels://")
    user, _, password = (found["credentials"] or "").partition(":")
    return Sentinels(
        tuple(_address_of(text) for text in found["addresses"].split(",")),
        found["service"],
        int(found["database"] or 0),
        tls | _credentials(unquote(user), unquote(password)),
        tls | _credentials(given.get(_USERNAME, ""), given.get(_PASSWORD, "")),
    )


def _credentials(user: str, password: str) -> dict[str, str]:
    return {name: value for name, value in (("username", user), ("password", password)) if value}


def _address_of(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError:
        raise BadConfiguration(_FORMS) from None
    if not parts.hostname or port == 0:
        raise BadConfiguration(_FORMS)
    return parts.hostname, port or _SENTINEL_PORT


def redis_from(url: str, password: str = "", sentinel_password: str = "") -> str:
    """The URL for `core.redis.clients` and `broker_from`, with the passwords in it.

    Passwords beside the URL are literal, not percent-encoded, and for a URL without them. Raises BadConfiguration,
    which never shows the URL, since it may contain a password.
    """
    sentinels = sentinels_of(url)
    if sentinels is not None:
        return _with_passwords(url, sentinels, password, sentinel_password)
    if sentinel_password:
        raise BadConfiguration("REDIS_SENTINEL_PASSWORD: REDIS_URL names no Sentinel (sentinel://…)")
    try:
        parts = urlsplit(url)
        usable = parts.port != 0 and (bool(parts.hostname) if parts.scheme in ("redis", "rediss") else bool(parts.path))
    except ValueError:
        usable = False
    if not usable or parts.scheme not in ("redis", "rediss", "unix") or parts.fragment:
        raise BadConfiguration(_FORMS)
    if not password:
        return url
    if parts.password or "password" in dict(parse_qsl(parts.query)):
        raise _given_twice("REDIS_PASSWORD")
    if parts.scheme == "unix":
        return f"unix://{parts.netloc}{parts.path}?{urlencode({**dict(parse_qsl(parts.query)), 'password': password})}"
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.rstrip(':')}:{quote(password, safe='')}@{host}").geturl()


def _with_passwords(url: str, sentinels: Sentinels, password: str, sentinel_password: str) -> str:
    if password:
        if "password" in sentinels.server:
            raise _given_twice("REDIS_PASSWORD")
        scheme, _, rest = url.partition("://")
        user, _, place = rest.rpartition("@")
        url = f"{scheme}://{user.rstrip(':')}:{quote(password, safe='')}@{place}"
    if sentinel_password:
        if "password" in sentinels.sentinel:
            raise _given_twice("REDIS_SENTINEL_PASSWORD")
        url += f"{'&' if '?' in url else '?'}{urlencode({_PASSWORD: sentinel_password})}"
    return url


def _given_twice(name: str) -> BadConfiguration:
    return BadConfiguration(f"{name}: REDIS_URL has a password too; give one of them")


def broker_from(url: str) -> str:
    """The URL as Celery writes it: sockets and Sentinels differ. `broker_options_from` gives the options for it."""
    if sentinels := sentinels_of(url):
        server = sentinels.server
        names = [quote(server[name], safe="") if name in server else "" for name in ("username", "password")]
        credentials = f"{':'.join(names)}@" if any(names) else ""
        hosts = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in sentinels.addresses]
        return ";".join(f"sentinel://{credentials}{host}/{sentinels.database}" for host in hosts)
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    query = dict(parse_qsl(parts.query))
    number, password = query.pop("db", "0"), query.pop("password", None)
    credentials = parts.netloc if password is None else f"{parts.netloc.partition(':')[0]}:{quote(password, safe='')}@"
    return f"redis+socket://{credentials}{parts.path}?{urlencode({'virtual_host': number, **query})}"


def redis_warning(url: str) -> str | None:
    """Warn of a Redis that others can reach without a password; None if there is nothing to warn of."""
    if sentinels := sentinels_of(url):
        is_near = all(_is_loopback(host) for host, _ in sentinels.addresses)
        is_open = "password" not in sentinels.server and not is_near
        return f"Redis {sentinels.service!r} behind Sentinels asks for no password" if is_open else None
    parts = urlsplit(url)
    if parts.password or dict(parse_qsl(parts.query)).get("password"):
        return None
    if parts.scheme == "unix":
        path = Path(unquote(parts.path))
        is_open = path.exists() and bool(path.stat().st_mode & 0o002)
        return f"Redis asks for no password, and every account may use its socket {path}" if is_open else None
    return None if _is_loopback(parts.hostname or "") else f"Redis at {parts.hostname} asks for no password"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def tls_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that name TLS files."""
    return {name: options[name] for name in _TLS if name in options}
