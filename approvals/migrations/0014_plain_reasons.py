from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0013_partly_failed")]

    operations = [migrations.AddField("changerequest", "plain_reasons", models.JSONField(null=True))]
