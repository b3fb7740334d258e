"""`gateway keys needed`: what each configured key is still needed for, and which one is missing."""

from collections import Counter
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit.chain.seals import name_of_key
from audit.chain.verification import find_missing_keys, find_seals_by_key
from gateway.core.secrets.stored import find_secrets


class Command(BaseCommand):
    """Keys are numbered as they stand in GATEWAY_ENCRYPTION_KEYS and GATEWAY_LOG_KEYS, and are not shown."""

    help = "Say what each of the gateway's keys is needed for. Exits 1 when one is missing."

    def handle(self, *args: Any, **options: Any) -> None:
        secrets = Counter(secret.key for secret in find_secrets())
        for number in range(1, len(settings.ENCRYPTION_KEYS) + 1):
            self._tell("Encryption", number, f"opens {secrets[number]} secrets" if secrets[number] else None)
        seals = find_seals_by_key()
        for number, key in enumerate(settings.LOG_KEYS, 1):
            made = seals.get(name_of_key(key))
            self._tell(
                "Log", number, f"made seals {made[0]} to {made[1]}: keep it as long as the log" if made else None
            )
        missing = [str(finding) for finding in find_missing_keys()]
        if secrets[None]:
            missing.append(f"No key of GATEWAY_ENCRYPTION_KEYS opens {secrets[None]} secrets")
        if missing:
            raise CommandError(". ".join(missing))

    def _tell(self, kind: str, number: int, use: str | None) -> None:
        first = "is new: nothing was done with it yet" if number == 1 else "is not needed now"
        self.stdout.write(f"{kind} key {number} {use or first}.")
