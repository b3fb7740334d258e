"""Each seal says by which key it was made, so that a key that is gone can be told from tampering."""

from django.db import migrations, models

from audit.migrations._append_only import protect_records, release_records


class Migration(migrations.Migration):
    dependencies = [("audit", "0008_raised_access")]

    operations = [
        migrations.RunPython(release_records, protect_records),
        migrations.AddField("logseal", "key", models.CharField(max_length=16, default="", db_default="")),
        migrations.RunPython(protect_records, release_records),
    ]
