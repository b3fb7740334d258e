"""Which provider a session began at, and for whom there."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('keys', '0016_passkeys'),
    ]

    operations = [
        migrations.AddField(
            model_name='personsession',
            name='provider',
            field=models.CharField(db_default='', default='', max_length=32),
        ),
        migrations.AddField(
            model_name='personsession',
            name='provider_session',
            field=models.CharField(db_default='', default='', max_length=255),
        ),
        migrations.AddField(
            model_name='personsession',
            name='provider_subject',
            field=models.CharField(db_default='', default='', max_length=255),
        ),
        migrations.AddIndex(
            model_name='personsession',
            index=models.Index(condition=models.Q(('provider', ''), _negated=True), fields=['provider', 'provider_subject'], name='keys_session_at_provider'),
        ),
    ]
