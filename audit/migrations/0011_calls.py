"""Records of changes name the request that made them by an identifier of the gateway's own."""

from django.db import migrations, models

from audit.migrations._calls import add_calls


class Migration(migrations.Migration):
    atomic = False  # the log is locked for a moment only
    rolling = "The triggers stay as they were."
    dependencies = [("audit", "0010_webhooks_for_people")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AddField("operationrecord", "call_id", models.UUIDField(null=True)),
                migrations.AddIndex(
                    "operationrecord",
                    models.Index(
                        fields=["call_id", "id"], name="audit_by_call", condition=models.Q(call_id__isnull=False)
                    ),
                ),
            ]
        ),
        migrations.RunPython(add_calls),
    ]
