"""The inbox of change requests, sorted and filtered, and the page that decides several of them together."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase, JsonResponse
from django.utils.translation import gettext as _

from approvals.models import Status
from audit.model_changes.descriptions import find_audited_model
from console.page_context import PageContext, page_at, page_url
from console.shared.wording import change_request_facts
from core import shown_once
from core.errors import GatewayError
from core.operation import Effect, Operation, Risk, operations
from core.shapes import parse_guid
from core.text.messages import translated
from core.text.vocabulary import texts_by_name
from directory.shapes.kinds import Kind
from directory.shapes.wording.change_words import LOST_BY_DELETION, ChangeWords, describe_change, describe_changes
from keys.sign_in.passkeys import can_be_used

_FILTERS: tuple[str, ...] = (
    *("q", "risk", "operation", "owner", "key", "kind", "attribute", "olderThanHours", "mine", "sort"),
)
"""The inbox's parameters. Links to a request carry them, so that the next request comes from the same list."""
UNDER_WAY: Final = (Status.APPROVED, Status.APPLYING, Status.UNKNOWN)
"""The statuses of requests that are approved, but not finished."""
_ORDERS = texts_by_name(
    {
        "urgency": "Most dangerous, then oldest",
        "oldest": "Oldest",
        "newest": "Newest",
        "expiring": "Expires first",
        "object": "Object",
        "owner": "Requested by",
        "key": "Key",
    }
)
_GROUP_PREFIX: Final = "group:"
"""Prefixes the id of a request that stands for its whole group."""
_AGES = texts_by_name(
    {
        "1": "An hour",
        "24": "A day",
        "72": "Three days",
        "168": "A week",
    }
)


@page_at("changes/", "changes")
def changes(page: PageContext) -> HttpResponseBase:
    """The requests that wait, or those with `status` (`any` for all)."""
    found = page.list_page("change-requests.list-inbox")
    return page.render(
        "approvals/changes.html",
        {
            "found": found,
            "lines": [inbox_line(page, item) for item in found["items"]],
            "status": page.query.get("status", Status.PENDING),
            "statuses": list(Status),
            "risks": list(Risk),
            "orders": _ORDERS,
            "ages": _AGES,
            "kinds": list(Kind),
            "operations": sorted(item.name for item in operations() if _can_wait(item)),
            "narrowed": sum(name in page.query for name in _FILTERS if name not in ("sort", "risk", "q")),
            "kept": filter_query(page),
            "statistics": page.perform_if_admitted("change-requests.read-statistics"),
            "is_anything_overdue": bool(page.list_first("change-requests.search", 1, status=Status.OVERDUE)),
        },
    )


def filter_query(page: PageContext, **more: str) -> str:
    """The inbox's parameters, and `more`, as a URL's query: empty, or beginning with `?`."""
    query = urlencode({**more, **page.query_of(*_FILTERS)})
    return f"?{query}" if query else ""


def inbox_line(page: PageContext, item: Mapping[str, Any]) -> dict[str, Any]:
    """The context of a line: one request, or a group described by what its changes have in common."""
    first = item["first"][0]
    change = first["changeRequest"]
    facts = [change_request_facts(each) for each in item["first"]]
    words = describe_change(facts[0])
    is_group = item["count"] > 1
    names = list(dict.fromkeys(each["changeRequest"]["target"]["distinguishedName"] for each in item["first"]))[:3]
    return {
        **item,
        "is_group": is_group,
        "change": change,
        "reason": change["reason"] if len({each["changeRequest"]["reason"] for each in item["first"]}) == 1 else None,
        "targetKind": first["targetKind"],
        "headline": describe_changes(facts, item["objects"]) if is_group else str(words),
        "beside": facts[0].target.account_and_place,
        "names": names,
        "others": item["objects"] - len(names),
        "details": [] if is_group else _first_details(words),
        "address": (
            page_url("changes-together") + filter_query(page, groupOf=change["id"])
            if is_group
            else change_request_url(page, change["id"])
        ),
        "value": (_GROUP_PREFIX if is_group else "") + change["id"],
    }


