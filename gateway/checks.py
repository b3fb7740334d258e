"""What `gateway check` says; of the database with `--database default`, and `migrate` before it begins."""

from collections.abc import Sequence
from typing import Any

from django.core import checks

from active_directory import answers_are_compiled
from core.secrets.stored import find_secrets
from keys.agents.extra import how_to_install

_SHOWN = 10


@checks.register(checks.Tags.database)
def check_encryption_keys(databases: Sequence[str] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn of secrets whose key was dropped: of what they are for, nothing works until it is back.

    Asks no database that is not among `databases`: a worker runs all checks at its start, and can wait for its own.
    """
    if not databases:
        return []
    lost = [str(secret) for secret in find_secrets() if secret.key is None]
    if not lost:
        return []
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return [
        checks.Warning(
            f"No key of GATEWAY_ENCRYPTION_KEYS opens {', '.join(lost[:_SHOWN])}{more}.",
            hint="Put the key that was dropped behind the others, then run manage.py rotate_encryption_keys.",
            id="gateway.W001",
        )
    ]


@checks.register(checks.Tags.compatibility)
def check_answers(**_: Any) -> list[checks.CheckMessage]:
    """Warn where the module in C is missing or does not know this python-ldap: everything works, but more slowly."""
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
    """Warn where agents are switched on and what they need is not installed: whatever they ask is 501."""
    command = how_to_install()
    if command is None:
        return []
    return [
        checks.Warning(
            "Agents are switched on (Agents:Enabled), and what they need is not installed.",
            hint=f"In the folder with the files of the release: {command}; then restart the web server.",
            id="gateway.W003",
        )
    ]
