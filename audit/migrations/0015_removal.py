"""Records whose time is over are removed while others write."""

from django.db import migrations

from audit.migrations._removal import let_owner_remove


class Migration(migrations.Migration):
    rolling = "They remove records by taking the trigger off, as before."
    dependencies = [("audit", "0014_list_of_unsealed")]

    operations = [migrations.RunPython(let_owner_remove, migrations.RunPython.noop)]
