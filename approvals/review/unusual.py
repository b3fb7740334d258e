"""What is unusual about a request by what the operations log has of its requester: facts, for people to judge."""

from collections import Counter
from datetime import timedelta
from typing import Final

from django.db.models import Q

from approvals.models import ChangeRequest
from audit.identifiers import identifier_bounds
from audit.models import OperationRecord, Outcome
from core.text.messages import message

_LATELY: Final = timedelta(days=1)
_COMPARED: Final = 500
"""How many changes from before that say what is usual."""
_ENOUGH: Final = 20
"""With fewer, no time of the day is unusual."""
_MANY: Final = 10


def unusual_facts(request: ChangeRequest) -> list[str]:
    """In sentences, how the request differs from what its key, agent or person asked for more than a day before."""
    asked = OperationRecord.objects.filter(
        Q(outcome=Outcome.QUEUED) | Q(outcome=Outcome.SUCCEEDED, change_request_id=None),
        owner=request.requester,
        key_name=request.key_name,
        call_id__isnull=False,  # reads have none
    )
    since = identifier_bounds(request.created_at - _LATELY)[0]
    columns = "at", "operation", "target_kind"
    before = list(asked.filter(id__lt=since).order_by("-id").values_list(*columns)[:_COMPARED])
    if not before:
        return [message("It asked for its first change less than a day ago, so nothing says what is usual.")]
    facts: list[str] = []
    if all(kind != request.target_kind for _at, _operation, kind in before):
        facts.append(
            message("Of its {count} changes before, none was of an object of this kind.", count=len(before))
            if len(before) < _COMPARED
            else message("Of its last {count} changes before, none was of an object of this kind.", count=_COMPARED)
        )
    around = {(request.created_at.hour + hours) % 24 for hours in (-1, 0, 1)}
    if len(before) >= _ENOUGH and not any(at.hour in around for at, *_rest in before):
        facts.append(
            message(
                "It asks at a time of the day at which it asked for none of its last {count} changes.",
                count=len(before),
            )
        )
    days = Counter(at.date() for at, operation, _kind in before if operation == request.operation)
    most = max(days.values(), default=0)
    lately = asked.filter(id__gte=since, operation=request.operation).count()
    if lately >= _MANY and lately > 2 * most:
        facts.append(
            message(
                "It asked for {count} such changes within a day; before, for at most {most}.", count=lately, most=most
            )
        )
    return facts
