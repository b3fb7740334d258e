from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0014_plain_reasons")]

    operations = [migrations.AddField("changerequest", "wording", models.JSONField(null=True))]
