"""The one table of the project itself: the idempotency records."""

from django.db import models


class IdempotencyRecord(models.Model):
    """The first answer to a request with an Idempotency-Key, kept for 24 hours. `status` is null while it still runs.

    `fingerprint` is a SHA-256 over directory, method, path, query and body; `lease_until` ends the claim of a request
    whose process was killed before it could answer (see `gateway.surfaces.leases`). `request_ids` are those of the
    request that runs and of the killed ones before it.
    """

    credential_id = models.CharField(max_length=64)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    request_ids = models.JSONField(default=list)
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

    def __str__(self) -> str:
        return f"{self.key} of {self.credential_id}"
