"""Passkeys, and second factors that have no authenticator."""

import django.db.models.deletion
import django.utils.timezone
import uuid

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('keys', '0015_budgets'),
    ]

    operations = [
        migrations.AddField(
            model_name='secondfactor',
            name='has_authenticator',
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.CreateModel(
            name='Passkey',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('credential_id', models.CharField(max_length=1400, unique=True)),
                ('public_key', models.BinaryField()),
                ('sign_count', models.BigIntegerField(default=0)),
                ('last_challenge', models.BigIntegerField(default=0)),
                ('name', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('last_used_at', models.DateTimeField(null=True)),
                ('second_factor', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='passkeys', to='keys.secondfactor')),
            ],
            options={
                'ordering': ('created_at',),
                'default_permissions': (),
            },
        ),
    ]
