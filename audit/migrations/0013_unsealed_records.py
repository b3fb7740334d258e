"""A list of the records that are to be sealed; and seals are found by the records that they name."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("audit", "0012_reverts")]

    operations = [
        migrations.CreateModel(
            name="UnsealedRecord",
            fields=[
                ("record_id", models.UUIDField(primary_key=True, serialize=False)),
                (
                    "sealed_as",
                    models.CharField(
                        choices=[("open", "Open"), ("final", "Final"), ("refused", "Refused")], max_length=8
                    ),
                ),
            ],
            options={"default_permissions": ()},
        ),
        # The database keeps both indexes as long as the release before may come back (`audit.chain.marks`).
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveIndex("operationrecord", "audit_to_seal"),
                migrations.AlterField("operationrecord", "seal", models.BigIntegerField(null=True)),
            ]
        ),
        migrations.AddIndex(
            "logseal",
            models.Index(
                models.Func("entries", template="substr(%(expressions)s, length(%(expressions)s) - 47, 16)"),
                models.Func("entries", template="substr(%(expressions)s, 2, 16)"),
                name="audit_seal_of_record",
            ),
        ),
    ]
