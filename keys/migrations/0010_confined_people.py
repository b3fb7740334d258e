"""Let people and groups of permissions be confined to parts of directories, as roles are."""

import django.db.models.deletion
from django.db import migrations, models

from keys.migrations._access_state import watch


class Migration(migrations.Migration):
    rolling = "The triggers are made again as they were, and nobody is confined yet."

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('keys', '0009_passwords_to_requesters'),
    ]

    operations = [
        migrations.CreateModel(
            name='GroupScopes',
            fields=[
                ('group', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='confinement', serialize=False, to='auth.group')),
                ('scopes', models.JSONField(default=list)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.AddField(
            model_name='person',
            name='scopes',
            field=models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list, editable=False),
        ),
        # One more table decides about who calls, and SQLite has rebuilt another one and lost its triggers.
        migrations.RunPython(watch, migrations.RunPython.noop),
    ]
