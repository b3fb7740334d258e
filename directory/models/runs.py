"""The tables of runs: plans, runs with their results for each account, and the leases of workers."""

from uuid import uuid4

from django.db import models

from core.database.problem_field import ProblemField


class Plan(models.Model):
    """What a run would do to the accounts of an organizational unit, as of `created_at`. Kept for an hour.

    `accounts` holds `[objectGUID, effect]` pairs up to the limit of a run; `total` counts all accounts.
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
    """A run is queued until a worker starts it; it never goes back to an earlier state."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"


class Run(models.Model):
    """One run, its caller, and the fixed list of its accounts (objectGUIDs in order).

    The caller's columns suffice to authorize the run again and to attribute the log's records. A run outlives people
    and keys, so it keeps the requester's user name too. `attempts` counts how often a worker took the run up,
    `started_at` is the first time. `assessment` is kept from its request until it is completed
    (`directory.runs.kept_assessment`).
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    connection = models.ForeignKey("directory.DirectoryConnection", on_delete=models.CASCADE, related_name="+")
    operation = models.CharField(max_length=100)
    action = models.CharField(max_length=16)
    unit = models.UUIDField()
    unit_dn = models.TextField()
    accounts = models.JSONField()
    assessment = models.JSONField(null=True)
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
            # A redelivered task must not start the run of an approved change a second time.
            models.UniqueConstraint(fields=["change_request_id"], name="runs_one_per_change_request")
        ]

    def __str__(self) -> str:
        return f"{self.action} {len(self.accounts)} accounts of {self.unit_dn}"


class AccountStatus(models.TextChoices):
    """The outcome of a run for one account."""

    SUCCEEDED = "succeeded"
    UNCHANGED = "unchanged"
    FAILED = "failed"


class AccountResult(models.Model):
    """The result for one account of a run, written once. An account without a row is still pending.

    `distinguished_name` is None for an account that was not found; `problem` holds the problem details of a failure.
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
    """Which worker executes a directory's runs, and until when. One row per directory.

    A domain controller serializes writes anyway, so one run at a time costs nothing. Two concurrent runs could both
    claim the change of an account: a guarded write succeeds although its new value is already there (observed on
    Samba 4.17).
    """

    connection = models.OneToOneField(
        "directory.DirectoryConnection", on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    holder = models.UUIDField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
