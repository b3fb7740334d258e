"""Room for the record that a revert reverts, before the caller's reason."""

from django.db import migrations, models

from audit.migrations._append_only import protect_records, release_records


class Migration(migrations.Migration):
    dependencies = [("audit", "0004_webhooks")]

    operations = [
        migrations.RunPython(release_records, protect_records),
        migrations.AlterField("operationrecord", "reason", models.CharField(max_length=600, null=True)),
        migrations.RunPython(protect_records, release_records),
    ]
