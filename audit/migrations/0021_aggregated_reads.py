"""A record may stand for several reads of a minute."""

from django.db import migrations, models

from audit.migrations._reads import add_reads


class Migration(migrations.Migration):
    atomic = False  # the log is locked for a moment only
    rolling = "The column is NULL in their records, and in those of this release until a key asks for another."
    dependencies = [("audit", "0020_closed_months")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AddField("operationrecord", "reads", models.IntegerField(null=True)),
            ]
        ),
        migrations.RunPython(add_reads),
    ]
