"""Ranges of seals that were verified, from which the next verification goes on."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("audit", "0016_claims")]

    operations = [
        migrations.CreateModel(
            name="VerifiedRange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run", models.UUIDField(null=True)),
                ("first", models.PositiveBigIntegerField()),
                ("last", models.PositiveBigIntegerField()),
                ("at", models.DateTimeField(null=True)),
                ("whole_at", models.DateTimeField(null=True)),
                ("learnt", models.BinaryField(default=b"")),
                ("mac", models.CharField(default="", max_length=64)),
                ("leased_until", models.DateTimeField(null=True)),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("in_doubt", models.BooleanField(default=False)),
            ],
            options={"default_permissions": ()},
        ),
        migrations.AddConstraint(
            "verifiedrange", models.UniqueConstraint(fields=("run", "first"), name="audit_range_of_run")
        ),
        migrations.AddField("logverification", "first_seal", models.PositiveBigIntegerField(null=True)),
    ]
