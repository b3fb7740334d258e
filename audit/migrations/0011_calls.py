"""Records of changes name the request that made them by an identifier of the gateway's own."""

from django.db import migrations, models

from audit.migrations._append_only import protect_records, release_records


class Migration(migrations.Migration):
    rolling = "The triggers are made again as they were."
    dependencies = [("audit", "0010_webhooks_for_people")]

    operations = [
        migrations.RunPython(release_records, protect_records),
        migrations.AddField("operationrecord", "call_id", models.UUIDField(null=True)),
        migrations.AddIndex(
            "operationrecord",
            models.Index(fields=["call_id", "id"], name="audit_by_call", condition=models.Q(call_id__isnull=False)),
        ),
        migrations.RunPython(protect_records, release_records),
    ]
