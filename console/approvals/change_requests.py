"""A change that waits for a person, with everything needed to decide it, and what became of it."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from approvals.errors import NotPending
from approvals.models import Status
from console.approvals.grouped_review import address_of, find_next, next_waiting
from console.approvals.inbox import kept_filters
from console.page_context import PageContext, console_page, page_address
from console.shared.change_facts import facts_of_request
from core import shown_once
from core.errors import GatewayError
from core.shapes import parse_guid
from directory.shapes.wording.change_words import say

_DONE: Final = {
    Status.PENDING: _("Your approval is kept. Somebody else has to approve it too."),
    Status.APPROVED: _("Approved. A worker makes the change now."),
    Status.REJECTED: _("Rejected. The requester reads your comment."),
    Status.CANCELLED: _("Withdrawn."),
}
RUNS: Final = frozenset({"organization-units.disable-accounts", "organization-units.enable-accounts"})
"""What a run is asked for by."""
_UNDER_WAY: Final = (Status.APPROVED, Status.APPLYING, Status.UNKNOWN)
"""Decided, and not yet at an end."""


@console_page()
def change(page: PageContext, request_id: UUID) -> HttpResponseBase:
    return _page(page, request_id)


def _page(page: PageContext, request_id: UUID, **context: Any) -> HttpResponseBase:
    review = page.perform("change-requests.read-review", id=request_id)
    decided = parse_guid(page.query.get("decided", ""))
    is_pending = review["changeRequest"]["status"] == Status.PENDING
    return page.render(
        "approvals/change.html",
        {
            "review": review,
            "change": review["changeRequest"],
            "said": say(facts_of_request(review)),
            "next": next_waiting(page, after=request_id),
            "previous": next_waiting(page, after=request_id, backwards=True),
            "decided": _find_outcome(page, decided) if decided is not None and decided != request_id else None,
            "is_under_way": review["changeRequest"]["status"] in _UNDER_WAY,
            "is_run": review["changeRequest"]["operation"] in RUNS,
            "may_talk": is_pending and (review["own"] or page.may("change-requests.approve")),
            "may_see_log": page.may("operations.read"),
            "kept": kept_filters(page),
            "comment": page.form.get("comment", ""),
            "password_was_shown": shown_once.is_expected(page.request),
            "generated_password": shown_once.take(page.request),
            **context,
        },
    )


def _find_outcome(page: PageContext, request_id: UUID) -> dict[str, Any] | None:
    """The same; None for a request that the person may not see, or that an address has made up."""
    try:
        return _outcome(page, request_id)
    except GatewayError:
        return None


def _outcome(page: PageContext, request_id: UUID) -> dict[str, Any]:
    """How a request stands that was just decided."""
    review = page.perform("change-requests.read-review", id=request_id)
    change = review["changeRequest"]
    return {
        "change": change,
        "headline": str(say(facts_of_request(review))),
        "is_under_way": change["status"] in _UNDER_WAY,
        "secretUntil": review["secretUntil"],
    }


@console_page()
def outcome(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """How a decided request stands; it asks for itself until that is known."""
    return page.render("approvals/_outcome.html", {"decided": _outcome(page, request_id)})


@console_page(get="change-requests.read-forecast")
def forecast(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """What would become of the change now: read from the directory, so it comes after the page."""
    try:
        found = page.perform("change-requests.read-forecast", id=request_id)
    except NotPending as refusal:
        return _in_its_place(page, refusal)
    review = page.perform("change-requests.read-review", id=request_id)
    now = {**review, "unlisted": {}, "changeRequest": {**review["changeRequest"], "changes": found["changes"]}}
    return page.render(
        "approvals/_change_forecast.html",
        {"forecast": found, "now": say(facts_of_request(now)), "review": review, "change": review["changeRequest"]},
    )


@console_page(get="change-requests.read-run-plan")
def run_plan(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """What a run would mean for each of its accounts now, as its plan was shown."""
    try:
        plan = page.perform("change-requests.read-run-plan", id=request_id)
    except NotPending as refusal:
        return _in_its_place(page, refusal)
    effects = [account["effect"] for account in plan["accounts"]]
    return page.render(
        "approvals/_run_plan.html",
        {
            "plan": plan,
            "counts": {effect: effects.count(effect) for effect in ("change", "none", "protected", "absent")},
            "changed": sum(account["changed"] for account in plan["accounts"]),
        },
    )


def _in_its_place(page: PageContext, refusal: NotPending) -> HttpResponseBase:
    """That a request was decided while a part of its page was on its way, most often by whoever sees the page.

    They would be told of a failure above the page that they are just leaving.
    """
    if not page.is_partial:
        raise refusal
    return page.render("_problem.html", {"problem": refusal}, status=200)


@console_page("POST")
def resubmit(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """Replace a stale request by one with the values of now, and show that one."""
    try:
        new = page.perform("change-requests.ask-anew", id=request_id)
    except GatewayError as refusal:
        return _page(page, request_id, problem=refusal)
    return page.redirect(
        "change", request_id=new["id"], said=gettext("It was asked for anew: these are the values of now.")
    )


@console_page("POST")
def decide(page: PageContext, request_id: UUID, decision: str) -> HttpResponseBase:
    """Approve, reject or cancel, as the button pressed says; then on to the next one that waits.

    What becomes of this one is told there. Without a next one the request's own page is followed.
    """
    comment = page.form.get("comment", "").strip()
    bodies: Mapping[str, Any] = {
        "approve": {
            "digest": page.form.get("digest", ""),
            "comment": comment or None,
            **({"code": code} if (code := page.form.get("code", "").strip()) else {}),
        },
        "reject": {"comment": comment},
        "cancel": None,
    }
    try:
        decided = page.perform(f"change-requests.{decision}", id=request_id, body=bodies[decision])
    except GatewayError as refusal:
        return _page(page, request_id, problem=refusal)
    status = Status(decided["status"])
    goes_on = decision != "cancel" and status is not Status.PENDING
    following = find_next(page, after=request_id) if goes_on else None
    if following is not None:
        return page.redirect_to(address_of(page, following, decided=str(request_id)))
    return page.redirect("change", request_id=request_id, said=str(_DONE[status]))


@console_page("POST")
def comment(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """Ask back, or answer; the request keeps waiting."""
    body = {"comment": page.form.get("comment", "")}
    return _talk(page, request_id, "comment", body, gettext("Said; the others are told."))


@console_page("POST")
def assign(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """Ask one person to decide, or nobody in particular."""
    username = page.form.get("username", "").strip() or None
    if username:
        message = gettext("It is for {name} now.").format(name=username)
    else:
        message = gettext("It is for nobody in particular.")
    return _talk(page, request_id, "assign", {"username": username}, message)


def _talk(page: PageContext, request_id: UUID, action: str, body: Mapping[str, Any], message: str) -> HttpResponseBase:
    try:
        page.perform(f"change-requests.{action}", id=request_id, body=body)
    except GatewayError as refusal:
        return _page(page, request_id, problem=refusal, comment="")
    messages.success(page.request, message)
    return page.redirect_to(page_address("change", request_id=request_id) + kept_filters(page))


@console_page("POST")
def secret(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """Show the generated password on the page of the request, this once."""
    given = page.perform("change-requests.reveal-secret", id=request_id)
    return page.redirect_showing(given["generatedPassword"], "change", request_id=request_id)


urls = [
    path("changes/<uuid:request_id>", change, name="change"),
    path("changes/<uuid:request_id>/outcome", outcome, name="change-outcome"),
    path("changes/<uuid:request_id>/forecast", forecast, name="change-forecast"),
    path("changes/<uuid:request_id>/run-plan", run_plan, name="change-run-plan"),
    path("changes/<uuid:request_id>/ask-anew", resubmit, name="change-ask-anew"),
    path("changes/<uuid:request_id>/comment", comment, name="change-comment"),
    path("changes/<uuid:request_id>/assign", assign, name="change-assign"),
    path("changes/<uuid:request_id>/secret", secret, name="change-secret"),
    *(
        path(f"changes/<uuid:request_id>/{decision}", decide, {"decision": decision}, name=f"change-{decision}")
        for decision in ("approve", "reject", "cancel")
    ),
]
