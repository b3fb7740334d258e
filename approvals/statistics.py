"""Statistics of change requests: how many wait, for how long, and how those of the last thirty days ended."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, DurationField, ExpressionWrapper, F, Min, Q, QuerySet
from django.utils import timezone

from approvals.models import ChangeRequest, Status
from core.operation import Risk

PERIOD = timedelta(days=30)

_DECIDED = (
    *(Status.APPROVED, Status.APPLYING, Status.APPLIED, Status.PARTLY_FAILED, Status.FAILED),
    *(Status.UNKNOWN, Status.STALE, Status.REJECTED),
)
"""The states that follow a person's decision."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many requests could be decided now, by risk, and when the oldest was made."""

    by_risk: dict[Risk, int]
    oldest: datetime | None

    @property
    def oldest_age(self) -> timedelta | None:
        return None if self.oldest is None else timezone.now() - self.oldest


def find_waiting(requests: QuerySet[ChangeRequest]) -> Waiting:
    """Count what waits for a decision, without overdue requests that the sweep has not marked yet."""
    waiting = requests.order_by().filter(status=Status.PENDING, expires_at__gt=timezone.now())
    rows = {row["risk"]: row for row in waiting.values("risk").annotate(count=Count("id"), oldest=Min("created_at"))}
    return Waiting(
        by_risk={risk: rows[risk]["count"] if risk in rows else 0 for risk in Risk},
        oldest=min((row["oldest"] for row in rows.values()), default=None),
    )


def count_ended(requests: QuerySet[ChangeRequest], since: datetime) -> dict[Status, int]:
    """Count the requests that were decided since then, by their present state, and those that expired undecided."""
    ended = Q(status__in=_DECIDED, decided_at__gte=since) | Q(status=Status.EXPIRED, expires_at__gte=since)
    rows = requests.order_by().filter(ended).values_list("status").annotate(count=Count("id"))
    return dict.fromkeys((*_DECIDED, Status.EXPIRED), 0) | {Status(status): count for status, count in rows}


def median_time_to_decide(requests: QuerySet[ChangeRequest], since: datetime) -> timedelta | None:
    """The median time from request to decision since then; None without any decision."""
    decided: QuerySet = requests.filter(status__in=_DECIDED, decided_at__gte=since)
    count = decided.count()
    if not count:
        return None
    taken = ExpressionWrapper(F("decided_at") - F("created_at"), output_field=DurationField())
    times = decided.annotate(taken=taken).order_by("taken").values_list("taken", flat=True)
    middle = list(times[(count - 1) // 2 : count // 2 + 1])  # one value, or the two around the median
    return sum(middle, timedelta()) / len(middle) if middle else None
