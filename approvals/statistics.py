"""How the queue of change requests is doing: what waits and since when, and how the last thirty days were decided."""

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
"""The states that a person's decision leads to."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The requests that could be decided now, by risk, and when the oldest of them was made."""

    by_risk: dict[Risk, int]
    oldest: datetime | None

    @property
    def oldest_age(self) -> timedelta | None:
        return None if self.oldest is None else timezone.now() - self.oldest


def find_waiting(requests: QuerySet[ChangeRequest]) -> Waiting:
    """What waits for a decision. Overdue requests do not, although the sweep has not marked them yet."""
    waiting = requests.order_by().filter(status=Status.PENDING, expires_at__gt=timezone.now())
    rows = {row["risk"]: row for row in waiting.values("risk").annotate(count=Count("id"), oldest=Min("created_at"))}
    return Waiting(
        by_risk={risk: rows[risk]["count"] if risk in rows else 0 for risk in Risk},
        oldest=min((row["oldest"] for row in rows.values()), default=None),
    )


def count_ended(requests: QuerySet[ChangeRequest], since: datetime) -> dict[Status, int]:
    """The requests that were decided since, by their state of now, and those that expired undecided."""
    ended = Q(status__in=_DECIDED, decided_at__gte=since) | Q(status=Status.EXPIRED, expires_at__gte=since)
    rows = requests.order_by().filter(ended).values_list("status").annotate(count=Count("id"))
    return dict.fromkeys((*_DECIDED, Status.EXPIRED), 0) | {Status(status): count for status, count in rows}


def median_time_to_decide(requests: QuerySet[ChangeRequest], since: datetime) -> timedelta | None:
    """Half of the decisions since then took at most so long; None without any."""
    decided: QuerySet = requests.filter(status__in=_DECIDED, decided_at__gte=since)
    count = decided.count()
    if not count:
        return None
    taken = ExpressionWrapper(F("decided_at") - F("created_at"), output_field=DurationField())
    times = decided.annotate(taken=taken).order_by("taken").values_list("taken", flat=True)
    middle = list(times[(count - 1) // 2 : count // 2 + 1])  # one of them, or the two between which it lies
    return sum(middle, timedelta()) / len(middle) if middle else None
