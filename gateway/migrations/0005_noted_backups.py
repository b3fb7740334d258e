from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("gateway", "0004_attempts")]

    operations = [
        migrations.CreateModel(
            name="NotedBackup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("file", models.TextField()),
                ("made_at", models.DateTimeField()),
                ("encryption_keys", models.JSONField()),
                ("log_keys", models.JSONField()),
            ],
            options={"ordering": ["made_at"], "default_permissions": ()},
        ),
    ]
