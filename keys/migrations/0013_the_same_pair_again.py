"""Keep for seconds what the pair that a refresh token has bought is derived from."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('keys', '0012_agents_in_the_access_state'),
    ]

    operations = [
        migrations.AddField(
            model_name='agentrefreshtoken',
            name='successor_salt',
            field=models.CharField(db_default='', default='', editable=False, max_length=64),
        ),
    ]
