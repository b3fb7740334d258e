from django.db import migrations

import gateway.core.encryption
from directory.models.bind_password_seal import DESTINATION_FIELDS, seal_of


def seal(apps, schema_editor):
    """Bind each password to where it is sent today."""
    for row in apps.get_model("directory", "DirectoryConnection").objects.all():
        destination = {name: getattr(row, name) for name in DESTINATION_FIELDS}
        row.bind_seal = seal_of(**destination, password=row.bind_password)
        row.save(update_fields=["bind_seal"])


class Migration(migrations.Migration):
    dependencies = [
        ("directory", "0006_read_confidential"),
    ]

    operations = [
        migrations.AddField(
            model_name="directoryconnection",
            name="bind_seal",
            field=gateway.core.encryption.EncryptedTextField(blank=True, db_default="", default="", editable=False),
        ),
        migrations.RunPython(seal, migrations.RunPython.noop),
    ]
