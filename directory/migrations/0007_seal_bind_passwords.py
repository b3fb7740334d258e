from django.db import migrations, models

from directory.migrations._bind_password_seal import encrypted_seal


def seal(apps, schema_editor):
    """Bind each password to where it is sent today."""
    for row in apps.get_model("directory", "DirectoryConnection").objects.all():
        row.bind_seal = encrypted_seal(row)
        row.save(update_fields=["bind_seal"])


class Migration(migrations.Migration):
    dependencies = [
        ("directory", "0006_read_confidential"),
    ]

    operations = [
        migrations.AddField(
            model_name="directoryconnection",
            name="bind_seal",
            field=models.TextField(blank=True, db_default="", default="", editable=False),
        ),
        migrations.RunPython(seal, migrations.RunPython.noop),
    ]
