"""Approvals: what waits for a person, each change with everything needed to decide it, and what became of it."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path

from approvals.models import Status
from audit.administration.descriptions import find_thing
from gateway.console.page_context import Visit, page
from gateway.core.errors import GatewayError
from gateway.core.operation import Effect, Operation, Risk, operations

_DONE = {
    Status.PENDING: "Your approval is kept. Somebody else has to approve it too.",
    Status.APPROVED: "Approved. A worker makes the change now.",
    Status.REJECTED: "Rejected. The requester reads your comment.",
    Status.CANCELLED: "Withdrawn.",
}


@page()
def changes(visit: Visit) -> HttpResponseBase:
    """The inbox: what waits, unless another state is asked for (`status=any` for all of them)."""
    given = visit.query
    status = given.get("status", Status.PENDING)
    wanted = {**given, "status": status} if status != "any" else {k: v for k, v in given.items() if k != "status"}
    found = visit.perform("change-requests.search", query={"pageSize": "50", **wanted})
    return visit.render(
        "approvals/changes.html",
        {
            "found": found,
            "status": status,
            "statuses": Status.choices,
            "risks": list(Risk),
            "operations": sorted(item.name for item in operations() if _may_wait(item)),
            "statistics": (
                visit.perform("change-requests.read-statistics")
                if visit.may("change-requests.read-statistics")
                else None
            ),
        },
    )


def _may_wait(operation: Operation) -> bool:
    if operation.effect is Effect.ADMINISTER:
        return find_thing(operation.resource).gives_access
    return operation.effect is Effect.CHANGE


@page()
def change(visit: Visit, request_id: UUID) -> HttpResponseBase:
    return _page(visit, request_id)


def _page(visit: Visit, request_id: UUID, **context: Any) -> HttpResponseBase:
    review = visit.perform("change-requests.read-review", id=request_id)
    problem = context.get("problem")
    return visit.render(
        "approvals/change.html",
        {
            "review": review,
            "change": review["changeRequest"],
            "next": _next_waiting(visit, request_id),
            "comment": visit.form.get("comment", ""),
            **context,
        },
        status=problem.status if problem else 200,
    )


def _next_waiting(visit: Visit, request_id: UUID) -> str | None:
    """The request to look at after this one: the one before it in time, from the oldest on to the newest again."""
    if not visit.may("change-requests.approve"):
        return None
    waiting = visit.perform("change-requests.search", query={"status": "pending", "pageSize": "200"})["items"]
    others: list[str] = [item["id"] for item in waiting if item["id"] != str(request_id)]
    older = [item for item in others if item < str(request_id)]  # identifiers are in the order of time
    return next(iter(older or others), None)


@page(get="change-requests.read-forecast")
def forecast(visit: Visit, request_id: UUID) -> HttpResponseBase:
    """What would become of the change now: read from the directory, so it comes after the page."""
    told = visit.perform("change-requests.read-forecast", id=request_id)
    return visit.render("approvals/_change_forecast.html", {"forecast": told})


@page("POST")
def decide(visit: Visit, request_id: UUID, decision: str) -> HttpResponseBase:
    """Approve, reject or cancel, as the button pressed says; then on to the next one that waits."""
    comment = visit.form.get("comment", "").strip()
    bodies: Mapping[str, Any] = {
        "approve": {
            "digest": visit.form.get("digest", ""),
            "comment": comment or None,
            **({"code": code} if (code := visit.form.get("code", "").strip()) else {}),
        },
        "reject": {"comment": comment},
        "cancel": None,
    }
    try:
        decided = visit.perform(f"change-requests.{decision}", id=request_id, body=bodies[decision])
    except GatewayError as refusal:
        return _page(visit, request_id, problem=refusal)
    messages.success(visit.request, _DONE[Status(decided["status"])])
    return visit.redirect("change", request_id=request_id)


@page("POST")
def secret(visit: Visit, request_id: UUID) -> HttpResponseBase:
    """Show the generated password in this answer alone."""
    given = visit.perform("change-requests.reveal-secret", id=request_id)
    return _page(visit, request_id, generated_password=given["generatedPassword"])


urls = [
    path("changes/", changes, name="changes"),
    path("changes/<uuid:request_id>", change, name="change"),
    path("changes/<uuid:request_id>/forecast", forecast, name="change-forecast"),
    path("changes/<uuid:request_id>/secret", secret, name="change-secret"),
    *(
        path(f"changes/<uuid:request_id>/{decision}", decide, {"decision": decision}, name=f"change-{decision}")
        for decision in ("approve", "reject", "cancel")
    ),
]
