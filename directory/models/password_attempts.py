"""Passwords of accounts that are being tried, or were wrong. How they are counted is in `directory.policies`."""

from django.db import models
from django.utils import timezone


class PasswordAttempt(models.Model):
    """A password that was wrong or is still being tried. `account_digest` is keyed: it may stand for a typed name.

    `credential_id` is what it was tried with, empty for a sign-in.
    """

    class State(models.TextChoices):
        """What became of it. A directory counts wrong passwords anew from each right one on: those are `PAST`."""

        OPEN = "open"
        WRONG = "wrong"
        PAST = "past"

    at = models.DateTimeField(default=timezone.now, db_index=True)
    account_digest = models.CharField(max_length=64)
    credential_id = models.CharField(max_length=64, default="", db_default="")
    state = models.CharField(max_length=5, choices=State.choices, default=State.OPEN)

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(fields=("account_digest", "-at"), name="directory_attempts_by_account"),
            models.Index(fields=("credential_id", "-at"), name="directory_attempts_by_key"),
        ]

    def __str__(self) -> str:
        return f"{self.state} at {self.at:%Y-%m-%d %H:%M:%S}"
