"""Workers lost with a change are counted by themselves: an attempt may also end with a directory that is away."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0004_longer_reasons")]

    operations = [
        migrations.AddField("changerequest", "lost_workers", models.PositiveIntegerField(default=0)),
    ]
