"""Account runs over an organizational unit: plan, start, follow and retry them."""

from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from console.page_context import ChangeDeferred, PageContext, page_at
from console.shared.wording import seconds_since
from core.errors import Forbidden, GatewayError, NotFound
from core.shapes import parse_guid
from core.text.vocabulary import texts_by_name
from directory.models.runs import RunState

ACTIONS = {"disable": "organization-units.disable-accounts", "enable": "organization-units.enable-accounts"}
"""The actions of a run and the operation that starts each."""
_ALL = {"disable": "organization-units.disable-all-accounts", "enable": "organization-units.enable-all-accounts"}
"""The same for any number of accounts."""
_INVERSES = {"disable": "enable", "enable": "disable"}
KINDS = texts_by_name({"user": "Users", "computer": "Computers", "user,computer": "Users and computers"})
SCOPES = texts_by_name({"one-level": "Directly in the unit", "subtree": "In the unit and all units below it"})

_WORKER_MISSING_AFTER = 10
"""Seconds without progress after which the page says that no worker is running."""
_SLOW_POLL_AFTER = 120
"""Seconds after which the page polls less often while no worker is running."""


@page_at("runs/", "runs", get="runs.search")
def runs(page: PageContext) -> HttpResponseBase:
    found = page.list_page("runs.search")
    return page.render(
        "runs/_runs.html" if page.is_partial else "runs/runs.html",
        {
            "found": found,
            "is_live": any(item["state"] != RunState.COMPLETED for item in found["items"]),
            "states": list(RunState),
            "actions": ACTIONS,
        },
    )


def _run_choice(given: Mapping[str, str]) -> dict[str, str]:
    """What the form has chosen so far; `unit` is an id or a distinguished name."""
    found = {name: given.get(name, "").strip() for name in ("unit", "action", "kinds", "scope")}
    return {name: text for name, text in found.items() if text}


def _new_run_form(page: PageContext) -> HttpResponseBase:
    """The form. The plan loads after the page, since planning a large unit takes a while."""
    _require_planner(page)
    choice = _run_choice(page.submitted)
    planned = _plan_context(page, choice) if page.problem or "now" in page.query else {}
    if page.problem:
        planned["problem"] = page.problem
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
            "reason": page.form["reason"],
            **planned,
        },
    )


@page_at(
    *("runs/new", "run-new"),
    get="organization-units.plan-accounts",
    post="organization-units.disable-accounts",
    form=_new_run_form,
)
def new_run(page: PageContext) -> HttpResponseBase:
    """Start the run with exactly the accounts that the plan showed."""
    _require_planner(page)
    form = page.form
    if form.get("action") not in ACTIONS:
        raise NotFound
    return _start(page, ACTIONS[form["action"]], form["unit"], {"planId": form["planId"]})


@page_at("runs/plan", "run-plan", get="organization-units.plan-accounts")
def plan(page: PageContext) -> HttpResponseBase:
    """The plan, or the refusal in its place, with status 200 so that htmx swaps it in."""
    _require_planner(page)
    choice = _run_choice(page.query)
    return page.render("runs/_run_plan.html", {"choice": choice, **_plan_context(page, choice)}, status=200)


def _require_planner(page: PageContext) -> None:
    if not page.may("organization-units.plan-accounts"):
        raise Forbidden


def _plan_context(page: PageContext, choice: dict[str, str]) -> dict[str, Any]:
    """The context of `runs/_run_plan.html`: the plan and its counts, or the refusal."""
    try:
        made = page.perform(
            "organization-units.plan-accounts",
            id=_unit_id(page, choice.get("unit", "")),
            query={name: text for name, text in choice.items() if name != "unit"},
        )
    except GatewayError as refusal:
        return {"problem": refusal}
    return {
        "plan": made,
        "counts": Counter(account["effect"] for account in made["accounts"]),
        "may_start": _may_start(page, made["action"]),
    }


def _incident_form(page: PageContext) -> HttpResponseBase:
    """What disabling everybody in a unit means: the accounts, and the keys and agents of their people."""
    _require_planner(page)
    unit, context = page.submitted.get("unit", "").strip(), dict[str, Any]()
    if unit:
        try:
            unit = _unit_id(page, unit)
            shown = page.perform(_ALL["disable"], id=unit, query={"dryRun": "true"}, body=_everybody(page))
            keys, agents = _credentials(page, unit)
            context = {"unit": unit, "shown": shown, "keys": keys, "agents": agents}
        except GatewayError as refusal:
            context = {"problem": page.problem or refusal}
    return page.render(
        "runs/incident.html",
        {
            "unit_name": _unit_name(page, unit),
            "kinds": KINDS,
            "chosen_kinds": ",".join(_everybody(page)["kinds"]),
            **context,
        },
    )


def _everybody(page: PageContext) -> dict[str, Any]:
    return {"kinds": page.submitted.get("kinds", "user").split(","), "scope": "subtree"}


