"""The first page: what waits for whoever looks at it, what is going on, and how the gateway is doing.

Each panel is for who may see what it shows. What takes its time, or changes by itself, comes after the page.
"""

from typing import Any

from django.http import HttpResponseBase
from django.urls import path

from console.approvals.inbox import line_of
from console.log.chain import chain_state
from console.page_context import CHOSEN_DIRECTORY, PageContext, console_page
from console.setup_wizard.checklist import remaining
from console.shared.charts import chart_of_days, chart_of_keys
from console.shared.safe_redirect import own_path

_PERIODS = (14, 30, 90)
"""Days that the charts can show."""
_WATCHED = 3
"""Seconds until runs in progress are looked at again."""
_UNWATCHED = 20
"""The same while there are none."""


@console_page()
def home(page: PageContext) -> HttpResponseBase:
    return page.render(
        "home.html",
        {
            "waiting": _find_waiting(page),
            "own": page.perform("change-requests.search", query={"owner": page.call.person.username, "pageSize": "5"}),
            "runs": _find_runs(page),
            "recent": (
                page.perform("operations.search", query={"onlyChanges": "true", "pageSize": "6"})["items"]
                if page.may("operations.search")
                else None
            ),
            "keys": page.perform("api-keys.list-due") if page.may("api-keys.list-due") else None,
            "first_day": remaining(page),
        },
    )


def _find_waiting(page: PageContext) -> dict[str, Any] | None:
    """What the person may decide, the most dangerous first, and the oldest of all; of any number."""
    if not page.may("change-requests.approve"):
        return None

    def lines(sort: str, count: int) -> list[dict[str, Any]]:
        query = {"decidable": "true", "sort": sort, "pageSize": str(count)}
        return [line_of(page, item) for item in page.perform("change-requests.list-inbox", query=query)["items"]]

    urgent = lines("urgency", 5)
    known = {line["change"]["id"] for line in urgent}
    oldest = [line for line in lines("oldest", 1) if line["change"]["id"] not in known]
    return {"lines": [*urgent, *oldest], "statistics": page.perform("change-requests.read-statistics")}


def _find_runs(page: PageContext) -> dict[str, Any] | None:
    """The runs that are not over, and after how many seconds to look again. None for who has nothing to do with any."""
    if page.call.directory is None:
        return None
    items = [
        item
        for state in ("running", "queued")
        for item in page.perform("runs.search", query={"state": state, "pageSize": "10"})["items"]
    ]
    if not items and not page.call.may("directory.run_accounts"):
        return None
    for item in items:
        item["done"] = item["succeeded"] + item["unchanged"] + item["failed"]
    return {"items": items, "again": _WATCHED if items else _UNWATCHED}


@console_page(get="runs.search")
def runs(page: PageContext) -> HttpResponseBase:
    return page.render("_home_runs.html", {"runs": _find_runs(page)})


@console_page(get="operations.read-statistics")
def activity(page: PageContext) -> HttpResponseBase:
    """The charts."""
    statistics = page.perform("operations.read-statistics", query=page.query)
    return page.render(
        "_home_activity.html",
        {
            "days": chart_of_days(statistics["days"]),
            "keys": chart_of_keys(statistics),
            "since": statistics["since"],
            "first_moment": f"{statistics['days'][0]['day']}T00:00",
            "periods": _PERIODS,
        },
    )


@console_page(get="health.read")
def health(page: PageContext) -> HttpResponseBase:
    """Whether everything answers; a directory that does not is waited for some seconds."""
    return page.render(
        "_home_health.html",
        {"health": page.perform("health.read") if page.may("health.read") else None, "chain": chain_state(page)},
    )


@console_page("POST")
def choose_directory(page: PageContext) -> HttpResponseBase:
    page.request.session[CHOSEN_DIRECTORY] = page.form.get("clientId", "")
    there = own_path(page.request, page.form.get("next", ""))
    return page.redirect_to(there) if there else page.redirect("home")


urls = [
    path("", home, name="home"),
    path("home/runs", runs, name="home-runs"),
    path("home/activity", activity, name="home-activity"),
    path("home/health", health, name="home-health"),
    path("choose-directory", choose_directory, name="choose-directory"),
]
