"""The project's own tables: idempotency records, values that are shown once, and the backups that were made."""

from django.db import models

from core.shown_once import ShownOnce

__all__ = ["IdempotencyRecord", "NotedBackup", "ShownOnce"]


class IdempotencyRecord(models.Model):
    """The first answer to a request with an Idempotency-Key, kept for 24 hours. `status` is null while it still runs.

    `fingerprint` is a digest over directory, method, path, query and body, under the encryption key that
    `encryption_key` names; `lease_until` ends the claim of a request whose process was killed before it could answer
    (see `gateway.surfaces.idempotency`). `call_ids` are the gateway's own identifiers of the current attempt and of
    earlier ones without a final answer. `rights` is a digest of the caller's rights when the answer was given, null in
    rows of earlier releases.
    """

    credential_id = models.CharField(max_length=64)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    encryption_key = models.CharField(max_length=16, default="", db_default="")
    rights = models.CharField(max_length=64, null=True)
    call_ids = models.JSONField(default=list, db_column="request_ids")  # the column's name in the first releases
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.TextField(default="")
    created_at = models.DateTimeField()
    lease_until = models.DateTimeField()

    class Meta:
        db_table = "gateway_keptanswer"  # the name by which the first releases know it
        constraints = [models.UniqueConstraint(fields=["credential_id", "key"], name="one_answer_per_idempotency_key")]
        indexes = [models.Index(fields=["created_at"], name="kept_answer_age")]
        default_permissions = ()


class NotedBackup(models.Model):
    """A backup that `gateway backup` made, with the names of the keys without which it cannot be restored.

    The file itself may be anywhere by now: the note stays until the backup expires or somebody says that it is gone.
    """

    file = models.TextField()
    made_at = models.DateTimeField()
    encryption_keys = models.JSONField()
    log_keys = models.JSONField()

    class Meta:
        ordering = ["made_at"]
        default_permissions = ()
