"""Several changes on one page: everything they would change, those that are not like the others, one decision."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase, QueryDict
from django.urls import path
from django.utils.translation import gettext as _

from approvals.models import Status
from console.approvals.inbox import FILTERS, kept_filters
from console.page_context import PageContext, console_page, page_address
from console.shared.change_facts import facts_of_request
from core.errors import GatewayError
from directory.shapes.wording.change_words import say, say_many

_OPEN: Final = (Status.APPROVED, Status.APPLYING, Status.UNKNOWN)
"""Decided, and not yet at an end."""
_GROUP: Final = "group:"
"""Before the id of a request that stands for its whole group."""


@console_page()
def together(page: PageContext) -> HttpResponseBase:
    """What one call asked for (`groupOf`), or what was ticked in the inbox (`change`): requests, and groups of them."""
    return _page(page, _selection(page.request.GET))


def _selection(given: QueryDict) -> dict[str, str]:
    """Which requests are meant, as the operation takes it."""
    ticked = given.getlist("change")
    named = {
        "ids": [value for value in ticked if not value.startswith(_GROUP)],
        "groupOf": [value.removeprefix(_GROUP) for value in ticked if value.startswith(_GROUP)],
    }
    found = {name: ",".join([*given.getlist(name), *values]) for name, values in named.items()}
    return {name: value for name, value in found.items() if value}


def _page(page: PageContext, selection: Mapping[str, str], **context: Any) -> HttpResponseBase:
    found = page.perform("change-requests.read-together", query=selection)
    items = [_with_words(item) for item in found["items"]]
    waiting = [item for item in items if item["changeRequest"]["status"] == Status.PENDING]
    return page.render(
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
            "next": next_waiting(page, leave_out=[item["changeRequest"]["id"] for item in waiting]),
            "kept": kept_filters(page),
            "comment": page.form.get("comment", ""),
            "ticked": context.get("ticked", ()),
            **context,
        },
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


def next_waiting(page: PageContext, **which: Any) -> str | None:
    """The address of what to look at next; takes what `find_next` does."""
    found = find_next(page, **which)
    return address_of(page, found) if found is not None else None


def address_of(page: PageContext, request_id: UUID, **more: str) -> str:
    """The page of a request, which goes on in the order of the inbox that the person came from."""
    return page_address("change", request_id=request_id) + kept_filters(page, **more)


def find_next(
    page: PageContext, *, after: UUID | None = None, leave_out: Sequence[str] = (), backwards: bool = False
) -> UUID | None:
    """What to look at next, in the order of the inbox that the person came from."""
    if not page.may("change-requests.find-next"):
        return None
    query = {name: page.query[name] for name in FILTERS if name in page.query}
    if after is not None:
        query["after"] = str(after)
    if leave_out:
        query["leaveOut"] = ",".join(leave_out)
    if backwards:
        query["backwards"] = "true"
    found = page.perform("change-requests.find-next", query=query)["id"]
    return UUID(found) if found is not None else None


@console_page("POST")
def decide(page: PageContext) -> HttpResponseBase:
    """Approve or reject what is ticked, as the button pressed says; then back to what is left."""
    form = page.request.POST
    ticked = form.getlist("change")
    decision = "reject" if page.form.get("decision") == "reject" else "approve"
    code = page.form.get("code", "").strip()
    selection = {name: page.form[name] for name in ("ids", "groupOf") if page.form.get(name)}
    body = {
        "decision": decision,
        "changeRequests": [dict(zip(("id", "digest"), value.split(":", 1), strict=False)) for value in ticked],
        "comment": page.form.get("comment", "").strip() or None,
        **({"code": code} if code else {}),
    }
    try:
        decided = page.perform("change-requests.decide", body=body)
    except GatewayError as refusal:
        return _page(page, selection, problem=refusal, ticked=ticked)
    if decision == "approve":
        done, not_done = _("{count} of {total} approved."), _("{count} not approved: {reason}")
    else:
        done, not_done = _("{count} of {total} rejected."), _("{count} not rejected: {reason}")
    if decided["succeeded"]:
        messages.success(page.request, done.format(count=decided["succeeded"], total=decided["total"]))
    for reason, count in _refusals(decided["results"]).items():
        messages.error(page.request, not_done.format(count=count, reason=reason))
    return page.redirect_to(f"{page_address('changes-together')}?{urlencode(selection)}")


def _refusals(results: list[dict[str, Any]]) -> dict[str, int]:
    """Why decisions were refused, each reason once, with how often."""
    found: dict[str, int] = {}
    for item in results:
        if (problem := item["problem"]) is not None:
            found[problem["detail"]] = found.get(problem["detail"], 0) + 1
    return found


@console_page()
def progress(page: PageContext) -> HttpResponseBase:
    """What has become of the requests that were decided; it asks for itself until all are at an end."""
    selection = _selection(page.request.GET)
    found = page.perform("change-requests.read-together", query={**selection, "status": Status.PENDING})
    return page.render(
        "approvals/_together_progress.html",
        {"together": found, "selection": urlencode(selection), "is_open": _is_open(found)},
    )


def _is_open(found: Mapping[str, Any]) -> bool:
    return any(status in found["statuses"] for status in _OPEN)


@console_page(get="change-requests.read-forecasts")
def forecasts(page: PageContext) -> HttpResponseBase:
    """What would become of each of the changes if it were approved now: read from the directory, after the page."""
    selection = _selection(page.request.GET)
    forecasts = page.perform("change-requests.read-forecasts", query=selection)
    return page.render(
        "approvals/_together_forecasts.html", {"forecasts": forecasts, "selection": urlencode(selection)}
    )


urls = [
    path("changes/together", together, name="changes-together"),
    path("changes/together/decide", decide, name="changes-decide"),
    path("changes/together/progress", progress, name="changes-together-progress"),
    path("changes/together/forecasts", forecasts, name="changes-together-forecasts"),
]
