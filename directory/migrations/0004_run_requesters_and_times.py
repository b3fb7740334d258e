from django.db import migrations, models
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce


def name_requesters(apps, schema_editor):
    """The user name of whoever each run was done for, as far as the person is still there."""
    people = apps.get_model("keys", "Person").objects.filter(pk=OuterRef("person_id"))
    runs = apps.get_model("directory", "Run").objects
    runs.update(requester=Coalesce(Subquery(people.values("username")[:1]), models.Value("")))


class Migration(migrations.Migration):
    dependencies = [
        ("directory", "0003_saved_filters"),
        ("keys", "0001_people_roles_and_keys"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="requester",
            field=models.CharField(default="", max_length=255),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="run",
            name="started_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.RunPython(name_requesters, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["connection", "-created_at", "-id"], name="runs_newest_first"),
        ),
    ]
