"""Let a key say that reads which are alike are recorded together."""

from django.db import migrations, models

from keys.migrations._access_state import watch


class Migration(migrations.Migration):
    rolling = "The triggers are made again as they were."
    dependencies = [("keys", "0018_calendar_addresses")]

    operations = [
        migrations.AddField(
            "apikey",
            "aggregates_reads",
            models.BooleanField(
                "reads are recorded together",
                default=False,
                db_default=False,
                help_text="Reads of the same object, or searches, that are alike and succeed within a minute are one "
                "record, with their number.",
            ),
        ),
        # SQLite has rebuilt the table, and lost its triggers.
        migrations.RunPython(watch, migrations.RunPython.noop),
    ]
