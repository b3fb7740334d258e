"""The checks of `gateway check`; those of the database run with `--database default`, and before `migrate`."""

from collections.abc import Sequence
from typing import Any

from django.core import checks

from active_directory import answers_are_compiled
from core.secrets.encryption import find_secrets
from keys.agents.availability import install_command

_SHOWN = 10


@checks.register(checks.Tags.database)
def check_encryption_keys(databases: Sequence[str] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn about secrets that no configured key decrypts: what they are for fails until the key is back.

    Queries the database only if it is among `databases`: a worker runs all checks when it starts, and its database
    may still be down.
    """
    if not databases:
        return []
    unreadable = [str(secret) for secret in find_secrets() if secret.key is None]
    if not unreadable:
        return []
    more = f" and {len(unreadable) - _SHOWN} more" if len(unreadable) > _SHOWN else ""
    return [
        checks.Warning(
            f"No key of GATEWAY_ENCRYPTION_KEYS opens {', '.join(unreadable[:_SHOWN])}{more}.",
            hint="Put the key that was dropped behind the others, then run manage.py rotate_encryption_keys.",
            id="gateway.W001",
        )
    ]


@checks.register(checks.Tags.compatibility)
def check_answers(**_: Any) -> list[checks.CheckMessage]:
    """Warn if the C extension is missing or does not fit this python-ldap: everything works, but slower."""
    if answers_are_compiled():
        return []
    return [
        checks.Warning(
            "The directory's answers are decoded by python-ldap, so that large searches take a third longer.",
            hint="Install the wheel that was built for this machine, with the versions of requirements.txt.",
            id="gateway.W002",
        )
    ]


@checks.register(checks.Tags.compatibility)
def check_agents(**_: Any) -> list[checks.CheckMessage]:
    """Warn if agents are enabled but their packages are not installed: they are answered 501."""
    command = install_command()
    if command is None:
        return []
    return [
        checks.Warning(
            "Agents are switched on (Agents:Enabled), and what they need is not installed.",
            hint=f"In the folder with the files of the release: {command}; then restart the web server.",
            id="gateway.W003",
        )
    ]
