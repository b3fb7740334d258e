"""The pages of a selection: what to do with it, what that would mean, its progress, its results and the way back."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.directory.objects.fields import READ
from console.directory.selection.actions import ACTIONS, actions_for, condition_on, find_chosen, plan
from console.directory.selection.recipes import RECIPES, Choice, offered_blocks, plan_recipe, proposed, remember
from console.directory.selection.tasks import Step, Task, advance, begin, find, keep, preview
from console.page_context import PageContext, console_page, page_address
from console.shared.downloads import download
from core.errors import Forbidden, GatewayError, InvalidRequest, NotFound
from keys.authentication import check_reason

_PREVIEWED_AT_ONCE = 10
"""So few changes are previewed with the page; more follow it."""


@console_page(post="objects.search")
def selection(page: PageContext) -> HttpResponseBase:
    """What was chosen in a list (`chosen`), and what to do with it (`action`)."""
    if page.request.method != "POST":
        return page.redirect("tree")
    form = page.request.POST
    ids = list(dict.fromkeys((*form.getlist("chosen"), *form.getlist("remove"))))
    action = ACTIONS.get(form.get("action", ""))
    if action is None or action not in actions_for(page):
        raise Forbidden
    then = page.way_back("tree")
    if action.name == "export":
        return _export(page, ids)
    if action.name in RECIPES or action.name == "template":
        name = action.name if action.name in RECIPES else None
        place = reverse("console:selection-recipe", args=[name]) if name else page_address("selection-recipes")
        return page.redirect_to(f"{place}?{urlencode({'chosen': ids, 'from': then}, doseq=True)}")
    records = find_chosen(page, ids)
    given = {
        "parent": form.get("parent", ""),
        "groups": [*filter(None, form.getlist("group"))],
        "attribute": form.get("attribute", ""),
        "values": [line for line in form.get("values", "").splitlines() if line.strip()],
    }
    context = {"action": action, "records": records, "given": given, "back": then}
    if action.asks and form.get("step") != "preview":
        return page.render("directory/selection/form.html", context)
    try:
        task = plan(page, action, records, given, then=then)
        task.reason = check_reason(form.get("reason")) or ""
    except GatewayError as refusal:
        if not action.asks:
            raise
        return page.render("directory/selection/form.html", {**context, "problem": refusal})
    return start(page, task)


@console_page(get="objects.search")
def recipes(page: PageContext) -> HttpResponseBase:
    """Which of them it is: somebody joins, moves or leaves."""
    back = page.way_back("tree")
    records = find_chosen(page, page.request.GET.getlist("chosen"))
    context = {
        "recipes": [each for each in RECIPES.values() if offered_blocks(page, each)],
        "templates": page.perform("change-templates.list")["items"] if page.may("change-templates.list") else [],
        "records": records,
        "back": back,
    }
    return page.render("directory/selection/recipes.html", context)


@console_page("GET", "POST", get="objects.search", post="objects.search")
def recipe(page: PageContext, name: str) -> HttpResponseBase:
    """What is done when the chosen people join, move or leave: asked for, then previewed as every task."""
    found = RECIPES.get(name)
    if found is None:
        raise NotFound
    form, back = page.sent, page.way_back("tree")
    records = find_chosen(page, form.getlist("chosen"))
    context = {"recipe": found, "records": records, "blocks": offered_blocks(page, found), "back": back}
    if page.request.method != "POST":
        return page.render("directory/selection/recipe.html", {**context, "choice": proposed(page, found)})
    choice = Choice(frozenset(form.getlist("block")), form.get("colleague", "").strip(), form.get("place", ""))
    try:
        task = plan_recipe(page, found, records, choice, then=back)
    except InvalidRequest as refusal:
        shown = {**context, "choice": choice, "problem": refusal}
        return page.render("directory/selection/recipe.html", shown)
    remember(page, found, choice)
    return start(page, task)


def start(page: PageContext, task: Task) -> HttpResponse:
    """Go on to the page of a new task, which begins with its preview."""
    return page.redirect("selection-task", task_id=begin(page, task).id)


def _export(page: PageContext, ids: list[str]) -> HttpResponseBase:
    query = {"filter": condition_on(ids), "attributes": READ, "sort": "name"}
    return download(page, "objects.search", "csv", called="selection", query=query)


@console_page(get="objects.search")
def task(page: PageContext, task_id: UUID) -> HttpResponseBase:
    """A task as it stands. Its preview follows the page where it takes a while, and its progress goes on by itself."""
    found = find(page, task_id)
    part = page.request.headers.get("HX-Target") if page.is_partial else None
    wants_preview = part == "preview" or "now" in page.query or len(found.steps) <= _PREVIEWED_AT_ONCE
    if not found.is_started and not found.is_previewed and wants_preview:
        preview(page, found)
    if part == "preview":
        return page.render("directory/selection/_preview.html", _context(page, found))
    if part == "progress":
        return page.render("directory/selection/_progress.html", _context(page, found))
    return page.render("directory/selection/task.html", _context(page, found))


def _context(page: PageContext, task: Task) -> dict[str, Any]:
    return {
        "task": task,
        "risks": sorted({step.risk for step in task.by_effect["change"] if step.risk}),
        "results": [*task.by_outcome["late"], *sorted(task.ended, key=lambda step: step.outcome != "failed")],
        "may_undo": task.is_over and bool(task.by_outcome["done"]) and not task.is_undo and _may_undo(page),
        "may_see_log": page.may("operations.search"),
    }


def _may_undo(page: PageContext) -> bool:
    return page.may("operations.revert") and page.may("operations.search")


@console_page("POST", post="objects.update")
def go(page: PageContext, task_id: UUID) -> HttpResponseBase:
    """Confirm a task that was previewed, then make its next changes each time, until there are none left."""
    found = find(page, task_id)
    if not found.is_started:
        if not found.is_previewed:
            raise InvalidRequest(_("Look at what it would do first."))
        found.is_started = True
        found.reason = check_reason(page.form.get("reason")) or ""
        keep(found)
        return page.redirect("selection-task", task_id=task_id)
    advance(page, found)
    # Also where htmx asks: it follows to the part of the page that it is for.
    return HttpResponseRedirect(page_address("selection-task", task_id=task_id))


@console_page("POST", post="operations.revert")
def undo(page: PageContext, task_id: UUID) -> HttpResponseBase:
    """A task that takes back what this one did, the last change first; it begins with its preview, as every other."""
    done = find(page, task_id)
    if not _may_undo(page):
        raise Forbidden
    query = {"callId": done.id, "outcome": "succeeded", "onlyChanges": "true", "pageSize": "1000"}
    records = page.perform("operations.search", query=query)["items"]
    steps = [
        Step(
            operation="operations.revert",
            document={"id": record["id"]},
            name=_name_in(done, record["target"]),
            place=(record["target"] or {}).get("distinguishedName", ""),
            object_id=(record["target"] or {}).get("id"),
            says=_("As it was before"),
        )
        for record in records
        if record["reversible"] != "none"
    ]
    if not steps:
        raise InvalidRequest(_("Nothing that was done can be taken back."))
    return start(
        page,
        Task(
            title=ngettext("Undo {count} change?", "Undo {count} changes?", len(steps)).format(count=len(steps)),
            confirm=_("Undo"),
            confirm_many=_("Undo all {}"),
            did=_("taken back"),
            steps=steps,
            then=page_address("selection-task", task_id=task_id),
            is_undo=True,
        ),
    )


def _name_in(task: Task, target: dict[str, Any] | None) -> str:
    wanted = (target or {}).get("id")
    return next((step.name for step in task.steps if step.object_id == wanted), _("An object"))


urls = [
    path("directory/selection", selection, name="selection"),
    path("directory/selection/recipes", recipes, name="selection-recipes"),
    path("directory/selection/recipes/<slug:name>", recipe, name="selection-recipe"),
    path("directory/selection/<uuid:task_id>", task, name="selection-task"),
    path("directory/selection/<uuid:task_id>/go", go, name="selection-go"),
    path("directory/selection/<uuid:task_id>/undo", undo, name="selection-undo"),
]
