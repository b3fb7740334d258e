"""Let groups of a directory stand for groups of permissions."""

import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('directory', '0009_protection_changes'),
        ('keys', '0010_confined_people'),
    ]

    operations = [
        migrations.CreateModel(
            name='DirectoryGroup',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('object_guid', models.UUIDField(verbose_name='objectGUID')),
                ('distinguished_name', models.TextField()),
                ('connection', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='directory.directoryconnection')),
                ('group', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='directory_groups', to='auth.group')),
            ],
            options={
                'ordering': ('connection__name', 'distinguished_name'),
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('group', 'connection', 'object_guid'), name='keys_directory_group_once')],
            },
        ),
        migrations.CreateModel(
            name='DirectoryMembership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('group', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='auth.group')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='directory_memberships', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('person', 'group'), name='keys_directory_membership_once')],
            },
        ),
    ]