def _first_details(words: ChangeWords) -> list[str]:
    """The first three changes of attributes, and how many more there are."""
    shown = [str(detail) for detail in words.details[:3]]
    rest = len(words.details) - len(shown)
    return [*shown, _("and {count} more").format(count=rest)] if rest > 0 else shown


def _can_wait(operation: Operation) -> bool:
    """Whether calls of the operation can be held for approval."""
    if operation.effect is Effect.ADMINISTER:
        return find_audited_model(operation.resource).gives_access
    return operation.effect is Effect.CHANGE


@page_at("changes/together", "changes-together")
def review_group(page: PageContext) -> HttpResponseBase:
    """Review several requests: those of one call (`groupOf`), or those ticked in the inbox (`change`)."""
    selection = _selection(page)
    found = page.perform("change-requests.read-together", query=selection)
    items = [_with_words(item) for item in found["items"]]
    waiting = [item for item in items if item["changeRequest"]["status"] == Status.PENDING]
    memberships = _memberships(waiting)
    reason, times = Counter(item["changeRequest"]["reason"] for item in items).most_common(1)[0] if items else (None, 0)
    return page.render(
        "approvals/grouped_review.html",
        {
            "together": found,
            "headline": _headline(items, found["total"]),
            **_union(items, [each for each in found["union"] if not memberships or each["attribute"] != "member"]),
            "memberships": memberships,
            "selection": urlencode(selection),
            "fields": list(selection.items()),
            "is_group": "ids" not in selection and "," not in selection.get("groupOf", ""),
            "first": items[0]["changeRequest"] if items else None,
            "reason": reason if 2 * times > len(items) else None,
            "exceptions": [item for item in waiting if item["differs"]],
            "alike": [item for item in waiting if not item["differs"]],
            "is_folded": len(waiting) > 25 and _says_all(waiting, found["union"]),
            "just_decided": parse_guid(page.query["decided"]),
            "decided": [item for item in items if item["changeRequest"]["status"] != Status.PENDING],
            "waiting": len(waiting),
            "may_decide": any(item["mayReject"] for item in waiting),
            "may_approve": any(item["mayApprove"] for item in waiting),
            "is_open": _has_unfinished(found),
            "next": next_url(page, leaveOut=",".join(item["changeRequest"]["id"] for item in waiting)),
            "kept": filter_query(page),
            "comment": page.form["comment"],
            "ticked": page.request.POST.getlist("change"),
            "may_use_passkey": can_be_used(page.person),
        },
    )


def _selection(page: PageContext) -> dict[str, str]:
    """The requests on the page, as the operation's query. The form that decides also sends which of them are ticked."""
    if page.is_post:
        return {name: page.form[name] for name in ("ids", "groupOf") if page.form.get(name)}
    given = page.request.GET
    ticked = given.getlist("change")
    named = {
        "ids": [value for value in ticked if not value.startswith(_GROUP_PREFIX)],
        "groupOf": [value.removeprefix(_GROUP_PREFIX) for value in ticked if value.startswith(_GROUP_PREFIX)],
    }
    found = {name: ",".join([*given.getlist(name), *values]) for name, values in named.items()}
    return {name: value for name, value in found.items() if value}


def _with_words(item: Mapping[str, Any]) -> dict[str, Any]:
    facts = change_request_facts(item)
    return {
        **item,
        "facts": facts,
        "words": describe_change(facts),
        "beside": facts.target.account_and_place,
        "value": f"{item['changeRequest']['id']}:{item['changeRequest']['digest']}",
    }


def _union(items: list[dict[str, Any]], union: list[dict[str, Any]]) -> dict[str, Any]:
    """What the changes write, with how many values are not listed. Of deletions, what people know the objects by."""
    is_deletion = bool(items) and all(item["facts"].action == "delete" for item in items)
    shown = [each for each in union if each["attribute"].lower() in LOST_BY_DELETION] if is_deletion else union
    rest = ("rest", "distinct", "values"), ("restNow", "distinctCurrent", "current")
    return {
        "is_deletion": is_deletion,
        "has_current": any(each["current"] for each in shown),
        "union": [
            {**each, **{name: each[count] - len(each[values]) for name, count, values in rest}} for each in shown
        ],
    }


