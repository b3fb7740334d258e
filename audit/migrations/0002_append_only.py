"""Make the operations log append-only in the database itself."""

from django.db import migrations

from audit.migrations._append_only import protect_records, release_records


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_operation_records")]

    operations = [migrations.RunPython(protect_records, release_records)]
