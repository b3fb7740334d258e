"""A change that waits for a person, with everything needed to decide it, and what became of it."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path, reverse

from approvals.models import Status
from directory.shapes.change_words import say
from gateway.console.approvals.inbox import kept_filters
from gateway.console.approvals.together import address_of, find_next, next_waiting
from gateway.console.page_context import Visit, page
from gateway.console.shared.change_facts import facts_of_request
from gateway.core.errors import GatewayError
from gateway.core.shapes import parse_guid

_DONE: Final = {
    Status.PENDING: "Your approval is kept. Somebody else has to approve it too.",
    Status.APPROVED: "Approved. A worker makes the change now.",
    Status.REJECTED: "Rejected. The requester reads your comment.",
    Status.CANCELLED: "Withdrawn.",
}
RUNS: Final = frozenset({"organization-units.disable-accounts", "organization-units.enable-accounts"})
"""What a run is asked for by."""
_UNDER_WAY: Final = (Status.APPROVED, Status.APPLYING, Status.UNKNOWN)
"""Decided, and not yet at an end."""


@page()
def change(visit: Visit, request_id: UUID) -> HttpResponseBase:
    return _page(visit, request_id)


def _page(visit: Visit, request_id: UUID, **context: Any) -> HttpResponseBase:
    review = visit.perform("change-requests.read-review", id=request_id)
    problem = context.get("problem")
    decided = parse_guid(visit.query.get("decided", ""))
    is_pending = review["changeRequest"]["status"] == Status.PENDING
    return visit.render(
        "approvals/change.html",
        {
            "review": review,
            "change": review["changeRequest"],
            "said": say(facts_of_request(review)),
            "next": next_waiting(visit, after=request_id),
            "previous": next_waiting(visit, after=request_id, backwards=True),
            "decided": _outcome(visit, decided) if decided is not None and decided != request_id else None,
            "is_under_way": review["changeRequest"]["status"] in _UNDER_WAY,
            "is_run": review["changeRequest"]["operation"] in RUNS,
            "may_talk": is_pending and (review["own"] or visit.may("change-requests.approve")),
            "kept": kept_filters(visit),
            "comment": visit.form.get("comment", ""),
            **context,
        },
        status=problem.status if problem else 200,
    )


def _outcome(visit: Visit, request_id: UUID) -> dict[str, Any] | None:
    """How a request stands that was just decided."""
    try:
        review = visit.perform("change-requests.read-review", id=request_id)
    except GatewayError:  # made up
        return None
    change = review["changeRequest"]
    return {
        "change": change,
        "headline": str(say(facts_of_request(review))),
        "is_under_way": change["status"] in _UNDER_WAY,
        "secretUntil": review["secretUntil"],
    }


@page()
def outcome(visit: Visit, request_id: UUID) -> HttpResponseBase:
    """How a decided request stands; it asks for itself until that is known."""
    return visit.render("approvals/_outcome.html", {"decided": _outcome(visit, request_id)})


@page(get="change-requests.read-forecast")
def forecast(visit: Visit, request_id: UUID) -> HttpResponseBase:
    """What would become of the change now: read from the directory, so it comes after the page."""
    found = visit.perform("change-requests.read-forecast", id=request_id)
    review = visit.perform("change-requests.read-review", id=request_id)
    now = {**review, "unlisted": {}, "changeRequest": {**review["changeRequest"], "changes": found["changes"]}}
    return visit.render(
        "approvals/_change_forecast.html",
        {"forecast": found, "now": say(facts_of_request(now)), "review": review, "change": review["changeRequest"]},
    )


@page(get="change-requests.read-run-plan")
def run_plan(visit: Visit, request_id: UUID) -> HttpResponseBase:
    """What a run would mean for each of its accounts now, as its plan was shown."""
    plan = visit.perform("change-requests.read-run-plan", id=request_id)
    effects = [account["effect"] for account in plan["accounts"]]
    return visit.render(
        "approvals/_run_plan.html",
        {
            "plan": plan,
            "counts": {effect: effects.count(effect) for effect in ("change", "none", "protected", "absent")},
            "changed": sum(account["changed"] for account in plan["accounts"]),
        },
    )


@page("POST")
def ask_anew(visit: Visit, request_id: UUID) -> HttpResponseBase:
    """Replace a stale request by one with the values of now, and show that one."""
    try:
        new = visit.perform("change-requests.ask-anew", id=request_id)
    except GatewayError as refusal:
        return _page(visit, request_id, problem=refusal)
    messages.success(visit.request, "It was asked for anew: these are the values of now.")
    return visit.redirect("change", request_id=new["id"])


@page("POST")
def decide(visit: Visit, request_id: UUID, decision: str) -> HttpResponseBase:
    """Approve, reject or cancel, as the button pressed says; then on to the next one that waits.

    What becomes of this one is told there. Without a next one the request's own page is followed. A browser that can
    give the next page its own address gets it in this answer (`atOnce`): every request counts against a rate limit.
    """
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
    status = Status(decided["status"])
    goes_on = decision != "cancel" and status is not Status.PENDING
    following = find_next(visit, after=request_id) if goes_on else None
    if following is not None:
        address = address_of(visit, following, decided=str(request_id))
        if "atOnce" not in visit.form:
            return visit.redirect_to(address)
        return _page(visit, following, decided=_outcome(visit, request_id), address=address, comment="")
    messages.success(visit.request, _DONE[status])
    return visit.redirect("change", request_id=request_id)


@page("POST")
def comment(visit: Visit, request_id: UUID) -> HttpResponseBase:
    """Ask back, or answer; the request keeps waiting."""
    return _talk(visit, request_id, "comment", {"comment": visit.form.get("comment", "")}, "Said; the others are told.")


@page("POST")
def assign(visit: Visit, request_id: UUID) -> HttpResponseBase:
    """Ask one person to decide, or nobody in particular."""
    username = visit.form.get("username", "").strip() or None
    message = f"It is for {username} now." if username else "It is for nobody in particular."
    return _talk(visit, request_id, "assign", {"username": username}, message)


def _talk(visit: Visit, request_id: UUID, action: str, body: Mapping[str, Any], message: str) -> HttpResponseBase:
    try:
        visit.perform(f"change-requests.{action}", id=request_id, body=body)
    except GatewayError as refusal:
        return _page(visit, request_id, problem=refusal, comment="")
    messages.success(visit.request, message)
    return visit.redirect_to(reverse("console:change", kwargs={"request_id": request_id}) + kept_filters(visit))


@page("POST")
def secret(visit: Visit, request_id: UUID) -> HttpResponseBase:
    """Show the generated password in this answer alone."""
    given = visit.perform("change-requests.reveal-secret", id=request_id)
    return _page(visit, request_id, generated_password=given["generatedPassword"])


urls = [
    path("changes/<uuid:request_id>", change, name="change"),
    path("changes/<uuid:request_id>/outcome", outcome, name="change-outcome"),
    path("changes/<uuid:request_id>/forecast", forecast, name="change-forecast"),
    path("changes/<uuid:request_id>/run-plan", run_plan, name="change-run-plan"),
    path("changes/<uuid:request_id>/ask-anew", ask_anew, name="change-ask-anew"),
    path("changes/<uuid:request_id>/comment", comment, name="change-comment"),
    path("changes/<uuid:request_id>/assign", assign, name="change-assign"),
    path("changes/<uuid:request_id>/secret", secret, name="change-secret"),
    *(
        path(f"changes/<uuid:request_id>/{decision}", decide, {"decision": decision}, name=f"change-{decision}")
        for decision in ("approve", "reject", "cancel")
    ),
]
