from django.db import migrations, models


class Migration(migrations.Migration):
    """Requests of one call are a group: what earlier releases held stands alone."""

    dependencies = [("approvals", "0011_comments_assignment_and_passwords")]

    operations = [
        migrations.AddField("changerequest", "call_id", models.UUIDField(null=True)),
        migrations.AddIndex(
            "changerequest",
            models.Index(fields=["call_id"], name="approvals_by_call", condition=models.Q(call_id__isnull=False)),
        ),
    ]
