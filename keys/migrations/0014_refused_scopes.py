"""Keep which scopes a person has taken away from an agent, so that it does not ask for them again."""

from django.db import migrations, models

from keys.migrations._access_state import watch


class Migration(migrations.Migration):
    rolling = "The triggers are made again as they were; the old release leaves the column null."

    dependencies = [
        ('keys', '0013_the_same_pair_again'),
    ]

    operations = [
        migrations.AddField(
            model_name='agentgrant',
            name='refused_scopes',
            field=models.JSONField(null=True),
        ),
        migrations.RunPython(watch, migrations.RunPython.noop),
    ]