def _says_all(items: list[dict[str, Any]], union: list[dict[str, Any]]) -> bool:
    """Whether the union says all that the changes do, so that nobody has to read each of them."""
    alike = [item["changeRequest"] for item in items if not item["differs"]]
    return (
        len({each["reason"] for each in alike}) == 1
        and all(each["risk"] == Risk.ORDINARY for each in alike)
        and not any(each["dueAt"] or each["revertAt"] or each["revertAfter"] for each in alike)
        and all(
            len(each["values"]) == each["distinct"] and len(each["current"]) == each["distinctCurrent"]
            for each in union
        )
    )


def _memberships(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Who joins and leaves each group, protected groups first."""
    groups: dict[str, dict[str, Any]] = {}
    for item in items:
        change = item["facts"].change_of("member")
        if change is None or item["facts"].action not in ("change-members", "update"):
            continue
        target = item["changeRequest"]["target"]["distinguishedName"]
        group = groups.setdefault(
            target, {"group": item["facts"].target, "is_protected": False, "joins": [], "leaves": []}
        )
        group["is_protected"] |= item["protected"]
        for kind, names, others in (("joins", change.after, change.before), ("leaves", change.before, change.after)):
            group[kind] += [item["facts"].named(name) for name in names if name not in others]
    return sorted(groups.values(), key=lambda each: (not each["is_protected"], each["group"].name.lower()))


def _headline(items: list[dict[str, Any]], total: int) -> str:
    if len(items) == 1:
        return str(items[0]["words"])
    if total == len(items):  # twenty people who join one group change one object
        total = len({item["facts"].target for item in items})
    return describe_changes([item["facts"] for item in items], total)


def change_request_url(page: PageContext, request_id: UUID | str, **more: str) -> str:
    """The URL of a request's page, with the parameters of the inbox that the person came from."""
    return page_url("change", request_id=request_id) + filter_query(page, **more)


def next_url(page: PageContext, *, decided: UUID | None = None, **which: str) -> str | None:
    """The URL of what comes next in the inbox that the person came from, a request or its group; None after the last.

    `which` are parameters of `change-requests.find-next`. The next page shows the outcome of the one just `decided`.
    """
    if not page.may("change-requests.find-next"):
        return None
    given = {name: value for name, value in which.items() if value}
    found = page.perform("change-requests.find-next", query={**page.query_of(*_FILTERS), **given})
    if found["id"] is None:
        return None
    shown = {"decided": str(decided)} if decided else {}
    if found["count"] > 1:
        return page_url("changes-together") + filter_query(page, groupOf=found["id"], **shown)
    return change_request_url(page, found["id"], **shown)


@page_at("changes/together/decide", "changes-decide", "POST", form=review_group)
def decide(page: PageContext) -> HttpResponseBase:
    """Approve or reject the ticked requests, then show those that are left."""
    decision = _decision(page)
    code = page.form["code"].strip()
    body = {
        "decision": decision,
        "changeRequests": _ticked(page),
        "comment": page.form["comment"].strip() or None,
        "passkey": page.form["passkey"] or None,
        **({"code": code} if code else {}),
    }
    decided = page.perform("change-requests.decide", body=body)
    if decision == "approve":
        done, not_done = _("{count} of {total} approved."), _("{count} not approved: {reason}")
    else:
        done, not_done = _("{count} of {total} rejected."), _("{count} not rejected: {reason}")
    if decided["succeeded"]:
        messages.success(page.request, done.format(count=decided["succeeded"], total=decided["total"]))
    # Each reason once, with its count.
    for reason, count in Counter(item["problem"]["detail"] for item in decided["results"] if item["problem"]).items():
        messages.error(page.request, not_done.format(count=count, reason=reason))
    return page.redirect_to(page_url("changes-together") + filter_query(page, **_selection(page)))


def _decision(page: PageContext) -> str:
    return "reject" if page.form.get("decision") == "reject" else "approve"


def _ticked(page: PageContext) -> list[dict[str, str]]:
    """Each ticked request with the digest of what the page showed: a changed one is not decided."""
    values = page.request.POST.getlist("change")
    return [dict(zip(("id", "digest"), value.split(":", 1), strict=False)) for value in values]


@page_at("changes/passkey", "changes-passkey", "POST", post="change-requests.find-passkey-options")
def passkey_options(page: PageContext) -> HttpResponseBase:
    """What the browser needs to ask for the passkey that confirms the decision in the form."""
    body = {"decision": _decision(page), "changeRequests": _ticked(page)}
    return JsonResponse(page.perform("change-requests.find-passkey-options", body=body))


@page_at("changes/together/progress", "changes-together-progress")
def progress(page: PageContext) -> HttpResponseBase:
    """The outcomes of the decided requests; it polls until all are known."""
    selection = _selection(page)
    found = page.perform("change-requests.read-together", query={**selection, "status": Status.PENDING})
    return page.render(
        "approvals/_grouped_progress.html",
        {"together": found, "selection": urlencode(selection), "is_open": _has_unfinished(found)},
    )


@page_at("changes/together/passwords", "changes-passwords", "GET", "POST", post="change-requests.reveal-secret")
def passwords(page: PageContext) -> HttpResponseBase:
    """Take the generated passwords of several requests, each once, and show them on one page, to be handed over."""
    if not page.is_post:
        return page.render("approvals/passwords.html", {"shown": shown_once.take(page.request)})
    shown: list[dict[str, str]] = []
    for request_id in page.request.POST.getlist("change"):
        try:
            facts = change_request_facts(page.perform("change-requests.read-review", id=request_id))
            given = page.perform("change-requests.reveal-secret", id=request_id)  # last: it is given once
        except GatewayError as refusal:
            messages.error(page.request, translated(refusal.detail))
            continue
        target = {"name": facts.target.name, "beside": facts.target.account_and_place}
        shown.append({**target, "password": given["generatedPassword"]})
    return page.redirect_showing(shown, "changes-passwords")


def _has_unfinished(found: Mapping[str, Any]) -> bool:
    """Whether the page has to poll for outcomes."""
    return any(status in found["statuses"] for status in UNDER_WAY)


@page_at("changes/together/forecasts", "changes-together-forecasts", get="change-requests.read-forecasts")
def forecasts(page: PageContext) -> HttpResponseBase:
    """What each change would do now. It reads the directory, so it loads after the page."""
    selection = _selection(page)
    found = page.perform("change-requests.read-forecasts", query=selection)
    stale = [each["id"] for each in found["exceptions"] if each["forecast"]["stale"]]
    context = {"forecasts": found, "fields": list(selection.items()), "kept": filter_query(page)}
    if stale:
        together = page.perform("change-requests.read-together", query={"ids": ",".join(stale)})
        context |= {
            "stale": [_with_words(item)["value"] for item in together["items"] if item["mayReject"]],
            "on": {"passkeyNeeded": together["passkeyNeeded"]},  # rejecting takes no code
            "may_use_passkey": can_be_used(page.person),
        }
    return page.render("approvals/_grouped_forecasts.html", context)


@page_at("changes/together/ask-anew", "changes-ask-anew", "POST", form=review_group)
def resubmit_together(page: PageContext) -> HttpResponseBase:
    """Replace stale requests by new ones with the present values, and show the new ones."""
    new: list[str] = []
    for value in page.request.POST.getlist("change"):
        try:
            new.append(page.perform("change-requests.ask-anew", id=value.partition(":")[0])["id"])
        except GatewayError as refusal:
            messages.error(page.request, translated(refusal.detail))
    if not new:
        return page.redirect_to(page_url("changes-together") + filter_query(page, **_selection(page)))
    messages.success(page.request, _("These new requests have the present values."))
    return page.redirect_to(page_url("changes-together") + filter_query(page, ids=",".join(new)))
