"""A change request: everything needed to decide it, the decision, and its outcome."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from approvals.ends import OPEN
from approvals.errors import NotPending
from approvals.models import Status
from console.approvals.inbox import UNDER_WAY, change_request_url, filter_query, next_url
from console.directory.objects.form import Field
from console.directory.objects.page import find_object
from console.page_context import PageContext, page_at
from console.shared.forms import submit
from console.shared.wording import change_request_facts
from core import shown_once
from core.errors import GatewayError, NotFound
from core.shapes import parse_guid
from core.text.vocabulary import texts_by_name
from directory.errors import ObjectNotFound
from directory.shapes.wording.change_words import RUN_ACTIONS, describe_change
from directory.shapes.wording.labels import operation_words
from directory.shapes.wording.value_words import common_name
from keys.sign_in.passkeys import can_be_used

_DECISION_MESSAGES: Final = texts_by_name(
    {
        Status.PENDING: "Your approval is kept. Somebody else has to approve it too.",
        Status.APPROVED: "Approved. A worker makes the change now.",
        Status.SCHEDULED: "Approved. The change will be made at its scheduled time.",
        Status.REJECTED: "Rejected. The requester reads your comment.",
        Status.CANCELLED: "Withdrawn.",
    }
)
_RUN_OPERATIONS: Final = frozenset(f"organization-units.{action}" for action in RUN_ACTIONS)
"""The operations that start a run."""
_OBJECT_FACTS: Final = ("title", "department", "manager", "description")


@page_at("changes/<uuid:request_id>", "change")
def change(page: PageContext, /, request_id: UUID, **_decision: str) -> HttpResponseBase:
    review = page.perform("change-requests.read-review", id=request_id)
    previous = parse_guid(page.query["decided"])
    decided = None
    if previous is not None and previous != request_id:
        with suppress(GatewayError):  # `decided` comes from the URL: the request may not exist or be visible
            decided = _outcome(page, previous)
    is_pending = review["changeRequest"]["status"] == Status.PENDING
    return page.render(
        "approvals/change.html",
        {
            "review": review,
            "change": review["changeRequest"],
            "words": describe_change(change_request_facts(review)),
            "next": next_url(page, after=str(request_id)),
            "previous": next_url(page, after=str(request_id), backwards="true"),
            "decided": decided,
            "rivals": _rivals(page, review["changeRequest"]) if is_pending else [],
            "recent": _recent(page, review["changeRequest"]["requestedBy"]) if is_pending else [],
            "is_under_way": review["changeRequest"]["status"] in UNDER_WAY,
            "is_run": review["changeRequest"]["operation"] in _RUN_OPERATIONS,
            "may_talk": is_pending and (review["own"] or page.may("change-requests.approve")),
            "kept": filter_query(page),
            "may_move_end": _may_move_end(page, review["changeRequest"]),
            "until": page.form["until"] if "until" in page.form else _field_value(review["changeRequest"]["dueAt"]),
            "may_use_passkey": can_be_used(page.person),
            "comment": page.form["comment"] if "digest" in page.form else "",
            "password_was_shown": shown_once.is_expected(page.request),
            "generated_password": shown_once.take(page.request),
        },
    )


def _may_move_end(page: PageContext, change: Mapping[str, Any]) -> bool:
    is_open = change["ends"] is not None and change["status"] in OPEN
    return is_open and page.may("change-requests.extend")


def _field_value(time: str | None) -> str:
    """A time as the value of a datetime-local field, in UTC."""
    return (time or "")[:16]


def _recent(page: PageContext, requester: dict[str, Any]) -> list[dict[str, Any]]:
    """What the key, agent or person did last, for those who read the log."""
    who = {"owner": requester["owner"], **({"keyName": requester["keyName"]} if requester["keyName"] else {})}
    return page.list_first("operations.search", 5, onlyChanges="true", outcome="succeeded", fold="true", **who)


def _rivals(page: PageContext, change: dict[str, Any]) -> list[dict[str, Any]]:
    """The other requests that wait for the same object: applying one may make this one stale."""
    target = change["target"]["id"]
    if target is None:
        return []
    found = page.perform("change-requests.search", query={"target": target, "status": Status.PENDING})["items"]
    return [
        {**each, "words": operation_words(each["operation"], common_name(each["target"]["distinguishedName"]))}
        for each in found
        if each["id"] != change["id"]
    ]


def _outcome(page: PageContext, request_id: UUID) -> dict[str, Any]:
    """The context about a request that was just decided."""
    review = page.perform("change-requests.read-review", id=request_id)
    change = review["changeRequest"]
    return {
        "change": change,
        "headline": str(describe_change(change_request_facts(review))),
        "is_under_way": change["status"] in UNDER_WAY,
        "secretUntil": review["secretUntil"],
    }


@page_at("changes/<uuid:request_id>/outcome", "change-outcome")
def outcome(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """The outcome of a decided request; it polls until the outcome is known."""
    return page.render("approvals/_outcome.html", {"decided": _outcome(page, request_id)})


@page_at("changes/<uuid:request_id>/forecast", "change-forecast", get="change-requests.read-forecast")
def forecast(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """What the change would do now. It reads the directory, so it loads after the page."""
    try:
        found = page.perform("change-requests.read-forecast", id=request_id)
    except NotPending as refusal:
        return _render_in_place(page, refusal)
    review = page.perform("change-requests.read-review", id=request_id)
    now = {**review, "unlisted": {}, "changeRequest": {**review["changeRequest"], "changes": found["changes"]}}
    return page.render(
        "approvals/_change_forecast.html",
        {
            "forecast": found,
            "now": describe_change(change_request_facts(now)),
            "review": review,
            "change": review["changeRequest"],
        },
    )


@page_at("changes/<uuid:request_id>/object", "change-object", get="objects.read")
def target(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """Who or what the change is about, as it is now, and what was done with it last."""
    object_id = page.perform("change-requests.read-review", id=request_id)["changeRequest"]["target"]["id"]
    if object_id is None:
        raise NotFound
    try:
        record = find_object(page, object_id, "memberOf")
    except ObjectNotFound as refusal:
        return _render_in_place(page, refusal)
    values = record["attributes"]
    may_see_history = page.may("objects.history") and page.may("operations.read")
    query = {"pageSize": "5"}
    return page.render(
        "approvals/_change_object.html",
        {
            "record": record,
            "facts": [(Field(name), values[name]) for name in _OBJECT_FACTS if values[name]],
            "reports": len(values["directReports"]),
            "groups": len(values["memberOf"]),
            "recent": page.perform("objects.history", id=object_id, query=query)["items"] if may_see_history else [],
        },
    )


@page_at("changes/<uuid:request_id>/run-plan", "change-run-plan", get="change-requests.read-run-plan")
def run_plan(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """What a waiting run would do to each of its accounts now."""
    try:
        plan = page.perform("change-requests.read-run-plan", id=request_id)
    except NotPending as refusal:
        return _render_in_place(page, refusal)
    return page.render(
        "approvals/_run_plan.html",
        {
            "plan": plan,
            "counts": Counter(account["effect"] for account in plan["accounts"]),
            "changed": sum(account["changed"] for account in plan["accounts"]),
        },
    )


def _render_in_place(page: PageContext, refusal: GatewayError) -> HttpResponseBase:
    """Say in place of a part of the page that the request has been decided meanwhile, or its object deleted.

    Most often the same person has just decided it: an error above the page that they are leaving would confuse them.
    """
    if not page.is_partial:
        raise refusal
    return page.render("_problem.html", {"problem": refusal}, status=200)


@page_at("changes/<uuid:request_id>/ask-anew", "change-ask-anew", "POST", form=change)
def resubmit(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """Replace a stale request by a new one with the present values, and show the new one."""
    new = page.perform("change-requests.ask-anew", id=request_id)
    message = _("This new request has the present values.")
    return page.redirect("change", request_id=new["id"], message=message)


@page_at("changes/<uuid:request_id>/approve", "change-approve", "POST", form=change, fixed={"decision": "approve"})
@page_at("changes/<uuid:request_id>/reject", "change-reject", "POST", form=change, fixed={"decision": "reject"})
@page_at("changes/<uuid:request_id>/cancel", "change-cancel", "POST", form=change, fixed={"decision": "cancel"})
def decide(page: PageContext, request_id: UUID, decision: str) -> HttpResponseBase:
    """Approve, reject or cancel a request, then go to the next one that waits.

    The next page shows the outcome of this request. If no other waits, its own page does.
    """
    decided = submit(page, f"change-requests.{decision}", id=request_id)
    status = Status(decided["status"])
    if decision != "cancel" and status is not Status.PENDING:
        following = next_url(page, after=str(request_id), decided=request_id)
        if following is not None:
            return page.redirect_to(following)
    return page.redirect("change", request_id=request_id, message=_(_DECISION_MESSAGES[status]))


@page_at("changes/<uuid:request_id>/extend", "change-extend", "POST", form=change)
def extend(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """Move the end of a temporary change, or make the change permanent."""
    until = page.form["until"].strip()
    body = {"until": f"{until}:00Z" if until else None}
    page.perform("change-requests.extend", id=request_id, body=body)
    message = _("The end was moved.") if until else _("The change is now permanent.")
    return page.redirect("change", request_id=request_id, message=message)


@page_at("changes/<uuid:request_id>/end-now", "change-end-now", "POST", form=change)
def end_now(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """Take a change that was made for a while back before its time."""
    page.perform("change-requests.revert-now", id=request_id)
    return page.redirect("change", request_id=request_id, message=_("It has ended."))


@page_at("changes/<uuid:request_id>/comment", "change-comment", "POST", form=change)
def comment(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """Add a question or an answer; the request keeps waiting."""
    submit(page, "change-requests.comment", id=request_id)
    return page.redirect_to(change_request_url(page, request_id), message=_("Sent; the others are notified."))


@page_at("changes/<uuid:request_id>/assign", "change-assign", "POST", form=change)
def assign(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """Assign the request to one person, or to nobody in particular."""
    submit(page, "change-requests.assign", id=request_id)
    username = page.form["username"].strip()
    message = _("Assigned to {name}.").format(name=username) if username else _("Assigned to nobody in particular.")
    return page.redirect_to(change_request_url(page, request_id), message=message)


@page_at("changes/<uuid:request_id>/secret", "change-secret", "POST")
def secret(page: PageContext, request_id: UUID) -> HttpResponseBase:
    """Show the generated password once, on the page of the request."""
    given = page.perform("change-requests.reveal-secret", id=request_id)
    return page.redirect_showing(given["generatedPassword"], "change", request_id=request_id)
