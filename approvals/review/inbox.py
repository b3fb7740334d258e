"""The inbox: change requests filtered and in order, those of one call together, and which comes next.

Requests of one batch or import have the call that asked for them in common (`Call.call_id`): they are a group, and one
line of the inbox however many they are. What a client calls its requests groups nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal
from uuid import UUID

from django.db.models import Case, Count, F, IntegerField, Max, Min, Q, QuerySet, TextField, Value, When, Window
from django.db.models.functions import Cast, Coalesce, RowNumber
from django.utils import timezone

from approvals.models import ChangeRequest
from core.operation import Risk

Order = Literal["urgency", "oldest", "newest", "expiring", "object", "owner", "key"]

SAMPLE: Final = 12
"""So many requests of a group are read to say what it is about."""
_RANKS: Final = {Risk.SECURITY: 0, Risk.DESTRUCTIVE: 1, Risk.ORDINARY: 2}
"""The most dangerous first."""
_RANK: Final = Case(
    *(When(risk=risk.value, then=Value(rank)) for risk, rank in _RANKS.items()),
    default=Value(0),
    output_field=IntegerField(),
)
_GROUP: Final = Coalesce("call_id", "id")
"""What the requests of one group have in common. One that an earlier release held stands alone."""

_ORDERS: Final[dict[Order, tuple[str, ...]]] = {
    "urgency": ("rank", "oldest"),
    "oldest": ("oldest",),
    "newest": ("-newest",),
    "expiring": ("soonest",),
    "object": ("object",),
    "owner": ("owner", "oldest"),
    "key": ("key", "oldest"),
}
_OF_ONE: Final = {
    "rank": _RANK,
    "oldest": F("created_at"),
    "newest": F("created_at"),
    "soonest": F("expires_at"),
    "object": F("target_dn"),
    "owner": F("requester"),
    "key": Case(When(key_name__isnull=True, then=Value("")), default=F("key_name"), output_field=TextField()),
}


def narrowed(
    requests: QuerySet[ChangeRequest],
    *,
    text: str | None,
    attribute: str | None,
    older_than_hours: int | None,
    **columns: Any,
) -> QuerySet[ChangeRequest]:
    """The requests that fit, by their `columns` too; None of each for all.

    `text` is looked for in names, reasons and accounts.
    """
    requests = requests.filter(**{name: value for name, value in columns.items() if value is not None})
    if text is not None:
        places = ("target_dn", "target_account", "requester", "key_name", "reason")
        contains = {f"{name}__icontains": text for name in places}
        requests = requests.filter(Q(**contains, _connector=Q.OR))
    if attribute is not None:
        # As both databases write the JSON: within a value the quotation marks would be escaped.
        requests = requests.annotate(written=Cast("changes", TextField())).filter(
            written__icontains=f'"attribute": "{attribute}"'
        )
    if older_than_hours is not None:
        requests = requests.filter(created_at__lte=timezone.now() - timedelta(hours=older_than_hours))
    return requests


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the inbox: a group of requests, mostly of one. `first` are some of them, the most dangerous first."""

    count: int
    risks: dict[Risk, int]
    first: tuple[ChangeRequest, ...]


def grouped(requests: QuerySet[ChangeRequest], order: Order) -> tuple[QuerySet[Any, Any], tuple[str, ...]]:
    """The groups of requests as rows of their common values, counts and what they are ordered by; and that order."""
    lines = (
        requests.order_by()
        .annotate(group=_GROUP)
        .values("group")
        .annotate(
            rank=Min(_RANK),
            oldest=Min("created_at"),
            newest=Max("created_at"),
            soonest=Min("expires_at"),
            object=Min("target_dn"),
            owner=Min("requester"),
            key=Min(_OF_ONE["key"]),
            count=Count("id"),
            **{risk.value: Count("id", filter=Q(risk=risk.value)) for risk in Risk},
        )
    )
    rows = lines.values_list("group", *_OF_ONE, "count", *(risk.value for risk in Risk), named=True)
    return rows, (*_ORDERS[order], "group")


def lines_of(requests: QuerySet[ChangeRequest], groups: Sequence[Any]) -> list[Line]:
    """The lines for rows of `grouped`, with some requests of each: one query for all of them."""
    wanted = [row.group for row in groups]
    numbered = requests.filter(Q(call_id__in=wanted) | Q(id__in=wanted)).annotate(
        number=Window(RowNumber(), partition_by=[_GROUP], order_by=[_RANK.asc(), F("id").asc()])
    )
    first: dict[UUID, list[ChangeRequest]] = defaultdict(list)
    for request in numbered.filter(number__lte=SAMPLE).order_by("number"):
        first[request.call_id or request.id].append(request)
    return [
        Line(
            count=row.count,
            risks={risk: getattr(row, risk.value) for risk in Risk},
            first=tuple(first[row.group]),
        )
        for row in groups
        if row.group in first
    ]


def next_of(
    requests: QuerySet[ChangeRequest],
    order: Order,
    *,
    after: ChangeRequest | None,
    leave_out: Iterable[UUID] = (),
    backwards: bool = False,
) -> list[UUID]:
    """Which requests come next in an order: those behind `after`, then those from the beginning on; a few at most."""
    names = (*_ORDERS[order], "id")
    if backwards:
        names = tuple(name[1:] if name.startswith("-") else f"-{name}" for name in names)
    columns = {name: _OF_ONE[name] for name in (each.lstrip("-") for each in _ORDERS[order])}
    ordered = requests.annotate(**columns).order_by(*names).exclude(id__in=list(leave_out))
    looked_at = ChangeRequest.objects.filter(id__in=[after.id] if after else []).annotate(**columns)
    if mine := looked_at.values(*columns, "id").first():
        behind = list(ordered.filter(_behind(names, mine)).values_list("id", flat=True)[:_CANDIDATES])
        if behind:
            return behind
    return list(ordered.values_list("id", flat=True)[:_CANDIDATES])


_CANDIDATES: Final = 50
"""So many are looked at for one that its reader may decide."""


def _behind(names: Sequence[str], mine: dict[str, Any]) -> Q:
    """The rows behind one, by several columns of which each has a direction."""
    found, equal = Q(), Q()
    for name in names:
        field, step = name.lstrip("-"), "lt" if name.startswith("-") else "gt"
        found |= equal & Q(**{f"{field}__{step}": mine[field]})
        equal &= Q(**{field: mine[field]})
    return found
