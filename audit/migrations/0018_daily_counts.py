"""Complete records are counted by day as they are sealed. A worker counts what is sealed already, step by step."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("audit", "0017_verified_ranges")]

    operations = [
        migrations.CreateModel(
            name="CountedSeals",
            fields=[
                ("id", models.PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ("number", models.BigIntegerField()),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="DailyCount",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        *("day", "credential_id", "key_name", "outcome", "is_read", "is_forbidden"),
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("day", models.DateField()),
                ("credential_id", models.CharField(max_length=64)),
                ("key_name", models.CharField(max_length=255)),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            *(("pending", "Pending"), ("succeeded", "Succeeded"), ("failed", "Failed")),
                            *(("queued", "Queued"), ("unknown", "Unknown")),
                        ],
                        max_length=16,
                    ),
                ),
                ("is_read", models.BooleanField()),
                ("is_forbidden", models.BooleanField()),
                ("records", models.PositiveBigIntegerField()),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["credential_id", "day"], name="audit_count_by_credential")],
            },
        ),
    ]
