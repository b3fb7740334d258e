from django.db import migrations


class Migration(migrations.Migration):
    """The table keeps its name, which processes of the release before go on using during an upgrade."""

    dependencies = [("gateway", "0002_interrupted_requests")]

    operations = [
        migrations.AlterModelTable("keptanswer", "gateway_keptanswer"),
        migrations.RenameModel("KeptAnswer", "IdempotencyRecord"),
    ]
