"""The record of one operation. `audit.log` alone writes it; the database refuses to change or delete it.

The models of webhooks are in `audit.webhooks.models`.
"""

from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from audit.identifiers import new_identifier
from core.database import shared_clock


class Outcome(models.TextChoices):
    """How an operation ended. `pending` and `unknown` are still to be settled by reading the directory."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    QUEUED = "queued"
    UNKNOWN = "unknown"


OPEN_OUTCOMES = (Outcome.PENDING, Outcome.UNKNOWN)

REASON_LENGTH = 600
"""A caller's reason has 500 characters at most; a revert's begins with the record that it reverts."""


class Reversible(models.TextChoices):
    """Whether the inverse change can be made from what the record holds."""

    FULL = "full"
    PARTIAL = "partial"
    NONE = "none"


class SealedAs(models.TextChoices):
    """How far a record is sealed. A record that is not the gateway's is refused a seal."""

    OPEN = "open"
    FINAL = "final"
    REFUSED = "refused"


def new_record_id() -> UUID:
    return new_identifier()[0]


def seconds_of_a_write() -> float:
    """The longest time one LDAP write takes, connecting included: then it was answered or given up."""
    limits = settings.CONFIGURATION.Directory
    return float(limits.ConnectSeconds + limits.OperationSeconds)


class OperationRecord(models.Model):
    """One operation: who did what to which object, when, and how it ended (docs/api.md#operations-log).

    No foreign keys: a record outlives the persons, keys, directories and change requests it names.
    `raised_access` says in sentences what a change of the gateway's own tables lets somebody do that they could not do
    before; None where it does not.
    `evidence` tells a settler how to find out later whether the write was applied. `settle_at` is when a settler may
    take the record up (next): a deadline for the writer, then a lease of the settler. Neither leaves the gateway.
    `call_id` is the gateway's own identifier of the request that made a change (`Call.call_id`): the records of one
    batch share it. Reads have none, nor have records of earlier releases.
    `mac`, `seal` and `sealed_as` show tampering (see `audit.chain`); `seal` is the number of the last seal it is in.
    """

    id = models.UUIDField(primary_key=True, default=new_record_id, editable=False)
    at = models.DateTimeField(db_index=True)
    completed_at = models.DateTimeField(null=True)
    surface = models.CharField(max_length=16)
    operation = models.CharField(max_length=100)
    owner = models.CharField(max_length=255)
    owner_id = models.BigIntegerField()
    key_name = models.CharField(max_length=255, null=True)
    credential_id = models.CharField(max_length=64)
    client_address = models.CharField(max_length=64, null=True)
    request_id = models.CharField(max_length=128)
    call_id = models.UUIDField(null=True)
    directory_id = models.UUIDField(null=True)
    directory = models.CharField(max_length=255, null=True)
    target_id = models.UUIDField(null=True)
    target_kind = models.CharField(max_length=64, null=True)
    target_dn = models.TextField("target's distinguished name", null=True)
    changes = models.JSONField(default=list)
    outcome = models.CharField(max_length=16, choices=Outcome)
    code = models.CharField(max_length=100, null=True)
    change_request_id = models.UUIDField(null=True)
    approved_by = models.CharField(max_length=255, null=True)
    run_id = models.UUIDField(null=True)
    batch_index = models.PositiveIntegerField(null=True)
    reason = models.CharField(max_length=REASON_LENGTH, null=True)
    server = models.CharField(max_length=255, null=True)
    reversible = models.CharField(max_length=16, choices=Reversible, default=Reversible.NONE)
    raised_access = models.JSONField(null=True)
    evidence = models.JSONField(null=True)
    settle_at = models.DateTimeField(null=True)
    settle_attempts = models.PositiveIntegerField(default=0)
    mac = models.CharField(max_length=64, default="")
    seal = models.BigIntegerField(null=True, db_index=True)
    sealed_as = models.CharField(max_length=8, choices=SealedAs, null=True)

    class Meta:
        ordering = ["-id"]
        default_permissions = ("view",)
        permissions = [
            ("read_log", "Can read the operations log"),
            ("revert_change", "Can revert a change from the operations log"),
        ]
        indexes = [
            # The filters of GET /api/operations, each read newest first.
            models.Index(fields=["owner", "id"], name="audit_by_owner"),
            models.Index(fields=["key_name", "id"], name="audit_by_key_name"),
            models.Index(fields=["operation", "id"], name="audit_by_operation"),
            models.Index(fields=["target_id", "id"], name="audit_by_target"),
            models.Index(fields=["outcome", "id"], name="audit_by_outcome"),
            models.Index(fields=["request_id", "id"], name="audit_by_request_id"),
            models.Index(fields=["call_id", "id"], name="audit_by_call", condition=Q(call_id__isnull=False)),
            models.Index(fields=["run_id", "id"], name="audit_by_run", condition=Q(run_id__isnull=False)),
            models.Index(
                fields=["change_request_id", "id"],
                name="audit_by_change_request",
                condition=Q(change_request_id__isnull=False),
            ),
            models.Index(fields=["id"], name="audit_by_raised_access", condition=Q(raised_access__isnull=False)),
            models.Index(fields=["settle_at"], name="audit_to_settle", condition=Q(outcome__in=OPEN_OUTCOMES)),
            models.Index(
                fields=["id"], name="audit_to_seal", condition=Q(sealed_as__isnull=True) | Q(sealed_as=SealedAs.OPEN)
            ),
        ]
        constraints = [
            # An approved change is carried out once, whatever workers do: a second intent for it cannot be recorded
            # unless the first came to nothing, and without a record nothing is written. (A run records account by
            # account and claims those itself.)
            models.UniqueConstraint(
                fields=["change_request_id"],
                condition=Q(surface="worker", run_id__isnull=True, outcome__in=["succeeded", "pending", "unknown"]),
                name="audit_one_application_per_change_request",
            )
        ]

    def __str__(self) -> str:
        return f"{self.operation} by {self.owner} at {self.at:%Y-%m-%d %H:%M:%S}"

    def may_be_written(self) -> bool:
        """Whether a write sent now is over before a settler looks. A writer that was held up must not send any more."""
        return (
            self.settle_at is not None and shared_clock.now() + timedelta(seconds=seconds_of_a_write()) < self.settle_at
        )


class LogSeal(models.Model):
    """One link of the chain: the records sealed together, bound to the seal before by its code (see `audit.chain`).

    `records` counts the entries of all seals up to this one. `key` names the key that made it, "" in old seals.
    """

    number = models.BigIntegerField(primary_key=True)
    sealed_at = models.DateTimeField()
    records = models.PositiveBigIntegerField()
    entries = models.BinaryField()
    key = models.CharField(max_length=16, default="", db_default="")
    mac = models.CharField(max_length=64)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"seal {self.number} of {self.sealed_at:%Y-%m-%d %H:%M:%S}"


class LogVerification(models.Model):
    """That the log was verified, up to `seals`, and the first thing that was wrong (see `audit.chain.verification`).

    Under a code too: who can write here cannot claim a verification that was not made.
    """

    at = models.DateTimeField(default=timezone.now)
    seals = models.PositiveBigIntegerField()
    records = models.PositiveBigIntegerField()
    finding = models.TextField(null=True)
    mac = models.CharField(max_length=64)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"verification of {self.at:%Y-%m-%d %H:%M:%S}"


from audit.webhooks.models import WebhookDelivery, WebhookEndpoint  # noqa: E402, F401 - Django finds models here
