from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0012_calls")]

    operations = [
        migrations.AlterField(
            "changerequest",
            "status",
            models.CharField(
                choices=[
                    ("pending", "Pending"),
                    ("approved", "Approved"),
                    ("applying", "Applying"),
                    ("applied", "Applied"),
                    ("partly-failed", "Partly Failed"),
                    ("failed", "Failed"),
                    ("unknown", "Unknown"),
                    ("stale", "Stale"),
                    ("rejected", "Rejected"),
                    ("expired", "Expired"),
                    ("cancelled", "Cancelled"),
                ],
                default="pending",
                max_length=16,
            ),
        ),
    ]
