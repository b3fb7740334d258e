"""Room for the record that a revert reverts, before the caller's reason."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0003_announcing_and_two_approvals")]

    operations = [migrations.AlterField("changerequest", "reason", models.CharField(max_length=600, null=True))]
