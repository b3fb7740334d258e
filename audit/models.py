"""The tables of the operations log and of webhooks.

Only `audit.log` and `audit.read_buffer` write records, and the database refuses to change or delete them.
`audit.webhooks.events` queues deliveries, and `audit.webhooks.delivery` sends them.
"""

import re
import secrets
from base64 import b64encode
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import models
from django.db.models import Func, Q
from django.db.models.functions import Substr
from django.utils import timezone

from audit.identifiers import new_identifier
from core.database import shared_clock
from core.secrets.encryption import EncryptedTextField


class Outcome(models.TextChoices):
    """How an operation ended. `pending` and `unknown` are still to be settled by reading the directory."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    QUEUED = "queued"
    UNKNOWN = "unknown"


OPEN_OUTCOMES = (Outcome.PENDING, Outcome.UNKNOWN)

REASON_LENGTH = 600
"""A caller's reason has up to 500 characters; that of a revert starts with the record that it reverts."""


class Reversible(models.TextChoices):
    """Whether the inverse change can be made from what the record holds."""

    FULL = "full"
    PARTIAL = "partial"
    NONE = "none"


class SealedAs(models.TextChoices):
    """How far a record is sealed. A record that the gateway did not write is refused a seal."""

    OPEN = "open"
    FINAL = "final"
    REFUSED = "refused"


def new_record_id() -> UUID:
    return new_identifier()[0]


def seconds_of_a_write() -> float:
    """The longest that one LDAP write can take, connecting included: by then it is answered or given up."""
    limits = settings.CONFIGURATION.Directory
    return float(limits.ConnectSeconds + limits.OperationSeconds)


class OperationRecord(models.Model):
    """One operation: who did what to which object, when, and how it ended (docs/api.md#operations-log).

    It has no foreign keys: a record outlives the people, keys, directories and change requests it names.

    - `raised_access` lists, in sentences, what a change of the gateway's own tables newly lets somebody do; else None.
    - `reads` is how many reads, from `at` to `completed_at`, the record stands for (`audit.read_buffer`); else None.
    - `evidence` tells a settler how to find out later whether the write was applied. `settle_at` is when a settler may
      take the record: first the writer's deadline, then the settler's lease. Neither leaves the gateway.
    - `call_id` identifies the request that made a change (`Call.call_id`); the records of a batch share it. Reads and
      records of earlier releases have none.
    - `mac` reveals tampering (see `audit.chain`). Nothing reads `seal` and `sealed_as` but the release before this one,
      for which they are written until it is given up (`audit.chain.marks`).
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
    reads = models.IntegerField(null=True)
    evidence = models.JSONField(null=True)
    settle_at = models.DateTimeField(null=True)
    settle_attempts = models.PositiveIntegerField(default=0)
    mac = models.CharField(max_length=64, default="")
    seal = models.BigIntegerField(null=True)
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
            # Found by `audit.log_queries.find_reverts`, which asks in the words of this index.
            models.Index(Substr("reason", 1, 44), name="audit_by_reverted", condition=Q(reason__startswith="Reverts ")),
            models.Index(fields=["settle_at"], name="audit_to_settle", condition=Q(outcome__in=OPEN_OUTCOMES)),
        ]

    def __str__(self) -> str:
        return f"{self.operation} by {self.owner} at {self.at:%Y-%m-%d %H:%M:%S}"

    def may_be_written(self) -> bool:
        """Whether a write sent now will end before a settler looks. A writer that was delayed must not send it."""
        return (
            self.settle_at is not None and shared_clock.now() + timedelta(seconds=seconds_of_a_write()) < self.settle_at
        )


BEGINNING_OF_REVERTS: Final = "Reverts "
"""The prefix of a revert's reason, before the record of the change that it takes back.

