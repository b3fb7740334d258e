from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0015_wording")]

    operations = [
        migrations.CreateModel(
            "BudgetUse",
            [
                ("holder", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("used", models.JSONField(default=dict)),
                ("told", models.JSONField(default=dict)),
            ],
            options={"default_permissions": ()},
        ),
    ]
