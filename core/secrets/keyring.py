"""The gateway's own secrets: from the environment, or on a single machine from files made on the first start.

Whatever is unusable stops the start, and no message shows a secret.
"""

import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cryptography.fernet import Fernet

from core.configuration import BadConfiguration

SHORTEST: Final = 32
"""Characters of the secret key and of the log key that seals."""
FILES: Final = ("secret-key", "encryption-keys", "log-keys")
"""In the data directory of a single machine."""


def secret_key_from(environment: Mapping[str, str], folder: Path, *, single_machine: bool) -> str:
    """What sessions and tokens of forms are signed with."""
    name = "GATEWAY_SECRET_KEY"
    key = _secret(environment, name, folder / "secret-key", new_secret_key, single_machine)
    if len(key) < SHORTEST or len(set(key)) < 8:
        raise BadConfiguration(f"{name}: must be at random, of {SHORTEST} characters or more")
    return key


def encryption_keys_from(environment: Mapping[str, str], folder: Path, *, single_machine: bool) -> list[str]:
    """Fernet keys for secrets at rest: the first encrypts, each of them decrypts."""
    name = "GATEWAY_ENCRYPTION_KEYS"
    keys = _listed(_secret(environment, name, folder / "encryption-keys", new_encryption_key, single_machine))
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
    """What the operations log is sealed with: the first seals, each of them is good for verifying.

    `formerly` are the keys with which an installation from before sealed its log; None for a new one. They verify on.
    """
    name = "GATEWAY_LOG_KEYS"

    def make() -> str:
        return ",".join([new_log_key(), *(formerly or [])])

    keys = _listed(_secret(environment, name, folder / "log-keys", make, single_machine))
    if not keys or "" in keys or len(keys[0]) < SHORTEST:
        raise BadConfiguration(
            f"{name}: the first key must be at random, of {SHORTEST} characters or more; none is empty"
        )
    return keys


def new_secret_key() -> str:
    """A value for GATEWAY_SECRET_KEY."""
    return secrets.token_urlsafe(48)


def new_encryption_key() -> str:
    """One of GATEWAY_ENCRYPTION_KEYS."""
    return Fernet.generate_key().decode()


def new_log_key() -> str:
    """One of GATEWAY_LOG_KEYS."""
    return secrets.token_urlsafe(48)


def _listed(text: str) -> list[str]:
    """Keys are separated by commas, or stand in a line each, as it is easier to edit in a file."""
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
    return _kept(file, make)


def _kept(file: Path, make: Callable[[], str]) -> str:
    """The secret in a file of mode 0600, made on the first start."""
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
            os.fsync(new.fileno())  # what it encrypts or seals must not outlive it
            os.link(new.name, file)  # whole or not at all
    except FileExistsError:  # another process of the same first start was faster
        return file.read_text("ascii").strip()
    except OSError as error:
        raise BadConfiguration(f"{file}: cannot be written: {error.strerror}") from None
    return value
