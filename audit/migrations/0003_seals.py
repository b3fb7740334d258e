"""Codes and seals, which show tampering with the operations log. Records made before get their code here."""

from typing import Any

from django.db import migrations, models

from audit.migrations._append_only import protect_records, release_records
from audit.migrations._codes import mac_of


def give_codes(apps: Any, schema_editor: Any) -> None:
    records = apps.get_model("audit", "OperationRecord").objects
    for facts in records.filter(mac="").values().iterator(chunk_size=500):
        records.filter(id=facts["id"]).update(mac=mac_of(facts))


class Migration(migrations.Migration):
    dependencies = [("audit", "0002_append_only")]

    operations = [
        migrations.RunPython(release_records, protect_records),
        migrations.CreateModel(
            name="LogSeal",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("sealed_at", models.DateTimeField()),
                ("records", models.PositiveBigIntegerField()),
                ("entries", models.BinaryField()),
                ("mac", models.CharField(max_length=64)),
            ],
            options={"default_permissions": ()},
        ),
        migrations.AddField("operationrecord", "mac", models.CharField(default="", max_length=64)),
        migrations.AddField("operationrecord", "seal", models.BigIntegerField(db_index=True, null=True)),
        migrations.AddField(
            "operationrecord",
            "sealed_as",
            models.CharField(
                choices=[("open", "Open"), ("final", "Final"), ("refused", "Refused")], max_length=8, null=True
            ),
        ),
        migrations.AddIndex(
            "operationrecord",
            models.Index(
                condition=models.Q(("sealed_as__isnull", True), ("sealed_as", "open"), _connector="OR"),
                fields=["id"],
                name="audit_to_seal",
            ),
        ),
        migrations.RunPython(give_codes, migrations.RunPython.noop),
        migrations.RunPython(protect_records, release_records),
    ]
