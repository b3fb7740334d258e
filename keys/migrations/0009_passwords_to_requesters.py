"""Let a key say that generated passwords are for its owner."""

from django.db import migrations, models

from keys.migrations._access_state import watch


class Migration(migrations.Migration):
    rolling = "The triggers are made again as they were."

    dependencies = [
        ('keys', '0008_agents'),
    ]

    operations = [
        migrations.AddField(
            model_name='apikey',
            name='passwords_to_requester',
            field=models.BooleanField(db_default=False, default=False, help_text='A password that is generated when an approved reset is applied is shown once to the owner of the key instead of the approver.', verbose_name='generated passwords go to the owner'),
        ),
        # SQLite has rebuilt the table, and lost its triggers.
        migrations.RunPython(watch, migrations.RunPython.noop),
    ]