def _credentials(page: PageContext, unit: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The keys and the agents of the unit's people that the person may end."""
    if not all(map(page.may, ("organization-units.list-credentials", "api-keys.revoke", "agents.revoke"))):
        return [], []
    found = page.perform("organization-units.list-credentials", id=unit)
    return found["keys"], found["agents"]


@page_at(
    *("runs/incident", "incident"),
    get="organization-units.plan-accounts",
    post="organization-units.disable-all-accounts",
    form=_incident_form,
)
def incident(page: PageContext) -> HttpResponseBase:
    """Disable everybody in a unit and below it in one run and, if asked for, end their keys and agents for good."""
    waits, unit = None, page.form["unit"]
    try:
        answer = _start(page, _ALL["disable"], unit, _everybody(page))
    except ChangeDeferred as deferred:
        waits = deferred
    if "end" in page.form:
        for operation, credentials in zip(("api-keys.revoke", "agents.revoke"), _credentials(page, unit), strict=True):
            for each in credentials:
                page.perform(operation, id=each["id"])
    if waits is not None:
        raise waits
    return answer


def _unit_id(page: PageContext, unit: str) -> str:
    """The id of the unit that the field names by id or distinguished name."""
    if parse_guid(unit) is not None:
        return unit
    return str(page.perform("organization-units.read-by-dn", query={"dn": unit})["id"])


def _unit_name(page: PageContext, unit: str) -> str:
    """The distinguished name of a unit given by id, as links give it; anything else as typed."""
    if parse_guid(unit) is None or not page.may("organization-units.read"):
        return unit
    try:
        return str(page.perform("organization-units.read", id=unit, query={"attributes": "name"})["distinguishedName"])
    except GatewayError:  # the plan shows this refusal
        return unit


def _may_start(page: PageContext, action: str) -> bool:
    """Whether the person may start a run: besides the run itself, its action on each account needs a permission."""
    return page.may(ACTIONS[action]) and page.call.may(f"directory.{action}_account")


def _start(page: PageContext, operation: str, unit: str, body: Mapping[str, Any]) -> HttpResponseBase:
    """Start a run and redirect to its page; raises GatewayError."""
    reason = page.form.get("reason")
    # Asynchronously: a run outlasts a request, and its page follows it.
    started = page.perform(operation, id=unit, body=body, reason=reason, respond_async=True)
    nothing_left = _("There was nothing left to do.") if started["unchanged"] == started["total"] else None
    return page.redirect("run", run_id=started["runId"], message=nothing_left)


@page_at("runs/<uuid:run_id>", "run", get="runs.read-details")
def run(page: PageContext, run_id: UUID) -> HttpResponseBase:
    """The progress of a run; its changing part polls until the run is completed."""
    details = page.perform("runs.read-details", id=run_id)
    is_open = details["state"] != RunState.COMPLETED
    done = details["succeeded"] + details["unchanged"] + details["failed"]
    waited = seconds_since(details["createdAt"])
    only_failed = page.query.get("show") == "failed"
    return page.render(
        "runs/_run.html" if page.is_partial else "runs/run.html",
        {
            "run": details,
            "is_open": is_open,
            "done": done,
            "quarters": 25 * (4 * done // details["total"]) if details["total"] else 100,
            "is_late": is_open and not details["workerPresent"] and waited > _WORKER_MISSING_AFTER,
            "pause": 1 if details["workerPresent"] or waited < _SLOW_POLL_AFTER else 5,
            "only_failed": only_failed,
            "results": [item for item in details["results"] if not only_failed or item["status"] == "failed"],
            "may_retry": not is_open and details["failed"] and _may_start(page, details["action"]),
            "may_undo": not is_open and details["succeeded"] and _may_start(page, _INVERSES[details["action"]]),
            "problem": page.problem,
        },
    )


@page_at("runs/<uuid:run_id>/undo", "run-undo", "POST", post="organization-units.enable-accounts", form=run)
def undo(page: PageContext, run_id: UUID) -> HttpResponseBase:
    """Start the inverse run over exactly the accounts that this one has changed."""
    details = page.perform("runs.read-details", id=run_id)
    changed = [item["id"] for item in details["results"] if item["status"] == "succeeded"]
    if details["state"] != RunState.COMPLETED or not changed:
        raise NotFound
    operation = _ALL[_INVERSES[details["action"]]]
    return _start(page, operation, details["organizationalUnit"]["id"], {"accounts": changed})


def _retry_form(page: PageContext, run_id: UUID) -> HttpResponseBase:
    planned = page.perform("runs.plan-retry", id=run_id)
    return page.render(
        "runs/run_retry.html",
        {
            "plan": planned,
            "changing": sum(account["effect"] == "change" for account in planned["accounts"]),
            "may_start": _may_start(page, planned["action"]),
            "reason": page.form["reason"],
        },
    )


@page_at(
    *("runs/<uuid:run_id>/retry", "run-retry"),
    get="runs.plan-retry",
    post="organization-units.disable-accounts",
    form=_retry_form,
)
def retry(page: PageContext, run_id: UUID) -> HttpResponseBase:
    """Start a new run over exactly the accounts that failed."""
    planned = page.perform("runs.plan-retry", id=run_id)
    accounts = [account["id"] for account in planned["accounts"]]
    return _start(page, _ALL[planned["action"]], planned["organizationalUnit"]["id"], {"accounts": accounts})
