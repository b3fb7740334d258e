"""On PostgreSQL the months of the log are partitions of its table."""

from django.db import migrations

from audit.migrations._months import begin_months


class Migration(migrations.Migration):
    atomic = False  # the log is locked for moments only
    rolling = "The log has the same name, columns, indexes and triggers."
    dependencies = [("audit", "0018_daily_counts")]

    operations = [migrations.RunPython(begin_months)]
