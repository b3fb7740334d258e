"""What the deployment gives through the environment: database, secrets, mail server. Read once by settings."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from cryptography.fernet import Fernet

from gateway.core.configuration import BadConfiguration


def database_from(url: str) -> dict[str, Any]:
    """Django's database settings for `sqlite:///path` or `postgresql://user:password@host:port/name?host=/socket/dir`."""
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
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.lstrip("/")),
            "USER": options.pop("user", unquote(parts.username or "")),
            "PASSWORD": options.pop("password", unquote(parts.password or "")),
            "HOST": options.pop("host", parts.hostname or ""),
            "PORT": options.pop("port", str(parts.port or "")),
            "OPTIONS": options,
            "CONN_MAX_AGE": 600,
            "CONN_HEALTH_CHECKS": True,
        }
    raise BadConfiguration(f"DATABASE_URL: {parts.scheme or url!r} is neither sqlite nor postgresql")


def mail_from(environment: Mapping[str, str], *, development: bool) -> dict[str, Any]:
    """Django's settings for sending e-mail, under their own names; to the console in Development without EMAIL_HOST."""
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


def _kept_secret(path: Path, make: Any) -> str:
    """The secret in a file of mode 0600, made on the first start."""
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    value: str = make()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:  # another process of the same first start was faster
        return path.read_text("ascii").strip()
    with os.fdopen(handle, "w") as file:
        file.write(value)
    return value


def secret_from(environment: Mapping[str, str], key: str, file: Path, *, single_machine: bool) -> str:
    """A secret from the environment; on a single machine it may live in a file instead, made on the first start."""
    if value := environment.get(key):
        return value
    if not single_machine:
        raise BadConfiguration(f"{key}: must be set, the same on every host, when the database is PostgreSQL")
    make = (lambda: Fernet.generate_key().decode()) if "ENCRYPTION" in key else (lambda: secrets.token_urlsafe(48))
    return _kept_secret(file, make)
