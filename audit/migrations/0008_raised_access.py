"""Changes of the gateway's own tables that let somebody do more than before say so."""

from django.db import migrations, models

from audit.migrations._append_only import protect_records, release_records


class Migration(migrations.Migration):
    dependencies = [("audit", "0007_verifications")]

    operations = [
        migrations.RunPython(release_records, protect_records),
        migrations.AddField("operationrecord", "raised_access", models.JSONField(null=True)),
        migrations.AddIndex(
            "operationrecord",
            models.Index(
                fields=["id"],
                name="audit_by_raised_access",
                condition=models.Q(raised_access__isnull=False),
            ),
        ),
        migrations.RunPython(protect_records, release_records),
    ]
