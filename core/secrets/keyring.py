"""The gateway's own secrets: from the environment, or on a single machine from files made at the first start.

`GATEWAY_SECRET_KEY_FILE=/run/secrets/key` replaces the variable without `_FILE`: container engines, Kubernetes and
systemd (`LoadCredential=`) pass secrets as files, which `/proc` and crash reports do not show as they show the
environment. An unusable secret stops the start; no message shows a secret.
"""

import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from cryptography.fernet import Fernet

from core.configuration import SECRET_VARIABLES, BadConfiguration

SHORTEST = 32
"""Characters of the secret key and of the first log key."""
FILES = ("secret-key", "encryption-keys", "log-keys")
"""In the data directory of a single machine."""


def with_secrets_from_files(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the secrets that files hold added, stripped of line breaks at their ends.

    Raises BadConfiguration for a file that is empty or cannot be read, and for a secret given both ways, since using
    either would be a guess.
    """
    given = dict(environment)
    for name in SECRET_VARIABLES:
        file = environment.get(f"{name}_FILE")
        if not file:
            continue
        if environment.get(name):
            raise BadConfiguration(f"{name}_FILE: {name} is set too; set one of them")
        try:
            value = Path(file).read_text("utf-8").strip("\r\n")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise BadConfiguration(f"{name}_FILE={file}: cannot be read: {reason}") from None
        if not value:
            raise BadConfiguration(f"{name}_FILE={file}: is empty")
        given[name] = value
    return given


def secret_key_from(environment: Mapping[str, str], folder: Path, *, single_machine: bool) -> str:
    """Django's SECRET_KEY, which signs sessions and form tokens."""
    name = "GATEWAY_SECRET_KEY"
    key = _secret(environment, name, folder / "secret-key", new_random_key, single_machine)
    if len(key) < SHORTEST or len(set(key)) < 8:
        raise BadConfiguration(f"{name}: must be at random, of {SHORTEST} characters or more")
    return key


def encryption_keys_from(environment: Mapping[str, str], folder: Path, *, single_machine: bool) -> list[str]:
    """Fernet keys for secrets at rest: the first encrypts, each of them decrypts."""
    name = "GATEWAY_ENCRYPTION_KEYS"
    keys = _split_keys(_secret(environment, name, folder / "encryption-keys", new_encryption_key, single_machine))
    for number, key in enumerate(keys, 1):
        try:
            Fernet(key)
        except ValueError:
            raise BadConfiguration(
                f"{name}: key {number} of {len(keys)} is none; a key is 32 bytes at random in URL-safe base64"
            ) from None
    return keys


def log_keys_from(
    environment: Mapping[str, str], folder: Path, *, single_machine: bool, formerly: list[str] | None
) -> list[str]:
    """Keys of the operations log: the first seals, each of them verifies.

    `formerly` are the keys with which an earlier release sealed this installation's log; None for a new installation.
    A generated file keeps them, so that the old seals still verify.
    """
    name = "GATEWAY_LOG_KEYS"

    def make() -> str:
        return ",".join([new_random_key(), *(formerly or [])])

    keys = _split_keys(_secret(environment, name, folder / "log-keys", make, single_machine))
    if not keys or "" in keys or len(keys[0]) < SHORTEST:
        raise BadConfiguration(
            f"{name}: the first key must be at random, of {SHORTEST} characters or more; none is empty"
        )
    return keys


def new_encryption_key() -> str:
    """Generate one of GATEWAY_ENCRYPTION_KEYS."""
    return Fernet.generate_key().decode()


def new_random_key() -> str:
    """Generate a value for GATEWAY_SECRET_KEY, or one of GATEWAY_LOG_KEYS."""
    return secrets.token_urlsafe(48)


def _split_keys(text: str) -> list[str]:
    """Split keys at commas and line breaks, which are easier to edit in a file."""
    lines = [line for line in text.splitlines() if line.strip()] or [""]
    return [key.strip() for line in lines for key in line.split(",")]


def _secret(
    environment: Mapping[str, str], name: str, file: Path, make: Callable[[], str], single_machine: bool
) -> str:
    if value := environment.get(name):
        return value
    if not single_machine:
        also = " (for a log that the encryption keys sealed, put these behind it)" if name == "GATEWAY_LOG_KEYS" else ""
        raise BadConfiguration(f"{name}: must be set, the same on every host, when the database is PostgreSQL{also}")
    return _read_or_make(file, make)


def _read_or_make(file: Path, make: Callable[[], str]) -> str:
    """Read the secret from a file of mode 0600, which the first start makes."""
    try:
        return file.read_text("ascii").strip()
    except FileNotFoundError:
        pass
    except (OSError, ValueError):
        raise BadConfiguration(f"{file}: cannot be read as text") from None
    value = make()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}.") as new:
            new.write(value)
            new.flush()
            os.fsync(new.fileno())  # a power cut must not lose the key of what it has encrypted since
            os.link(new.name, file)  # atomic, and unlike a rename fails if another process has made it
    except FileExistsError:
        return file.read_text("ascii").strip()
    except OSError as error:
        raise BadConfiguration(f"{file}: cannot be written: {error.strerror}") from None
    return value
