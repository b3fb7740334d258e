"""Let a change of an agent, its grant or its tokens make another state of access."""

from django.db import migrations

from keys.migrations._access_state import watch


class Migration(migrations.Migration):
    rolling = "The triggers on the other tables are made again as they were."

    dependencies = [
        ('keys', '0011_groups_of_directories'),
    ]

    operations = [
        migrations.RunPython(watch, migrations.RunPython.noop),
    ]
