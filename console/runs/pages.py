"""Runs over the accounts of an organizational unit: planned, started, followed to their end, and tried again."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import path
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.page_context import PageContext, console_page
from core.errors import Forbidden, GatewayError, NotFound
from core.shapes import parse_guid
from directory.models.runs import RunState

ACTIONS = {"disable": "organization-units.disable-accounts", "enable": "organization-units.enable-accounts"}
"""What a run can do, with the operation that starts it."""
KINDS = {"user": _("Users"), "computer": _("Computers"), "user,computer": _("Users and computers")}
SCOPES = {"one-level": _("Directly in the unit"), "subtree": _("In the unit and all units below it")}

_LATE = 10
"""Seconds after which a person is told why nothing happens."""
_PATIENT = 120
"""Seconds after which a page asks less often how a run stands that no worker does."""


@console_page(get="runs.search")
def runs(page: PageContext) -> HttpResponseBase:
    found = page.perform("runs.search", query={"pageSize": "50", **page.query})
    return page.render(
        "runs/_runs.html" if page.is_partial else "runs/runs.html",
        {
            "found": found,
            "is_live": any(item["state"] != RunState.COMPLETED for item in found["items"]),
            "states": list(RunState),
            "actions": ACTIONS,
            "may_plan": page.may("organization-units.plan-accounts"),
        },
    )


def _choice(given: Mapping[str, str]) -> dict[str, str]:
    """What a run shall be over, as the form says it; `unit` is an id or a distinguished name."""
    found = {name: given.get(name, "").strip() for name in ("unit", "action", "kinds", "scope")}
    return {name: text for name, text in found.items() if text}


@console_page(get="organization-units.plan-accounts", post="organization-units.disable-accounts")
def new_run(page: PageContext) -> HttpResponseBase:
    """Choose, look at the plan, and start exactly that. Planning a large unit takes a while, so it follows the page."""
    _require_planner(page)
    if page.request.method != "POST":
        planned = _plan(page, _choice(page.query)) if "now" in page.query else {}
        return _new_page(page, _choice(page.query), **planned)
    form = page.form
    if form.get("action") not in ACTIONS:
        raise NotFound
    try:
        answer = page.answer(
            ACTIONS[form["action"]],
            id=form.get("unit", ""),
            body={"planId": form.get("planId", "")},
            reason=form.get("reason"),
            respond_async=True,
        )
    except GatewayError as refusal:
        return _new_page(page, _choice(form), **{**_plan(page, _choice(form)), "problem": refusal})
    return _follow(page, answer.body)


def _new_page(page: PageContext, choice: dict[str, str], **context: Any) -> HttpResponseBase:
    return page.render(
        "runs/run_new.html",
        {
            "choice": choice,
            "is_complete": {"unit", "action"} <= choice.keys(),
            "query": urlencode(choice),
            "unit_name": _unit_name(page, choice.get("unit", "")),
            "actions": ACTIONS,
            "kinds": KINDS,
            "scopes": SCOPES,
            "reason": page.form.get("reason", ""),
            **context,
        },
    )


@console_page(get="organization-units.plan-accounts")
def plan(page: PageContext) -> HttpResponseBase:
    """The plan alone, with a refusal in its place."""
    _require_planner(page)
    choice = _choice(page.query)
    return page.render("runs/_run_plan.html", {"choice": choice, **_plan(page, choice)}, status=200)


def _require_planner(page: PageContext) -> None:
    if not page.may("organization-units.plan-accounts"):
        raise Forbidden


def _plan(page: PageContext, choice: dict[str, str]) -> dict[str, Any]:
    """What `runs/_run_plan.html` shows: the plan and its counts, or the refusal."""
    try:
        made = page.perform(
            "organization-units.plan-accounts",
            id=_unit_id(page, choice.get("unit", "")),
            query={name: text for name, text in choice.items() if name != "unit"},
        )
    except GatewayError as refusal:
        return {"problem": refusal}
    effects = [account["effect"] for account in made["accounts"]]
    return {
        "plan": made,
        "counts": {effect: effects.count(effect) for effect in ("change", "none", "protected")},
        "may_start": _may_start(page, made["action"]),
        "kinds": KINDS,
        "scopes": SCOPES,
    }


def _unit_id(page: PageContext, unit: str) -> str:
    """The id of the unit that a field names."""
    if parse_guid(unit) is not None:
        return unit
    return str(page.perform("organization-units.read-by-dn", query={"dn": unit})["id"])


def _unit_name(page: PageContext, unit: str) -> str:
    """The distinguished name for a field that was filled with an id by a link; anything else as it was typed."""
    if parse_guid(unit) is None or not page.may("organization-units.read"):
        return unit
    try:
        return str(page.perform("organization-units.read", id=unit, query={"attributes": "name"})["distinguishedName"])
    except GatewayError:  # the plan says what is wrong with it
        return unit


def _may_start(page: PageContext, action: str) -> bool:
    """A run needs a second permission, by what it does to each account."""
    return page.may(ACTIONS[action]) and page.call.may(f"directory.{action}_account")


def _follow(page: PageContext, started: Mapping[str, Any]) -> HttpResponseBase:
    nothing_left = gettext("There was nothing left to do.") if started["unchanged"] == started["total"] else None
    return page.redirect("run", run_id=started["runId"], said=nothing_left)


@console_page(get="runs.read-details")
def run(page: PageContext, run_id: UUID) -> HttpResponseBase:
    """A run as it stands; the part of the page that changes asks for itself until the run is completed."""
    details = page.perform("runs.read-details", id=run_id)
    is_open = details["state"] != RunState.COMPLETED
    done = details["succeeded"] + details["unchanged"] + details["failed"]
    asked = datetime.fromisoformat(details["createdAt"])
    waited = (timezone.now() - asked).total_seconds()
    only_failed = page.query.get("show") == "failed"
    return page.render(
        "runs/_run.html" if page.is_partial else "runs/run.html",
        {
            "run": details,
            "is_open": is_open,
            "done": done,
            "quarters": 25 * (4 * done // details["total"]) if details["total"] else 100,
            "is_late": is_open and not details["workerPresent"] and waited > _LATE,
            "pause": 1 if details["workerPresent"] or waited < _PATIENT else 5,
            "only_failed": only_failed,
            "results": [item for item in details["results"] if not only_failed or item["status"] == "failed"],
            "may_retry": not is_open and details["failed"] and _may_start(page, details["action"]),
        },
    )


@console_page(get="runs.plan-retry", post="organization-units.disable-accounts")
def retry(page: PageContext, run_id: UUID) -> HttpResponseBase:
    """A new run over exactly the accounts that failed: what it would mean for each of them, and its start."""
    planned = page.perform("runs.plan-retry", id=run_id)
    problem = None
    if page.request.method == "POST":
        try:
            answer = page.answer(
                ACTIONS[planned["action"]],
                id=planned["organizationalUnit"]["id"],
                body={"accounts": [account["id"] for account in planned["accounts"]]},
                reason=page.form.get("reason"),
                respond_async=True,
            )
            return _follow(page, answer.body)
        except GatewayError as refusal:
            problem = refusal
    return page.render(
        "runs/run_retry.html",
        {
            "plan": planned,
            "changing": sum(account["effect"] == "change" for account in planned["accounts"]),
            "may_start": _may_start(page, planned["action"]),
            "reason": page.form.get("reason", ""),
            "problem": problem,
        },
    )


urls = [
    path("runs/", runs, name="runs"),
    path("runs/new", new_run, name="run-new"),
    path("runs/plan", plan, name="run-plan"),
    path("runs/<uuid:run_id>", run, name="run"),
    path("runs/<uuid:run_id>/retry", retry, name="run-retry"),
]
