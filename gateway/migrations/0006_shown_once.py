from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("gateway", "0005_noted_backups")]

    operations = [
        migrations.CreateModel(
            name="ShownOnce",
            fields=[
                ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("value", models.TextField()),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "verbose_name": "value shown once",
                "default_permissions": (),
                "indexes": [models.Index(fields=["expires_at"], name="shown_once_expiry")],
            },
        ),
    ]
