"""An approved change may be tried again after an attempt that came to nothing."""

from django.db import migrations, models

from audit.migrations._append_only import protect_records, release_records

NAME = "audit_one_application_per_change_request"


class Migration(migrations.Migration):
    dependencies = [("audit", "0005_longer_reasons")]

    operations = [
        migrations.RunPython(release_records, protect_records),
        migrations.RemoveConstraint("operationrecord", NAME),
        migrations.AddConstraint(
            "operationrecord",
            models.UniqueConstraint(
                fields=["change_request_id"],
                condition=models.Q(
                    surface="worker", run_id__isnull=True, outcome__in=["succeeded", "pending", "unknown"]
                ),
                name=NAME,
            ),
        ),
        migrations.RunPython(protect_records, release_records),
    ]
