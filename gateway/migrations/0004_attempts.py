from django.db import migrations, models


class Migration(migrations.Migration):
    """The column keeps its name, which processes of the release before go on using during an upgrade."""

    dependencies = [("gateway", "0003_idempotency_records")]

    operations = [
        migrations.AlterField(
            "idempotencyrecord", "request_ids", models.JSONField(default=list, db_column="request_ids")
        ),
        migrations.RenameField("idempotencyrecord", "request_ids", "call_ids"),
        migrations.AddField("idempotencyrecord", "rights", models.CharField(max_length=64, null=True)),
        migrations.AddField(
            "idempotencyrecord", "encryption_key", models.CharField(max_length=16, default="", db_default="")
        ),
    ]
