import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0002_generated_secrets'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(model_name='changerequest', name='risk_reasons', field=models.JSONField(default=list)),
        migrations.AddField(model_name='changerequest', name='protected', field=models.BooleanField(default=False)),
        migrations.AddField(model_name='changerequest', name='first_approved_by_id', field=models.BigIntegerField(null=True)),
        migrations.AddField(model_name='changerequest', name='first_approved_by', field=models.CharField(max_length=255, null=True)),
        migrations.AddField(model_name='changerequest', name='first_approved_at', field=models.DateTimeField(null=True)),
        migrations.AddField(model_name='changerequest', name='first_comment', field=models.TextField(null=True)),
        # Nobody is told now of what happened before.
        migrations.AddField(model_name='changerequest', name='to_announce', field=models.BooleanField(default=False)),
        migrations.AlterField(model_name='changerequest', name='to_announce', field=models.BooleanField(default=True)),
        migrations.AddField(model_name='changerequest', name='expiry_announced', field=models.BooleanField(default=False)),
        migrations.AddIndex(
            model_name='changerequest',
            index=models.Index(condition=models.Q(('to_announce', True)), fields=['id'], name='approvals_to_announce'),
        ),
        migrations.AddIndex(
            model_name='changerequest',
            index=models.Index(fields=['decided_at'], name='approvals_by_decision'),
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('audience', models.CharField(choices=[('approver', 'Approver'), ('requester', 'Requester')], max_length=16)),
                ('due_at', models.DateTimeField(db_index=True)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('claim', models.UUIDField(null=True)),
                ('claimed_until', models.DateTimeField(null=True)),
                ('change_request', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='approvals.changerequest')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
            },
        ),
    ]
