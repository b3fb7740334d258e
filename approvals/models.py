"""The change request: a change of the directory that waits for a person, frozen as it was asked for."""

import json
from typing import Any, Final

from django.conf import settings
from django.db import models
from django.db.models import Q

from audit.models import REASON_LENGTH, new_record_id
from core.database.problem_field import ProblemField
from core.operation import Risk
from core.secrets.digests import digests, number_of_key
from core.secrets.encryption import EncryptedTextField
from core.text.messages import message, worded

_PLAIN: Final = {
    Risk.ORDINARY: message("This is an ordinary change."),
    Risk.DESTRUCTIVE: message("This is a destructive change."),
    Risk.SECURITY: message("This is a security change."),
}
_OF_REQUEST: Final = b"digest of a change request"
_OF_WHAT_IS_ASKED: Final = b"digest of what a change request asks for"


class Status(models.TextChoices):
    """Where a change request is in its life; which state follows which is in `approvals.states`."""

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


class ChangeRequest(models.Model):
    """A change that somebody asked for and a person decides (docs/api.md#change-requests).

    The requester is frozen: names and ids of the person and the key as they were. No foreign keys, so that a request
    outlives them. `input` holds the arguments, the query and the body, with their secrets, encrypted; it is emptied
    when the request ends. `changes` is what people see, without secrets. `attempt` counts how often a worker took
    the approved change up, `lost_workers` how many were lost with it, and `lease_until` is how long the last one has
    for it. `call_id` is the gateway's own identifier of the request that asked for it: the changes of one batch share
    it. `run_id` is the run that the change is, once it was started: how far it is, the run tells. `secret` is a
    password generated while it was applied, encrypted, for the approver to take before `secret_until`, or with
    `secret_for_requester` for who asked, as the key said then (`approvals.secrets`).

    A change of the gateway's own tables that gives more access waits here too (`approvals.review.access_requests`). It
    has no directory, its target is a row by the resource of its operations, and a person without a key may have asked
    for it: `key_id` is their session's then.

    Of an agent (`agent`), `key_id` is the grant that it acts by (`keys.agents`), and `asked` what it asked for as a
    keyed digest: of those that are the same one waits at most.

    `assigned_to` is the person who is asked to decide; everybody else who may still can. `comments` are what was asked
    and answered while it waited: `by`, `at` and `text` of each, in their order.

    `risk_reasons` say why the change is no less dangerous; `plain_reasons` say so without naming other objects, null
    where an earlier release kept the request. `wording` is what both were made of (`core.text.messages`).

    `protected` is whether the target was a protected object, which may need two approvals; then `first_…` is the first
    and `decided_…` the second. `to_announce` and `expiry_announced` are `approvals.review.notifications`' notes of what
    people are still to be told.
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
        ]
        constraints = [
            models.UniqueConstraint(fields=["asked"], condition=Q(status="pending"), name="approvals_asked_for_once"),
        ]

    def __str__(self) -> str:
        return f"{self.operation} on {self.target_dn}"

    @property
    def approvers(self) -> str:
        """Whoever approved it, as the operations log has room for."""
        return ", ".join(name for name in (self.first_approved_by, self.decided_by) if name)[:255]

    def why_risky(self, *, confined: bool) -> list[str]:
        """In sentences, why the change waits; to readers who are confined no other object is named."""
        if not self.risk_reasons:
            return [message("The key asks before every change.")]
        reasons = (self.plain_reasons or [_PLAIN[Risk(self.risk)]]) if confined else self.risk_reasons
        return [worded(reason, self.wording) for reason in reasons]

    def kept_input(self) -> dict[str, Any]:
        """The input as it was given: `arguments` of the path, `query` and `document` (the parsed body).

        `references` are the objectGUIDs of the objects that names in the document meant, null for one that meant none;
        `meantByNames` those of the services and computers in the changes (`directory.changes.identities`).
        `versions` are those of attributes whose values cannot be seen, by attid (`approvals.drift.has_drifted`).
        """
        kept: dict[str, Any] = json.loads(self.input)
        return kept

    def of_same_call(self) -> Q:
        """The condition of being asked for by the same call as this one. What earlier releases held stands alone."""
        return Q(id=self.id) if self.call_id is None else Q(call_id=self.call_id)

    def make_digest(self) -> str:
        """The digest an approver confirms: over the operation, its input, the target and the values seen.

        It is keyed from outside the database, for a password in the input must not be found by trying digests.
        """
        return digests(_OF_REQUEST, self._sealed_content())[0]

    def has_intact_input(self) -> bool:
        """Whether the row still says what the digest was made over (under any configured key, as keys rotate)."""
        return self.number_of_digest_key() is not None

    def number_of_digest_key(self) -> int | None:
        """The place, from 1, of the encryption key that the digest is under; None where the row was altered."""
        return number_of_key(self.digest, _OF_REQUEST, self._sealed_content())

    def make_asked(self) -> list[str]:
        """The digests of what is asked for, whatever the request is called and why: by each configured key, the first
        of which is the one to keep."""
        return digests(_OF_WHAT_IS_ASKED, _canonical(self._content()))

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
        ]


def _canonical(content: list[Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


class Audience(models.TextChoices):
    """Who is told what: people who may decide of what waits, or the person behind the request of what became of it.

    `ASSIGNED` tells one approver that it is theirs, `COMMENTED` whoever is concerned that somebody has said something.
    """

    APPROVER = "approver"
    REQUESTER = "requester"
    ASSIGNED = "assigned"
    COMMENTED = "commented"


class Notice(models.Model):
    """Something that one person is still to be told about a change request; deleted once it was sent (`review.mail`).

    `claim` marks those that a worker is sending, until `claimed_until`: then it was lost, and another one sends them.
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
