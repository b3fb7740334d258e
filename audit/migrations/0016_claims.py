"""An approved change is claimed by the record that applies it, where a unique index kept it from being applied twice."""

from django.db import migrations, models

from audit.migrations._claims import INDEX, claim_changes


class Migration(migrations.Migration):
    atomic = False  # the log is locked for a moment only
    rolling = "The database itself claims the changes that their records apply."
    dependencies = [("audit", "0015_removal")]

    operations = [
        migrations.CreateModel(
            name="ChangeClaim",
            fields=[
                ("change_request_id", models.UUIDField(primary_key=True, serialize=False)),
                ("record_id", models.UUIDField()),
            ],
            options={"default_permissions": ()},
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(claim_changes)],
            state_operations=[migrations.RemoveConstraint("operationrecord", INDEX)],
        ),
    ]
