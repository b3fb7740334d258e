"""Asking anew for a change that has become stale: the same input, judged against the values of now."""

from uuid import UUID

from django.db import transaction

from approvals.review import decisions
from approvals.shapes import ChangeRequestJson
from audit.model_changes.descriptions import find_audited_model
from audit.model_changes.recording import recorded
from core.call import Call, Surface
from core.operation import Effect, operation
from gateway import pipeline
from operations.approvals.change_requests.requests import DECIDE, find_visible, renderer_for, require_decidable


@operation(
    "change-requests.ask-anew",
    "POST change-requests/{id}/ask-anew",
    "Resubmit {a change request}",
    permission=DECIDE,
    effect=Effect.UNDERTAKE,
    output=ChangeRequestJson,
    surfaces=frozenset({Surface.REST}),
)
def resubmit(call: Call, *, id: UUID) -> ChangeRequestJson:
    """Put a new request in the place of a waiting one whose values have changed; the answer is the new one.

    It is the requester's as the old one was, with the same input, and shows the values of now. The old one is rejected
    with a comment that names it. Only who may decide the old one can do this. 409 when nothing would change any more.
    """
    require_decidable(call, id)
    name = "change-requests.reject"
    with transaction.atomic():
        old = decisions.find_request(id, with_input=True)
        with recorded(call, operation=name) as administration:
            administration.watch(find_audited_model("change-requests"), id)
            decisions.reject(call.person, id, comment="The values have changed since; it was asked for anew.")
        new = pipeline.resubmit(old)
    return renderer_for(call)(find_visible(call, new.id))