Callers may not use it, or the log would take a change for reverted that was not, and no longer offer to revert it.
"""
_REVERTS: Final = re.compile(rf"{BEGINNING_OF_REVERTS}([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})\b")


def reason_of_revert(record_id: UUID, reason: str | None) -> str:
    """The reason of a change that reverts a recorded one, followed by the caller's own reason."""
    prefix = f"{BEGINNING_OF_REVERTS}{record_id}"
    if reason is None or reason.startswith(prefix):  # a revert that was held already has it
        return reason or prefix
    return f"{prefix}: {reason}"


def reverted_by(reason: str | None) -> UUID | None:
    """The record that a change with this reason reverted; None if it is not a revert."""
    match = _REVERTS.match(reason or "")
    return UUID(match[1]) if match else None


class UnsealedRecord(models.Model):
    """A record that is to be sealed, and as what. The database adds it with the record and when that is completed.

    So the log itself is not written again when it is sealed. A record that was refused a seal stays here.
    """

    record_id = models.UUIDField(primary_key=True)
    sealed_as = models.CharField(max_length=8, choices=SealedAs)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.record_id}, to be sealed as {self.sealed_as}"


class ChangeClaim(models.Model):
    """An approved change, claimed by the record that applies it or has applied it: so it is applied once.

    The database claims it with the record of the intent and frees it if that fails, whatever workers do: another intent
    for it cannot be recorded meanwhile, and without a record nothing is written. A claim outlives its record. A run has
    none: it records each account, and claims the accounts itself.
    """

    change_request_id = models.UUIDField(primary_key=True)
    record_id = models.UUIDField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.change_request_id}, claimed by {self.record_id}"


class LogSeal(models.Model):
    """One link of the chain: records sealed together, bound to the previous seal by its MAC (see `audit.chain`).

    `records` counts the entries of all seals up to this one. `key` identifies the key that made it, "" in old seals.
    """

    number = models.BigIntegerField(primary_key=True)
    sealed_at = models.DateTimeField()
    records = models.PositiveBigIntegerField()
    entries = models.BinaryField()
    key = models.CharField(max_length=16, default="", db_default="")
    mac = models.CharField(max_length=64)

    class Meta:
        default_permissions = ()
        indexes = [
            # The last and the first identifier among the entries, which are in order: finds the seals of a record.
            models.Index(
                Func("entries", template="substr(%(expressions)s, length(%(expressions)s) - 47, 16)"),
                Func("entries", template="substr(%(expressions)s, 2, 16)"),
                name="audit_seal_of_record",
            ),
        ]

    def __str__(self) -> str:
        return f"seal {self.number} of {self.sealed_at:%Y-%m-%d %H:%M:%S}"


class DailyCount(models.Model):
    """How many complete, sealed records of a day (UTC) are alike; what statistics show (see `audit.daily_counts`).

    It is derived from the log and can be made anew. People have neither `key_name` nor `credential_id`: "".
    """

    pk = models.CompositePrimaryKey("day", "credential_id", "key_name", "outcome", "is_read", "is_forbidden")
    day = models.DateField()
    credential_id = models.CharField(max_length=64)
    key_name = models.CharField(max_length=255)
    outcome = models.CharField(max_length=16, choices=Outcome)
    is_read = models.BooleanField()
    is_forbidden = models.BooleanField()
    records = models.PositiveBigIntegerField()

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["credential_id", "day"], name="audit_count_by_credential")]

    def __str__(self) -> str:
        return f"{self.records} {self.outcome} of {self.day} by {self.key_name or 'people'}"


class CountedSeals(models.Model):
    """Up to which seal the records are in the daily counts: one row, written with them."""

    id = models.PositiveSmallIntegerField(primary_key=True)
    number = models.BigIntegerField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"counted up to seal {self.number}"


class LogVerification(models.Model):
    """The result of a verification of so many `seals`: the first `finding`, if any (see `audit.chain.verification`).

    It has a MAC, too: whoever can write to the table cannot claim a verification that never happened. `first_seal` is
    the first that was verified, NULL if it was the whole log.
    """

    at = models.DateTimeField(default=timezone.now)
    seals = models.PositiveBigIntegerField()
    records = models.PositiveBigIntegerField()
    finding = models.TextField(null=True)
    first_seal = models.PositiveBigIntegerField(null=True)
    mac = models.CharField(max_length=64)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"verification of {self.at:%Y-%m-%d %H:%M:%S}"


