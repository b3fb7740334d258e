"""The pages of a selection: what to do with it, what that would mean, its progress, its results and the way back."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.urls import path, reverse

from gateway.console.directory.objects.fields import READ
from gateway.console.directory.selection.actions import ACTIONS, actions_for, condition_on, find_chosen, plan
from gateway.console.directory.selection.recipes import RECIPES, Choice, offered_blocks, plan_recipe, proposed, remember
from gateway.console.directory.selection.tasks import Step, Task, advance, begin, find, keep, preview
from gateway.console.page_context import Visit, page
from gateway.console.shared.downloads import download
from gateway.console.shared.own_address import own_path
from gateway.core.errors import Forbidden, GatewayError, InvalidRequest, NotFound
from keys.authentication import check_reason

_PREVIEWED_AT_ONCE = 10
"""So few changes are previewed with the page; more follow it."""


@page(post="objects.search")
def selection(visit: Visit) -> HttpResponseBase:
    """What was chosen in a list (`chosen`), and what to do with it (`action`)."""
    if visit.request.method != "POST":
        return visit.redirect("tree")
    form = visit.request.POST
    ids = list(dict.fromkeys((*form.getlist("chosen"), *form.getlist("remove"))))
    action = ACTIONS.get(form.get("action", ""))
    if action is None or action not in actions_for(visit):
        raise Forbidden
    back = own_path(visit.request, form.get("from", ""))
    then = back or reverse("console:tree")
    if action.name == "export":
        return _export(visit, ids)
    if action.name in RECIPES:
        chosen = urlencode({"chosen": ids, "from": then}, doseq=True)
        return visit.redirect_to(f"{reverse('console:selection-recipe', kwargs={'name': action.name})}?{chosen}")
    records = find_chosen(visit, ids)
    given = {
        "parent": form.get("parent", ""),
        "groups": [*filter(None, form.getlist("group"))],
        "attribute": form.get("attribute", ""),
        "values": [line for line in form.get("values", "").splitlines() if line.strip()],
    }
    context = {"action": action, "records": records, "given": given, "back": then}
    if action.asks and form.get("step") != "preview":
        return visit.render("directory/selection/form.html", context)
    try:
        task = plan(visit, action, records, given, then=then)
        task.reason = check_reason(form.get("reason")) or ""
    except GatewayError as refusal:
        if not action.asks:
            raise
        return visit.render("directory/selection/form.html", {**context, "problem": refusal}, status=refusal.status)
    return start(visit, task)


@page(get="objects.search")
def recipes(visit: Visit) -> HttpResponseBase:
    """Which of them it is: somebody joins, moves or leaves."""
    back = own_path(visit.request, visit.query.get("from", "")) or reverse("console:tree")
    records = find_chosen(visit, visit.request.GET.getlist("chosen"))
    offered = [each for each in RECIPES.values() if offered_blocks(visit, each)]
    return visit.render("directory/selection/recipes.html", {"recipes": offered, "records": records, "back": back})


@page("GET", "POST", get="objects.search", post="objects.search")
def recipe(visit: Visit, name: str) -> HttpResponseBase:
    """What is done when the chosen people join, move or leave: asked for, then previewed as every task."""
    found = RECIPES.get(name)
    if found is None:
        raise NotFound
    form = visit.request.POST if visit.request.method == "POST" else visit.request.GET
    back = own_path(visit.request, form.get("from", "")) or reverse("console:tree")
    records = find_chosen(visit, form.getlist("chosen"))
    context = {"recipe": found, "records": records, "blocks": offered_blocks(visit, found), "back": back}
    if visit.request.method != "POST":
        return visit.render("directory/selection/recipe.html", {**context, "choice": proposed(visit, found)})
    choice = Choice(frozenset(form.getlist("block")), form.get("colleague", "").strip(), form.get("place", ""))
    try:
        task = plan_recipe(visit, found, records, choice, then=back)
    except InvalidRequest as refusal:
        shown = {**context, "choice": choice, "problem": refusal}
        return visit.render("directory/selection/recipe.html", shown, status=refusal.status)
    remember(visit, found, choice)
    return start(visit, task)


def start(visit: Visit, task: Task) -> HttpResponse:
    """Go on to the page of a new task, which begins with its preview."""
    return visit.redirect("selection-task", task_id=begin(visit, task).id)


def _export(visit: Visit, ids: list[str]) -> HttpResponseBase:
    query = {"filter": condition_on(ids), "attributes": READ, "sort": "name"}
    return download(visit, "objects.search", "csv", called="selection", query=query)


@page(get="objects.search")
def task(visit: Visit, task_id: UUID) -> HttpResponseBase:
    """A task as it stands. Its preview follows the page where it takes a while, and its progress goes on by itself."""
    found = find(visit, task_id)
    part = visit.request.headers.get("HX-Target") if visit.is_partial else None
    wants_preview = part == "preview" or "now" in visit.query or len(found.steps) <= _PREVIEWED_AT_ONCE
    if not found.is_started and not found.is_previewed and wants_preview:
        preview(visit, found)
    if part == "preview":
        return visit.render("directory/selection/_preview.html", _context(visit, found))
    return visit.render("directory/selection/task.html", _context(visit, found))


def _context(visit: Visit, task: Task) -> dict[str, Any]:
    return {
        "task": task,
        "risks": sorted({step.risk for step in task.changing if step.risk}),
        "results": sorted(task.ended, key=lambda step: step.outcome != "failed"),
        "may_undo": task.is_over and bool(task.done) and not task.is_undo and _may_undo(visit),
        "may_see_log": visit.may("operations.search"),
    }


def _may_undo(visit: Visit) -> bool:
    return visit.may("operations.revert") and visit.may("operations.search")


@page("POST", post="objects.update")
def go(visit: Visit, task_id: UUID) -> HttpResponseBase:
    """Confirm a task that was previewed, then make its next changes each time, until there are none left."""
    found = find(visit, task_id)
    if not found.is_started:
        if not found.is_previewed:
            raise InvalidRequest("Look at what it would do first.")
        found.is_started = True
        found.reason = check_reason(visit.form.get("reason")) or ""
        keep(found)
        return visit.redirect("selection-task", task_id=task_id)
    advance(visit, found)
    if visit.is_partial:
        return visit.render("directory/selection/_progress.html", _context(visit, find(visit, task_id)))
    return visit.redirect("selection-task", task_id=task_id)


@page("POST", post="operations.revert")
def undo(visit: Visit, task_id: UUID) -> HttpResponseBase:
    """A task that takes back what this one did, the last change first; it begins with its preview, as every other."""
    done = find(visit, task_id)
    if not _may_undo(visit):
        raise Forbidden
    query = {"requestId": done.id, "outcome": "succeeded", "onlyChanges": "true", "pageSize": "1000"}
    records = visit.perform("operations.search", query=query)["items"]
    steps = [
        Step(
            operation="operations.revert",
            document={"id": record["id"]},
            name=_name_in(done, record["target"]),
            place=(record["target"] or {}).get("distinguishedName", ""),
            object_id=(record["target"] or {}).get("id"),
            says="As it was before",
        )
        for record in records
        if record["reversible"] != "none"
    ]
    if not steps:
        raise InvalidRequest("Nothing that was done can be taken back.")
    return start(
        visit,
        Task(
            title=f"Undo {len(steps)} change{'' if len(steps) == 1 else 's'}?",
            confirm="Undo",
            did="taken back",
            steps=steps,
            then=reverse("console:selection-task", kwargs={"task_id": task_id}),
            is_undo=True,
        ),
    )


def _name_in(task: Task, target: dict[str, Any] | None) -> str:
    wanted = (target or {}).get("id")
    return next((step.name for step in task.steps if step.object_id == wanted), "An object")


urls = [
    path("directory/selection", selection, name="selection"),
    path("directory/selection/recipes", recipes, name="selection-recipes"),
    path("directory/selection/recipes/<slug:name>", recipe, name="selection-recipe"),
    path("directory/selection/<uuid:task_id>", task, name="selection-task"),
    path("directory/selection/<uuid:task_id>/go", go, name="selection-go"),
    path("directory/selection/<uuid:task_id>/undo", undo, name="selection-undo"),
]
