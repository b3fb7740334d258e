"""An index of reverts by the record that they revert, so that each page of the log finds them at once."""

from django.db import migrations, models
from django.db.models.functions import Substr

from audit.migrations._concurrently import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("audit", "0011_calls")]

    operations = [
        AddIndexConcurrently(
            "operationrecord",
            models.Index(
                Substr("reason", 1, 44), name="audit_by_reverted", condition=models.Q(reason__startswith="Reverts ")
            ),
        )
    ]
