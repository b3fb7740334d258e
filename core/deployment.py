"""What the deployment sets in the environment: database, hosts, mail server. `gateway.settings` reads it once.

`core.redis.urls` reads the address of Redis.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from core.configuration import BadConfiguration


def database_from(url: str, password: str = "") -> dict[str, Any]:
    """Django's database settings for `sqlite:///path` or `postgresql://user:password@host:port/name?host=/socket/dir`.

    `password` is literal, not percent-encoded, and for a URL without one. Raises BadConfiguration.
    """
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        path = unquote(parts.path[1:] if parts.path.startswith("//") else parts.path)
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": path,
            # WAL lets readers work beside the one writer; IMMEDIATE takes the write lock at the start of a
            # transaction, where waiting for it is safe (a deferred upgrade fails at once with "database is locked").
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;",
            },
            "CONN_MAX_AGE": None,
        }
    if parts.scheme in ("postgres", "postgresql"):
        options = dict(parse_qsl(parts.query))
        in_url = options.pop("password", unquote(parts.password or ""))
        if password and in_url:
            raise BadConfiguration("DATABASE_PASSWORD: DATABASE_URL has a password too; give one of them")
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.lstrip("/")),
            "USER": options.pop("user", unquote(parts.username or "")),
            "PASSWORD": password or in_url,
            "HOST": options.pop("host", parts.hostname or ""),
            "PORT": options.pop("port", str(parts.port or "")),
            "OPTIONS": options,
            "CONN_MAX_AGE": 600,
            "CONN_HEALTH_CHECKS": True,
        }
    # The message leaves the URL out: a malformed one may hold the password anywhere.
    raise BadConfiguration("DATABASE_URL: begins neither with sqlite:// nor with postgresql://")


def hosts_from(environment: Mapping[str, str], *, development: bool) -> list[str]:
    """The host names that the gateway answers to; in Development any, unless some are named."""
    hosts = [host.strip() for host in environment.get("GATEWAY_ALLOWED_HOSTS", "").split(",") if host.strip()]
    if development:
        return hosts or ["*"]
    if not hosts or any(not host.strip(".*") for host in hosts):
        raise BadConfiguration(
            "GATEWAY_ALLOWED_HOSTS: in Production it must name the hosts at which the gateway is reached, separated by "
            "commas (gateway.example.com; .example.com for all below), and not *"
        )
    return hosts


def mail_from(environment: Mapping[str, str], *, development: bool) -> dict[str, Any]:
    """Django's settings for e-mail, by name. Development without EMAIL_HOST prints mail to the console."""
    mail: dict[str, Any] = {
        "EMAIL_HOST": environment.get("EMAIL_HOST") or "localhost",
        "EMAIL_PORT": _number(environment, "EMAIL_PORT", 25),
        "EMAIL_HOST_USER": environment.get("EMAIL_HOST_USER", ""),
        "EMAIL_HOST_PASSWORD": environment.get("EMAIL_HOST_PASSWORD", ""),
        "EMAIL_USE_TLS": _flag(environment, "EMAIL_USE_TLS"),
        "EMAIL_USE_SSL": _flag(environment, "EMAIL_USE_SSL"),
        "EMAIL_TIMEOUT": _number(environment, "EMAIL_TIMEOUT", 10),
        "DEFAULT_FROM_EMAIL": environment.get("DEFAULT_FROM_EMAIL") or "directory-gateway@localhost",
    }
    if mail["EMAIL_USE_TLS"] and mail["EMAIL_USE_SSL"]:
        raise BadConfiguration("EMAIL_USE_TLS: is STARTTLS, and cannot be true together with EMAIL_USE_SSL")
    to_console = development and not environment.get("EMAIL_HOST")
    mail["EMAIL_BACKEND"] = f"django.core.mail.backends.{'console' if to_console else 'smtp'}.EmailBackend"
    return mail


def _number(environment: Mapping[str, str], key: str, default: int) -> int:
    text = environment.get(key) or str(default)
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 65_535:
        raise BadConfiguration(f"{key}: must be a number from 1 to 65535, not {text!r}")
    return int(text)


def _flag(environment: Mapping[str, str], key: str) -> bool:
    text = environment.get(key) or "false"
    if text not in ("true", "false"):
        raise BadConfiguration(f"{key}: must be true or false, not {text!r}")
    return text == "true"
