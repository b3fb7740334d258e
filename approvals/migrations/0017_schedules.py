from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("approvals", "0016_budgets")]

    operations = [
        migrations.AlterField(
            "changerequest",
            "status",
            models.CharField(
                max_length=16,
                default="pending",
                choices=[
                    *(("pending", "Pending"), ("approved", "Approved"), ("applying", "Applying")),
                    ("applied", "Applied"),
                    *(("partly-failed", "Partly Failed"), ("failed", "Failed"), ("unknown", "Unknown")),
                    *(("stale", "Stale"), ("rejected", "Rejected"), ("expired", "Expired"), ("cancelled", "Cancelled")),
                    *(("scheduled", "Scheduled"), ("superseded", "Superseded"), ("overdue", "Overdue")),
                ],
            ),
        ),
        migrations.AlterField(
            "notice",
            "audience",
            models.CharField(
                max_length=16,
                choices=[
                    *(("approver", "Approver"), ("requester", "Requester"), ("assigned", "Assigned")),
                    *(("commented", "Commented"), ("overdue", "Overdue")),
                ],
            ),
        ),
        *(
            migrations.AddField("changerequest", name, field)
            for name, field in {
                "due_at": models.DateTimeField(null=True),
                "revert_at": models.DateTimeField(null=True),
                "revert_after": models.PositiveIntegerField(null=True),
                "ends": models.UUIDField(null=True, db_index=True),
                "made_at": models.DateTimeField(null=True),
                "retry_at": models.DateTimeField(null=True),
                "tries": models.PositiveIntegerField(default=0, db_default=0),
                "told_ahead": models.PositiveIntegerField(null=True),
            }.items()
        ),
        migrations.AddIndex(
            "changerequest",
            models.Index(fields=["retry_at"], name="approvals_to_look_at", condition=Q(retry_at__isnull=False)),
        ),
        migrations.AddIndex(
            "changerequest",
            models.Index(fields=["target_id"], name="approvals_pending_ends", condition=Q(retry_at__isnull=False)),
        ),
    ]
