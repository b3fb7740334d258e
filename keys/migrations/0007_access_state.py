"""Have the database itself say that something has changed of all that decides about who calls."""

from django.db import migrations

from keys.migrations._access_state import unwatch, watch


class Migration(migrations.Migration):
    dependencies = [
        ("keys", "0006_sessions_by_digest"),
        ("directory", "0009_protection_changes"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(watch, unwatch)]