class VerifiedRange(models.Model):
    """A range of seals that was verified without a finding, with all records that they name, signed by its `mac`.

    `learnt` is what verifying the next seals needs to know of it (see `audit.chain.verified_ranges`). The rows without
    a `run` say together what is verified; `whole_at` says since when nothing up to `last` is unverified. Those with one
    belong to a verification of the whole log that is under way: a process has such a range until `leased_until`, or has
    verified it, or is `in_doubt`, and the verification itself looks closer.
    """

    run = models.UUIDField(null=True)
    first = models.PositiveBigIntegerField()
    last = models.PositiveBigIntegerField()
    at = models.DateTimeField(null=True)
    whole_at = models.DateTimeField(null=True)
    learnt = models.BinaryField(default=b"")
    mac = models.CharField(max_length=64, default="")
    leased_until = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0)
    in_doubt = models.BooleanField(default=False)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["run", "first"], name="audit_range_of_run")]

    def __str__(self) -> str:
        return f"seals {self.first} to {self.last}"


class EventGroup(models.TextChoices):
    """The groups of events that an endpoint can subscribe to."""

    CHANGES = "changes", "Changes: every record of a change, done, refused, queued or failed"
    READS = "reads", "Reads: every record of a read"
    CHANGE_REQUESTS = "change-requests", "Change requests: every step from queued to applied"


class EndpointFormat(models.TextChoices):
    """How an event is written for an endpoint."""

    STANDARD = "standard", "Standard Webhooks: the whole event, signed, for programs"
    SLACK = "slack", "Slack: a message for people, of change requests"
    TEAMS = "teams", "Microsoft Teams: a card for people, of change requests"


def new_secret() -> str:
    """A signing secret in the form of Standard Webhooks: 32 random bytes."""
    return "whsec_" + b64encode(secrets.token_bytes(32)).decode("ascii")


def validate_groups(value: list[str]) -> None:
    if not isinstance(value, list) or not value or not set(value) <= set(EventGroup.values):
        raise ValidationError("choose at least one kind of event")


class WebhookEndpoint(models.Model):
    """An address that events are posted to, signed with a secret of its own."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    name = models.CharField(max_length=128, unique=True)
    url = models.CharField(
        "URL",
        max_length=1000,
        validators=[URLValidator(schemes=["https", "http"])],
        help_text="HTTPS, unless Webhooks:AllowPlainHttp says otherwise. Private addresses are refused unless "
        "Webhooks:AllowedNetworks has them.",
    )
    secret = EncryptedTextField(default=new_secret, editable=False)
    events = models.JSONField(default=list, validators=[validate_groups])
    format = models.CharField(
        max_length=16,
        choices=EndpointFormat,
        default=EndpointFormat.STANDARD,
        db_default=EndpointFormat.STANDARD,
        help_text="A message for people tells of change requests only, without any values.",
    )
    enabled = models.BooleanField(default=True, help_text="Nothing is kept for an endpoint that is not enabled.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.format != EndpointFormat.STANDARD and self.events != [EventGroup.CHANGE_REQUESTS]:
            raise ValidationError({"events": "a message for people tells of change requests only"})


class DeliveryState(models.TextChoices):
    """Waiting until delivered, or given up (`dead`) and left for a person."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"


class WebhookDelivery(models.Model):
    """One event for one endpoint. `next_at` is the time of the next attempt and, during one, the end of its lease."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=64)
    body = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)
    state = models.CharField(max_length=16, choices=DeliveryState, default=DeliveryState.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["-created_at"]
        verbose_name_plural = "webhook deliveries"
        default_permissions = ("view", "change")
        indexes = [
            models.Index(fields=["next_at"], name="audit_webhook_due", condition=models.Q(state="waiting")),
            models.Index(fields=["state", "created_at"], name="audit_webhook_by_state"),
        ]

    def __str__(self) -> str:
        return f"{self.event} for {self.endpoint}"
