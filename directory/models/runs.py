"""Tables of runs: what was planned, what is being done to which accounts, and which worker is at it.

How they are used is in `directory.runs`.
"""

from uuid import uuid4

from django.db import models

from core.database.problem_field import ProblemField


class Plan(models.Model):
    """What a run would have done to an organizational unit's accounts when it was asked for. Kept for an hour.

    `accounts` holds `[objectGUID, effect]` pairs, the first ones up to the limit of a run; `total` counts all.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    connection = models.ForeignKey("directory.DirectoryConnection", on_delete=models.CASCADE, related_name="+")
    credential_id = models.CharField(max_length=64)
    unit = models.UUIDField()
    action = models.CharField(max_length=16)
    kinds = models.JSONField()
    scope = models.CharField(max_length=16)
    total = models.PositiveIntegerField()
    accounts = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        default_permissions = ()


class RunState(models.TextChoices):
    """A run is queued until a worker begins with it, and never goes back."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"


class Run(models.Model):
    """One run, for whom it is done, and the frozen list of its accounts (objectGUIDs in order).

    The caller is kept as what is needed to check everything anew and to sign the log's records; rows outlive persons
    and keys, so the requester's user name is kept, too. `attempts` counts how often a worker took the run up,
    `started_at` is the first time.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    connection = models.ForeignKey("directory.DirectoryConnection", on_delete=models.CASCADE, related_name="+")
    operation = models.CharField(max_length=100)
    action = models.CharField(max_length=16)
    unit = models.UUIDField()
    unit_dn = models.TextField()
    accounts = models.JSONField()
    state = models.CharField(max_length=16, choices=RunState, default=RunState.QUEUED)
    person_id = models.BigIntegerField()
    requester = models.CharField(max_length=255)
    credential_kind = models.CharField(max_length=32)
    credential_id = models.CharField(max_length=64)
    credential_name = models.CharField(max_length=255, null=True)
    client_address = models.CharField(max_length=64, null=True)
    request_id = models.CharField(max_length=128)
    reason = models.CharField(max_length=500, null=True)
    change_request_id = models.UUIDField(null=True)
    approved_by = models.CharField(max_length=255, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    attempts = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(
                fields=["connection", "created_at"], name="runs_to_do", condition=~models.Q(state=RunState.COMPLETED)
            ),
            models.Index(fields=["connection", "-created_at", "-id"], name="runs_newest_first"),
        ]
        constraints = [
            # An approved change is applied once, whatever workers do.
            models.UniqueConstraint(fields=["change_request_id"], name="runs_one_per_change_request")
        ]

    def __str__(self) -> str:
        return f"{self.action} {len(self.accounts)} accounts of {self.unit_dn}"


class AccountStatus(models.TextChoices):
    """How a run ended for one account."""

    SUCCEEDED = "succeeded"
    UNCHANGED = "unchanged"
    FAILED = "failed"


class AccountResult(models.Model):
    """The result for one account of a run, written once. An account without one is still to be done.

    `distinguished_name` is None for an account that was not found; `problem` holds a failure's problem details.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="results")
    position = models.PositiveIntegerField()
    account = models.UUIDField()
    distinguished_name = models.TextField(null=True)
    status = models.CharField(max_length=16, choices=AccountStatus)
    problem = ProblemField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["run", "account"], name="runs_one_result_per_account")]


class RunLease(models.Model):
    """Which worker works off a directory's runs, and until when it says so. One row per directory.

    A domain controller does writes one after the other anyway, so one run at a time costs nothing; and two runs can
    never both take an account for still to be changed, which the directory itself would not tell: a guarded write
    whose new value holds already succeeds (observed on Samba 4.17).
    """

    connection = models.OneToOneField(
        "directory.DirectoryConnection", on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    holder = models.UUIDField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
