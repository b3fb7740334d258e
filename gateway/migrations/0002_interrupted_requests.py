"""A retry under an idempotency key has to know the killed requests before it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("gateway", "0001_kept_answers")]

    operations = [migrations.AddField("keptanswer", "request_ids", models.JSONField(default=list))]
