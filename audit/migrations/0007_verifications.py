"""When the log was verified last, and what was found."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("audit", "0006_applying_again")]

    operations = [
        migrations.CreateModel(
            name="LogVerification",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                ("seals", models.PositiveBigIntegerField()),
                ("records", models.PositiveBigIntegerField()),
                ("finding", models.TextField(null=True)),
                ("mac", models.CharField(max_length=64)),
            ],
            options={"default_permissions": ()},
        )
    ]
