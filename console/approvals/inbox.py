"""The inbox: what waits for a person in lines, sorted and filtered, from which several are ticked to be decided."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from approvals.models import Status
from audit.model_changes.descriptions import find_audited_model
from console.page_context import PageContext, console_page, page_address
from console.shared.change_facts import facts_of_request
from core.operation import Effect, Operation, Risk, operations
from directory.shapes.kinds import Kind
from directory.shapes.wording.change_words import ChangeWords, say, say_many

FILTERS: Final[tuple[str, ...]] = (
    *("q", "risk", "operation", "owner", "key", "kind", "attribute"),
    *("olderThanHours", "mine", "sort"),
)
"""The parameters of the inbox that go with a request opened from it, so that the next one comes from the same list."""
_ORDERS: Final = {
    "urgency": _("Most dangerous, then oldest"),
    "oldest": _("Oldest"),
    "newest": _("Newest"),
    "expiring": _("Expires first"),
    "object": _("Object"),
    "owner": _("Requested by"),
    "key": _("Key"),
}
_AGES: Final = {"1": _("An hour"), "24": _("A day"), "72": _("Three days"), "168": _("A week")}


@console_page()
def changes(page: PageContext) -> HttpResponseBase:
    """What waits, unless another state is asked for (`status=any` for all of them)."""
    found = page.perform("change-requests.list-inbox", query={"pageSize": "50", **page.query})
    return page.render(
        "approvals/changes.html",
        {
            "found": found,
            "lines": [line_of(page, item) for item in found["items"]],
            "status": page.query.get("status", Status.PENDING),
            "statuses": list(Status),
            "risks": list(Risk),
            "orders": _ORDERS,
            "ages": _AGES,
            "kinds": list(Kind),
            "operations": sorted(item.name for item in operations() if _may_wait(item)),
            "narrowed": sum(name in page.query for name in FILTERS if name not in ("sort", "risk", "q")),
            "kept": kept_filters(page),
            "may_decide": page.may("change-requests.approve"),
            "statistics": (
                page.perform("change-requests.read-statistics") if page.may("change-requests.read-statistics") else None
            ),
        },
    )


def kept_filters(page: PageContext, **more: str) -> str:
    """The inbox's filter and order, and more parameters, as the end of an address: empty, or beginning with `?`."""
    filters = {name: page.query[name] for name in FILTERS if name in page.query}
    query = urlencode({**more, **filters})
    return f"?{query}" if query else ""


def line_of(page: PageContext, item: Mapping[str, Any]) -> dict[str, Any]:
    """A line as the page shows it: what changes, why, who asks; a group by what its changes have in common."""
    first = item["first"][0]
    change = first["changeRequest"]
    facts = [facts_of_request(each) for each in item["first"]]
    words = say(facts[0])
    is_group = item["count"] > 1
    if is_group:
        address = page_address("changes-together") + kept_filters(page, groupOf=change["id"])
    else:
        address = page_address("change", request_id=change["id"]) + kept_filters(page)
    return {
        **item,
        "is_group": is_group,
        "change": change,
        "targetKind": first["targetKind"],
        "headline": say_many(facts, item["count"]) if is_group else str(words),
        "beside": facts[0].target.account_and_place,
        "names": [each["changeRequest"]["target"]["distinguishedName"] for each in item["first"][:3]],
        "others": item["count"] - 3,
        "details": [] if is_group else _first_details(words),
        "address": address,
        "value": ("group:" if is_group else "") + change["id"],
    }


def _first_details(words: ChangeWords) -> list[str]:
    """What becomes of the attributes, as far as one line has room for it."""
    shown = [str(detail) for detail in words.details[:3]]
    rest = len(words.details) - len(shown)
    return [*shown, gettext("and {count} more").format(count=rest)] if rest > 0 else shown


def _may_wait(operation: Operation) -> bool:
    if operation.effect is Effect.ADMINISTER:
        return find_audited_model(operation.resource).gives_access
    return operation.effect is Effect.CHANGE


urls = [path("changes/", changes, name="changes")]
