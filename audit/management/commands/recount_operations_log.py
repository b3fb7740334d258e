"""`manage.py recount_operations_log`: count the records by day anew."""

from typing import Any

from django.core.management.base import BaseCommand
from django.db.models import Count, Sum

from audit.chain import counting
from audit.models import DailyCount


class Command(BaseCommand):
    """Count the records of the operations log by day anew."""

    help = (
        "Forget the counts by day from which statistics are shown, and count the sealed records of the last 90 days "
        "anew. Nobody waits for it; meanwhile statistics are read from the records. It is never needed, unless "
        "somebody has changed the counts."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        counting.recount()
        found = DailyCount.objects.aggregate(records=Sum("records"), days=Count("day", distinct=True))
        self.stdout.write(f"{found['records'] or 0} complete records of {found['days']} days are counted.")
