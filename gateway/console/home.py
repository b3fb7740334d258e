"""The first page: what waits for whoever looks at it, what is going on, and how the gateway is doing.

Each panel is for who may see what it shows. What takes its time, or changes by itself, comes after the page.
"""

from typing import Any

from django.http import HttpResponseBase
from django.urls import path

from gateway.console.approvals.inbox import line_of
from gateway.console.first_day.checklist import remaining
from gateway.console.log.chain import chain_state
from gateway.console.page_context import CHOSEN_DIRECTORY, Visit, page
from gateway.console.shared.charts import chart_of_days, chart_of_keys
from gateway.console.shared.own_address import own_path

_PERIODS = (14, 30, 90)
"""Days that the charts can show."""
_WATCHED = 3
"""Seconds until runs in progress are looked at again."""
_UNWATCHED = 20
"""The same while there are none."""


@page()
def home(visit: Visit) -> HttpResponseBase:
    return visit.render(
        "home.html",
        {
            "waiting": _find_waiting(visit),
            "own": visit.perform(
                "change-requests.search", query={"owner": visit.call.person.username, "pageSize": "5"}
            ),
            "runs": _find_runs(visit),
            "recent": (
                visit.perform("operations.search", query={"onlyChanges": "true", "pageSize": "6"})["items"]
                if visit.may("operations.search")
                else None
            ),
            "keys": visit.perform("api-keys.list-due") if visit.may("api-keys.list-due") else None,
            "first_day": remaining(visit),
        },
    )


def _find_waiting(visit: Visit) -> dict[str, Any] | None:
    """What the person may decide, the most dangerous first, and the oldest of all; of any number."""
    if not visit.may("change-requests.approve"):
        return None

    def lines(sort: str, count: int) -> list[dict[str, Any]]:
        query = {"decidable": "true", "sort": sort, "pageSize": str(count)}
        return [line_of(visit, item) for item in visit.perform("change-requests.list-inbox", query=query)["items"]]

    urgent = lines("urgency", 5)
    known = {line["change"]["id"] for line in urgent}
    oldest = [line for line in lines("oldest", 1) if line["change"]["id"] not in known]
    return {"lines": [*urgent, *oldest], "statistics": visit.perform("change-requests.read-statistics")}


def _find_runs(visit: Visit) -> dict[str, Any] | None:
    """The runs that are not over, and after how many seconds to look again. None for who has nothing to do with any."""
    if visit.call.directory is None:
        return None
    items = [
        item
        for state in ("running", "queued")
        for item in visit.perform("runs.search", query={"state": state, "pageSize": "10"})["items"]
    ]
    if not items and not visit.call.may("directory.run_accounts"):
        return None
    for item in items:
        item["done"] = item["succeeded"] + item["unchanged"] + item["failed"]
    return {"items": items, "again": _WATCHED if items else _UNWATCHED}


@page(get="runs.search")
def runs(visit: Visit) -> HttpResponseBase:
    return visit.render("_home_runs.html", {"runs": _find_runs(visit)})


@page(get="operations.read-statistics")
def activity(visit: Visit) -> HttpResponseBase:
    """The charts."""
    statistics = visit.perform("operations.read-statistics", query=visit.query)
    return visit.render(
        "_home_activity.html",
        {
            "days": chart_of_days(statistics["days"]),
            "keys": chart_of_keys(statistics),
            "since": statistics["since"],
            "first_moment": f"{statistics['days'][0]['day']}T00:00",
            "periods": _PERIODS,
        },
    )


@page(get="health.read")
def health(visit: Visit) -> HttpResponseBase:
    """Whether everything answers; a directory that does not is waited for some seconds."""
    return visit.render(
        "_home_health.html",
        {"health": visit.perform("health.read") if visit.may("health.read") else None, "chain": chain_state(visit)},
    )


@page("POST")
def choose_directory(visit: Visit) -> HttpResponseBase:
    visit.request.session[CHOSEN_DIRECTORY] = visit.form.get("clientId", "")
    there = own_path(visit.request, visit.form.get("next", ""))
    return visit.redirect_to(there) if there else visit.redirect("home")


urls = [
    path("", home, name="home"),
    path("home/runs", runs, name="home-runs"),
    path("home/activity", activity, name="home-activity"),
    path("home/health", health, name="home-health"),
    path("choose-directory", choose_directory, name="choose-directory"),
]
