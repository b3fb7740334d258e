"""`manage.py rotate_encryption_keys`: encrypt every secret in the database with the first encryption key."""

from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit import security
from core.secrets.encryption import find_secrets, reencrypt


class Command(BaseCommand):
    """Run it after a new key was put first on every host; then the other keys can be dropped."""

    help = (
        "Put every secret in the database under the first of GATEWAY_ENCRYPTION_KEYS; then no other key is needed. "
        "Exits 1 and names the secrets that none of the keys opens."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="say which keys are needed, and change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        needed, rotated, lost = Counter[int](), 0, []
        for secret in find_secrets():
            if secret.key is None:
                lost.append(str(secret))
            elif secret.key == 1 or options["check"]:
                needed[secret.key] += 1
                if secret.key > 1:
                    self.stdout.write(f"key {secret.key}: {secret}")
            else:
                rotated += reencrypt(secret)
        if options["check"]:
            for number, count in sorted(needed.items()):
                self.stdout.write(f"Key {number} is needed by {count} secret{'s' if count > 1 else ''}.")
        else:
            security.log_event("secrets encrypted anew", secrets=rotated, lost=len(lost))
            self.stdout.write(f"{rotated} secrets were encrypted anew, {needed[1]} were under the first key already.")
        if lost:
            raise CommandError("No configured key opens " + ", ".join(lost) + ". Put their key behind the others.")
