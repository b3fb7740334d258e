"""The seals of removed records leave with them."""

from django.db import migrations

from audit.migrations._closing import let_owner_close


class Migration(migrations.Migration):
    rolling = "The log is guarded as before against everybody else."
    dependencies = [("audit", "0019_months")]

    operations = [migrations.RunPython(let_owner_close, migrations.RunPython.noop)]
