from django.db import migrations, models

from keys.migrations._access_state import watch


def _budget(name: str, **options: object) -> migrations.AddField:
    return migrations.AddField("apikey", name, models.PositiveIntegerField(blank=True, null=True, **options))


class Migration(migrations.Migration):
    rolling = "The triggers are made again as they were."

    dependencies = [("keys", "0014_refused_scopes")]

    operations = [
        _budget(
            "destructive_changes_per_hour",
            help_text="Further ones wait for a person. Empty: as configured for all keys.",
        ),
        _budget("destructive_changes_per_day"),
        _budget("security_changes_per_hour"),
        _budget("security_changes_per_day"),
        # SQLite may have rebuilt the table, and lost its triggers.
        migrations.RunPython(watch, migrations.RunPython.noop),
    ]
