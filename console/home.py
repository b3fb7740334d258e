"""The home page: what waits for the person, what is going on, and the health of the gateway.

A panel is shown only to people who may see its content. Slow and changing panels load after the page.
"""

from typing import Any

from django.http import HttpResponseBase

from console.approvals.inbox import inbox_line
from console.log import chain_state
from console.page_context import CHOSEN_DIRECTORY, PageContext, page_at
from console.setup_wizard import remaining_checklist
from console.shared.charts import daily_chart, key_chart
from core.errors import GatewayError

_PERIODS = (14, 30, 90)
"""Days that the charts can show."""
_POLL_WHILE_RUNNING = 3
"""Seconds between polls while runs are in progress."""
_POLL_WHILE_IDLE = 20
"""Seconds between polls otherwise."""


@page_at("", "home")
def home(page: PageContext) -> HttpResponseBase:
    return page.render(
        "home.html",
        {
            "waiting": _find_waiting(page),
            "own": page.perform("change-requests.search", query={"owner": page.person.username, "pageSize": "5"}),
            "runs": _find_runs(page),
            "recent": page.list_first("operations.search", 6, onlyChanges="true"),
            "keys": page.perform_if_admitted("api-keys.list-due"),
            "first_day": remaining_checklist(page),
            "takes_calls": page.call.directory is not None and page.may("users.unlock") and page.may("accounts.search"),
        },
    )


def _find_waiting(page: PageContext) -> dict[str, Any] | None:
    """The five most urgent changes that the person may decide, and the oldest; None for people who decide nothing."""
    if not page.may("change-requests.approve"):
        return None

    query = {"decidable": "true", "andOldest": "true", "pageSize": "5"}
    lines = [inbox_line(page, item) for item in page.perform("change-requests.list-inbox", query=query)["items"]]
    return {"lines": lines, "statistics": page.perform("change-requests.read-statistics")}


def _find_runs(page: PageContext) -> dict[str, Any] | None:
    """The unfinished runs and the seconds until the next poll; None if there are none and the person may start none."""
    if page.call.directory is None:
        return None
    items = [*page.list_first("runs.search", 10, state="running"), *page.list_first("runs.search", 10, state="queued")]
    if not items and not page.call.may("directory.run_accounts"):
        return None
    for item in items:
        item["done"] = item["succeeded"] + item["unchanged"] + item["failed"]
    return {"items": items, "again": _POLL_WHILE_RUNNING if items else _POLL_WHILE_IDLE}


@page_at("home/runs", "home-runs", get="runs.search")
def runs(page: PageContext) -> HttpResponseBase:
    return page.render("_home_runs.html", {"runs": _find_runs(page)})


@page_at("home/locked-out", "home-locked-out", get="accounts.search")
def locked_out(page: PageContext) -> HttpResponseBase:
    """Who was locked out last. It loads after the page, since it searches the directory."""
    query = {"state": "locked-out", "sort": "-lockoutTime"}
    try:
        context: dict[str, Any] = {"accounts": page.list_first("accounts.search", 5, **query)}
    except GatewayError as refusal:  # shown in place: the rest of the page does not need the directory
        context = {"problem": refusal}
    return page.render("_home_locked_out.html", context, status=200)


@page_at("home/activity", "home-activity", get="operations.read-statistics")
def activity(page: PageContext) -> HttpResponseBase:
    """The charts, which load after the page: they count the log's records of many days."""
    statistics = page.perform("operations.read-statistics", query=page.query)
    return page.render(
        "_home_activity.html",
        {
            "days": daily_chart(statistics["days"]),
            "keys": key_chart(statistics),
            "since": statistics["since"],
            "counted_from": statistics["countedFrom"],
            "asked": page.query.get("days", str(_PERIODS[0])),
            "first_moment": f"{statistics['days'][0]['day']}T00:00",
            "periods": _PERIODS,
        },
    )


@page_at("home/health", "home-health", get="health.read")
def health(page: PageContext) -> HttpResponseBase:
    """The health checks. They load after the page, since an unreachable directory takes seconds to time out."""
    return page.render(
        "_home_health.html",
        {"health": page.perform_if_admitted("health.read"), "chain": chain_state(page)},
    )


@page_at("choose-directory", "choose-directory", "POST")
def choose_directory(page: PageContext) -> HttpResponseBase:
    page.request.session[CHOSEN_DIRECTORY] = page.form["clientId"]  # each request checks it
    return page.redirect_to(page.return_url("home"))
