"""The database lists each record that is to be sealed, and sealing does not write the log again."""

from django.db import migrations

from audit.migrations._unsealed import forget_release_before, list_unsealed, unlist


class Migration(migrations.Migration):
    atomic = False  # the log is locked for a moment only
    rolling = "Its workers go on to note seals in the records, which takes these off the list."
    dependencies = [("audit", "0013_unsealed_records")]

    operations = [
        migrations.RunPython(list_unsealed, unlist),
        migrations.RunPython(forget_release_before, migrations.RunPython.noop),
    ]
