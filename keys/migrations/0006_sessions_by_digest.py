"""Sessions are kept under a digest of the cookie's key from now on: everybody signs in once more.

The keys stored until now are those of cookies. They are in whatever was copied of the database, so they must not go on
being good for anything.
"""

from django.db import migrations
from django.utils import timezone


def end_all_sessions(apps, _schema_editor):
    apps.get_model("keys", "AccessToken").objects.filter(revoked_at=None).update(revoked_at=timezone.now())
    apps.get_model("keys", "PersonSession").objects.all().delete()
    apps.get_model("sessions", "Session").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("keys", "0005_people_told_apart"), ("sessions", "0001_initial")]

    operations = [migrations.RunPython(end_all_sessions, migrations.RunPython.noop)]
