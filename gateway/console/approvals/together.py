"""Several changes on one page: everything they would change, those that are not like the others, one decision."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase, QueryDict
from django.urls import path, reverse

from approvals.models import Status
from directory.shapes.change_words import say, say_many
from gateway.console.approvals.inbox import FILTERS, kept_filters
from gateway.console.page_context import Visit, page
from gateway.console.shared.change_facts import facts_of_request
from gateway.core.errors import GatewayError

_OPEN: Final = (Status.APPROVED, Status.APPLYING, Status.UNKNOWN)
"""Decided, and not yet at an end."""
_GROUP: Final = "group:"
"""Before the id of a request that stands for its whole group."""


@page()
def together(visit: Visit) -> HttpResponseBase:
    """What one call asked for (`groupOf`), or what was ticked in the inbox (`change`): requests, and groups of them."""
    return _page(visit, _selection(visit.request.GET))


def _selection(given: QueryDict) -> dict[str, str]:
    """Which requests are meant, as the operation takes it."""
    ticked = given.getlist("change")
    named = {
        "ids": [value for value in ticked if not value.startswith(_GROUP)],
        "groupOf": [value.removeprefix(_GROUP) for value in ticked if value.startswith(_GROUP)],
    }
    found = {name: ",".join([*given.getlist(name), *values]) for name, values in named.items()}
    return {name: value for name, value in found.items() if value}


def _page(visit: Visit, selection: Mapping[str, str], **context: Any) -> HttpResponseBase:
    found = visit.perform("change-requests.read-together", query=selection)
    items = [_with_words(item) for item in found["items"]]
    waiting = [item for item in items if item["changeRequest"]["status"] == Status.PENDING]
    problem = context.get("problem")
    return visit.render(
        "approvals/together.html",
        {
            "together": found,
            "headline": _headline(items, found["total"]),
            "union": [{**each, "rest": each["distinct"] - len(each["values"])} for each in found["union"]],
            "selection": urlencode(selection),
            "fields": list(selection.items()),
            "is_group": "ids" not in selection and "," not in selection.get("groupOf", ""),
            "first": items[0]["changeRequest"] if items else None,
            "reasons": list(dict.fromkeys(item["changeRequest"]["reason"] for item in items)),
            "exceptions": [item for item in waiting if item["differs"]],
            "alike": [item for item in waiting if not item["differs"]],
            "decided": [item for item in items if item["changeRequest"]["status"] != Status.PENDING],
            "waiting": len(waiting),
            "may_decide": any(item["mayReject"] for item in waiting),
            "may_approve": any(item["mayApprove"] for item in waiting),
            "is_open": _is_open(found),
            "next": next_waiting(visit, leave_out=[item["changeRequest"]["id"] for item in waiting]),
            "kept": kept_filters(visit),
            "comment": visit.form.get("comment", ""),
            "ticked": context.get("ticked", ()),
            **context,
        },
        status=problem.status if problem else 200,
    )


def _with_words(item: Mapping[str, Any]) -> dict[str, Any]:
    facts = facts_of_request(item)
    return {
        **item,
        "facts": facts,
        "words": say(facts),
        "beside": facts.target.account_and_place,
        "value": f"{item['changeRequest']['id']}:{item['changeRequest']['digest']}",
    }


def _headline(items: list[dict[str, Any]], total: int) -> str:
    if len(items) == 1:
        return str(items[0]["words"])
    return say_many([item["facts"] for item in items], total)


def next_waiting(visit: Visit, **which: Any) -> str | None:
    """The address of what to look at next; takes what `find_next` does."""
    found = find_next(visit, **which)
    return address_of(visit, found) if found is not None else None


def address_of(visit: Visit, request_id: UUID, **more: str) -> str:
    """The page of a request, which goes on in the order of the inbox that the person came from."""
    return reverse("console:change", kwargs={"request_id": request_id}) + kept_filters(visit, **more)


def find_next(
    visit: Visit, *, after: UUID | None = None, leave_out: Sequence[str] = (), backwards: bool = False
) -> UUID | None:
    """What to look at next, in the order of the inbox that the person came from."""
    if not visit.may("change-requests.find-next"):
        return None
    query = {name: visit.query[name] for name in FILTERS if name in visit.query}
    if after is not None:
        query["after"] = str(after)
    if leave_out:
        query["leaveOut"] = ",".join(leave_out)
    if backwards:
        query["backwards"] = "true"
    found = visit.perform("change-requests.find-next", query=query)["id"]
    return UUID(found) if found is not None else None


@page("POST")
def decide(visit: Visit) -> HttpResponseBase:
    """Approve or reject what is ticked, as the button pressed says; then back to what is left."""
    form = visit.request.POST
    ticked = form.getlist("change")
    decision = "reject" if visit.form.get("decision") == "reject" else "approve"
    code = visit.form.get("code", "").strip()
    selection = {name: visit.form[name] for name in ("ids", "groupOf") if visit.form.get(name)}
    body = {
        "decision": decision,
        "changeRequests": [dict(zip(("id", "digest"), value.split(":", 1), strict=False)) for value in ticked],
        "comment": visit.form.get("comment", "").strip() or None,
        **({"code": code} if code else {}),
    }
    try:
        decided = visit.perform("change-requests.decide", body=body)
    except GatewayError as refusal:
        return _page(visit, selection, problem=refusal, ticked=ticked)
    word = "approved" if decision == "approve" else "rejected"
    if decided["succeeded"]:
        messages.success(visit.request, f"{decided['succeeded']} of {decided['total']} {word}.")
    for reason, count in _refusals(decided["results"]).items():
        messages.error(visit.request, f"{count} not {word}: {reason}")
    return visit.redirect_to(f"{reverse('console:changes-together')}?{urlencode(selection)}")


def _refusals(results: list[dict[str, Any]]) -> dict[str, int]:
    """Why decisions were refused, each reason once, with how often."""
    found: dict[str, int] = {}
    for item in results:
        if (problem := item["problem"]) is not None:
            found[problem["detail"]] = found.get(problem["detail"], 0) + 1
    return found


@page()
def progress(visit: Visit) -> HttpResponseBase:
    """What has become of the requests that were decided; it asks for itself until all are at an end."""
    selection = _selection(visit.request.GET)
    found = visit.perform("change-requests.read-together", query={**selection, "status": Status.PENDING})
    return visit.render(
        "approvals/_together_progress.html",
        {"together": found, "selection": urlencode(selection), "is_open": _is_open(found)},
    )


def _is_open(found: Mapping[str, Any]) -> bool:
    return any(status in found["statuses"] for status in _OPEN)


@page(get="change-requests.read-forecasts")
def forecasts(visit: Visit) -> HttpResponseBase:
    """What would become of each of the changes if it were approved now: read from the directory, after the page."""
    selection = _selection(visit.request.GET)
    forecasts = visit.perform("change-requests.read-forecasts", query=selection)
    return visit.render(
        "approvals/_together_forecasts.html", {"forecasts": forecasts, "selection": urlencode(selection)}
    )


urls = [
    path("changes/together", together, name="changes-together"),
    path("changes/together/decide", decide, name="changes-decide"),
    path("changes/together/progress", progress, name="changes-together-progress"),
    path("changes/together/forecasts", forecasts, name="changes-together-forecasts"),
]
