"""`gateway keys needed`: what each configured key is still needed for, and which one is missing."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from approvals.models import ChangeRequest
from approvals.states import NEEDS_INPUT
from audit.chain.seals import name_of_key
from audit.chain.verification import find_missing_keys, find_seals_by_key
from core.secrets.encryption import UndecryptableSecret, find_secrets, name_of_encryption_key
from gateway.models import NotedBackup
from gateway.surfaces.idempotency import count_by_key


class Command(BaseCommand):
    """Keys are numbered in the order of GATEWAY_ENCRYPTION_KEYS and GATEWAY_LOG_KEYS, and never printed."""

    help = (
        "Say what each of the gateway's keys is needed for, by the database and by the backups made of it. "
        "Exits 1 when one is missing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--forget-backups-before",
            type=date.fromisoformat,
            metavar="YYYY-MM-DD",
            help="forget the notes of backups made before that day: they are gone, and need no keys any more",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if (day := options["forget_backups_before"]) is not None:
            before = datetime.combine(day, time(), UTC)
            count, _ = NotedBackup.objects.filter(made_at__lt=before).delete()
            self.stdout.write(f"{count} backups were forgotten.")
        backups = list(NotedBackup.objects.all())
        secrets = Counter(secret.key for secret in find_secrets())
        waiting, answers = _waiting_requests_by_key(), count_by_key()
        for number, key in enumerate(settings.ENCRYPTION_KEYS, 1):
            name = name_of_encryption_key(key)
            uses = [
                f"opens {secrets[number]} secrets" if secrets[number] else "",
                f"vouches for {waiting[number]} undecided or unfinished change requests" if waiting[number] else "",
                f"knows {answers[name]} requests by their idempotency keys, for 24 hours" if answers[name] else "",
                _backup_use([backup for backup in backups if name in backup.encryption_keys]),
            ]
            self._print_uses("Encryption", number, uses)
        seals = find_seals_by_key()
        for number, key in enumerate(settings.LOG_KEYS, 1):
            name = name_of_key(key)
            made = seals.get(name)
            uses = [
                f"made seals {made[0]} to {made[1]}: keep it as long as the log" if made else "",
                _backup_use([backup for backup in backups if name in backup.log_keys]),
            ]
            self._print_uses("Log", number, uses)
        missing = [str(finding) for finding in find_missing_keys()]
        if secrets[None]:
            missing.append(f"No key of GATEWAY_ENCRYPTION_KEYS opens {secrets[None]} secrets")
        if missing:
            raise CommandError(". ".join(missing))

    def _print_uses(self, kind: str, number: int, uses: Sequence[str]) -> None:
        unused = "is new: nothing was done with it yet" if number == 1 else "is not needed now"
        self.stdout.write(f"{kind} key {number} {'; '.join(filter(None, uses)) or unused}.")


def _backup_use(backups: Sequence[NotedBackup]) -> str:
    if not backups:
        return ""
    first, last = (f"{backup.made_at:%Y-%m-%d}" for backup in (backups[0], backups[-1]))
    return f"restores {len(backups)} backups, made {first} to {last}: keep it as long as these"


def _waiting_requests_by_key() -> Counter[int | None]:
    """The number of unfinished change requests whose digest needs each key, by the key's number."""
    counts: Counter[int | None] = Counter()
    unfinished = ChangeRequest.objects.filter(status__in=NEEDS_INPUT)
    for identifier in unfinished.values_list("id", flat=True):
        try:
            counts[ChangeRequest.objects.get(id=identifier).digest_key_position()] += 1
        except (UndecryptableSecret, ChangeRequest.DoesNotExist):  # counted as a secret; ended meanwhile
            continue
    return counts
