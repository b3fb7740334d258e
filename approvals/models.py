"""The change request: a change that waits for a person's decision, frozen as it was requested."""

import json
from typing import Any, Final

from django.conf import settings
from django.db import models
from django.db.models import Q

from audit.models import REASON_LENGTH, new_record_id
from core.database.problem_field import ProblemField
from core.operation import Risk
from core.secrets.encryption import EncryptedTextField, digests, key_of_digest
from core.text.messages import message, restore_message

_PLAIN_REASONS: Final = {
    Risk.ORDINARY: message("This is an ordinary change."),
    Risk.DESTRUCTIVE: message("This is a destructive change."),
    Risk.SECURITY: message("This is a security change."),
}
_REQUEST_DIGEST: Final = b"digest of a change request"
_ASKED_DIGEST: Final = b"digest of what a change request asks for"


class Status(models.TextChoices):
    """The state of a change request; `approvals.states` has the transitions."""

    PENDING = "pending"
    APPROVED = "approved"
    APPLYING = "applying"
    APPLIED = "applied"
    PARTLY_FAILED = "partly-failed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    STALE = "stale"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    SCHEDULED = "scheduled"
    SUPERSEDED = "superseded"
    OVERDUE = "overdue"


class ChangeRequest(models.Model):
    """A change that somebody requested and another person decides (docs/api.md#change-requests).

    The requester is a snapshot: names and ids of the person and the key as they were. No foreign keys, so that a
    request outlives them. `input` holds the arguments, the query and the body with their secrets, encrypted; it is
    emptied when the request ends. `changes` is what people see, without secrets. `attempt` counts how often a worker
    claimed the approved change, `lost_workers` how many workers were lost while applying it, and `lease_until` is when
    the last claim lapses. `call_id` is the gateway's own identifier of the call: the changes of one batch share it.
    `run_id` is the run that an approved change of many accounts became; the run has its progress. `secret` is a
    password generated while the change was applied, encrypted. The approver may take it until `secret_until`, or the
    requester if `secret_for_requester` is set (`approvals.secrets`).

    A change of the gateway's own tables that gives more access waits here too (`queue.hold_access_change`). It has no
    directory, `target_kind` is the resource of the row, and `key_id` is the session's if a person without a key
    requested it.

    For an agent (`agent`), `key_id` is the grant that it acts under (`keys.agents`), and `asked` is a keyed digest of
    the request: of identical requests only one waits at a time.

    `assigned_to` is the person who is asked to decide; others who may decide still can. `comments` lists what people
    wrote while it waited, each with `by`, `at` and `text`, oldest first.

    A change for later waits until `due_at`. `revert_at`, or `revert_after` in seconds, is the end that was asked for
    with a change. The end of a change that was made is a request of its own (`approvals.ends`): `ends` is the log
    record of that change, and `made_at` is set when it is known to have been made. `retry_at` is when a worker looks at
    a scheduled request next; `tries` counts the attempts that came to nothing, and `told_ahead` has the hours before
    its end at which that was last told of.

    `risk_reasons` explain the risk; `plain_reasons` do so without naming other objects, and are null in requests of
    earlier releases. `wording` holds the messages of both (`core.text.messages`).

    `protected` is whether the target was a protected object, which may need two approvals: then `first_…` is the first
    and `decided_…` the second. `to_announce` and `expiry_announced` tell `approvals.review.notifications` what it still
    has to send.
    """

    id = models.UUIDField(primary_key=True, default=new_record_id, editable=False)
    status = models.CharField(max_length=16, choices=Status, default=Status.PENDING)
    operation = models.CharField(max_length=100)
    risk = models.CharField(max_length=16, choices=[(risk.value, risk.value) for risk in Risk])
    risk_reasons = models.JSONField(default=list)
    plain_reasons = models.JSONField(null=True)
    wording = models.JSONField(null=True)
    protected = models.BooleanField(default=False)
    target_id = models.UUIDField(null=True)
    target_kind = models.CharField(max_length=64)
    target_dn = models.TextField("target's distinguished name")
    target_account = models.CharField("target's account name", max_length=256, null=True)
    requester_id = models.BigIntegerField()
    requester = models.CharField(max_length=255)
    key_id = models.CharField(max_length=64)
    key_name = models.CharField(max_length=255, null=True)
    agent = models.BooleanField(default=False, db_default=False)
    client_address = models.CharField(max_length=64, null=True)
    request_id = models.CharField(max_length=128)
    call_id = models.UUIDField(null=True)
    reason = models.CharField(max_length=REASON_LENGTH, null=True)
    directory_id = models.UUIDField(null=True)
    directory = models.CharField(max_length=255, null=True)
    changes = models.JSONField()
    input = EncryptedTextField(blank=True)
    digest = models.CharField(max_length=64)
    asked = models.CharField(max_length=64, null=True)
    if_match = models.JSONField(null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    first_approved_by_id = models.BigIntegerField(null=True)
    first_approved_by = models.CharField(max_length=255, null=True)
    first_approved_at = models.DateTimeField(null=True)
    first_comment = models.TextField(null=True)
    decided_by_id = models.BigIntegerField(null=True)
    decided_by = models.CharField(max_length=255, null=True)
    decided_at = models.DateTimeField(null=True)
    comment = models.TextField(null=True)
    problem = ProblemField(null=True)
    attempt = models.PositiveIntegerField(default=0)
    lost_workers = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    run_id = models.UUIDField(null=True)
    secret = EncryptedTextField(blank=True)
    secret_until = models.DateTimeField(null=True)
    secret_for_requester = models.BooleanField(default=False, db_default=False)
    assigned_to_id = models.BigIntegerField(null=True)
    assigned_to = models.CharField(max_length=255, null=True)
    comments = models.JSONField(null=True)
    due_at = models.DateTimeField(null=True)
    revert_at = models.DateTimeField(null=True)
    revert_after = models.PositiveIntegerField(null=True)
    ends = models.UUIDField(null=True, db_index=True)
    made_at = models.DateTimeField(null=True)
    retry_at = models.DateTimeField(null=True)
    tries = models.PositiveIntegerField(default=0, db_default=0)
    told_ahead = models.PositiveIntegerField(null=True)
    to_announce = models.BooleanField(default=True)
    expiry_announced = models.BooleanField(default=False)

    class Meta:
        ordering = ["-id"]
        default_permissions = ("view",)
        permissions = [("decide_change", "Can approve and reject changes that wait for a person")]
        indexes = [
            models.Index(fields=["status", "id"], name="approvals_by_status"),
            models.Index(fields=["requester_id", "id"], name="approvals_by_requester"),
            models.Index(fields=["expires_at"], name="approvals_to_expire", condition=Q(status="pending")),
            models.Index(fields=["secret_until"], name="approvals_to_wipe", condition=Q(secret_until__isnull=False)),
            models.Index(fields=["id"], name="approvals_to_announce", condition=Q(to_announce=True)),
            models.Index(fields=["decided_at"], name="approvals_by_decision"),
            models.Index(fields=["call_id"], name="approvals_by_call", condition=Q(call_id__isnull=False)),
            models.Index(fields=["retry_at"], name="approvals_to_look_at", condition=Q(retry_at__isnull=False)),
            models.Index(fields=["target_id"], name="approvals_pending_ends", condition=Q(retry_at__isnull=False)),
        ]
        constraints = [
            models.UniqueConstraint(fields=["asked"], condition=Q(status="pending"), name="approvals_asked_for_once"),
        ]

    def __str__(self) -> str:
        return f"{self.operation} on {self.target_dn}"

    @property
    def approvers(self) -> str:
        """The user names of those who approved it, cut to the length of the log's column."""
        return ", ".join(name for name in (self.first_approved_by, self.decided_by) if name)[:255]

    def risk_sentences(self, *, confined: bool) -> list[str]:
        """Sentences that say why the change waits; those for confined readers name no other object."""
        if not self.risk_reasons:
            return [message("The key asks before every change.")]
        reasons = (self.plain_reasons or [_PLAIN_REASONS[Risk(self.risk)]]) if confined else self.risk_reasons
        return [restore_message(reason, self.wording) for reason in reasons]

    def kept_input(self) -> dict[str, Any]:
        """The decrypted input: the path's `arguments`, the `query` and the `document` (the parsed body).

        `references` maps names in the document to the objectGUIDs that they stood for, null for an unknown name;
        `meantByNames` has those of services and computers in the changes (`directory.changes.references`).
        `versions` are replication versions of secret attributes, by attid (`approvals.drift.has_drifted`).
        """
        kept: dict[str, Any] = json.loads(self.input)
        return kept

    def of_same_call(self) -> Q:
        """The condition that selects the requests of the same call; an end, or one of an earlier release, is alone."""
        is_alone = self.call_id is None or self.ends is not None
        return Q(id=self.id) if is_alone else Q(call_id=self.call_id, ends=None)

    def make_digest(self) -> str:
        """The digest that an approver confirms: over the operation, its input, the target and the values shown.

        Its key is kept outside the database, so that nobody who reads the table can guess a password in the input by
        trying digests.
        """
        return digests(_REQUEST_DIGEST, self._sealed_content())[0]

    def has_intact_input(self) -> bool:
        """Whether the digest still fits the row, under any configured key (keys rotate)."""
        return self.digest_key_position() is not None

    def digest_key_position(self) -> int | None:
        """The position, from 1, of the encryption key that the digest was made with; None if the row was altered."""
        return key_of_digest(self.digest, _REQUEST_DIGEST, self._sealed_content())

    def make_asked_digests(self) -> list[str]:
        """Digests of what is requested, whatever its id and reason: one per configured key, the one to store first."""
        return digests(_ASKED_DIGEST, _canonical(self._content()))

    def _sealed_content(self) -> bytes:
        return _canonical([str(self.id), *self._content()])

    def _content(self) -> list[Any]:
        return [
            self.operation,
            self.kept_input(),
            [str(self.target_id), self.target_kind, self.target_dn],
            self.changes,
            self.if_match,
            [str(self.directory_id), self.requester_id, self.key_id],
            *(["agent"] if self.agent else []),
            *([[str(self.due_at), str(self.revert_at), self.revert_after]] if self.has_schedule else []),
        ]

    @property
    def has_schedule(self) -> bool:
        """Whether it is a change for later, or one with an end."""
        return (self.due_at or self.revert_at or self.revert_after) is not None


def _canonical(content: list[Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


class Audience(models.TextChoices):
    """Whom a notice is for: approvers of a waiting request, or the requester of its outcome.

    `ASSIGNED` tells one approver that a request is assigned to them, `COMMENTED` those involved of a comment, and
    `OVERDUE` all approvers and the requester that something has not ended.
    """

    APPROVER = "approver"
    REQUESTER = "requester"
    ASSIGNED = "assigned"
    COMMENTED = "commented"
    OVERDUE = "overdue"


class Notice(models.Model):
    """A notice about a change request that one person has yet to get (`review.notifications`); deleted when sent.

    `claim` marks the notices that a worker is sending. After `claimed_until` that worker counts as lost, and another
    one sends them.
    """

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    change_request = models.ForeignKey(ChangeRequest, on_delete=models.CASCADE, related_name="+")
    audience = models.CharField(max_length=16, choices=Audience)
    due_at = models.DateTimeField(db_index=True)
    attempts = models.PositiveIntegerField(default=0)
    claim = models.UUIDField(null=True)
    claimed_until = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.audience} {self.person_id} about {self.change_request_id}"


class BudgetUse(models.Model):
    """How many changes a key, an agent or a directory has seen lately (`approvals.budgets`).

    `used` counts them by risk and five minutes, `told` has when each exceeded budget was last told of.
    """

    holder = models.CharField(max_length=64, primary_key=True)
    used = models.JSONField(default=dict)
    told = models.JSONField(default=dict)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.holder
