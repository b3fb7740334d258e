"""The pages of a selection: choose an action, preview its task, follow the progress, see the results, undo."""

from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.directory.objects.form import READ_ATTRIBUTES
from console.directory.selection.actions import ACTIONS, actions_for, filter_for_ids, find_chosen, plan_task
from console.directory.selection.recipes import (
    RECIPES,
    Choice,
    offered_blocks,
    plan_recipe,
    proposed_choice,
    remember_choice,
)
from console.directory.selection.tasks import Step, Task, advance_task, create_task, find_task, preview_task, save_task
from console.page_context import PageContext, page_at, page_url
from console.shared.forms import split_lines
from console.shared.lists import download
from core.errors import Forbidden, GatewayError, InvalidRequest, NotFound
from keys.authentication import check_reason

_PREVIEWED_AT_ONCE = 10
"""A preview of so many changes is part of the page; a longer one loads after it."""


@page_at("directory/selection", "selection", post="objects.search")
def selection(page: PageContext) -> HttpResponseBase:
    """Start an action (`action`) on objects chosen in a list (`chosen`)."""
    if not page.is_post:
        return page.redirect("tree")
    form = page.request.POST
    ids = list(dict.fromkeys((*form.getlist("chosen"), *form.getlist("remove"))))  # `remove` ticks members of a group
    action = ACTIONS.get(form.get("action", ""))
    if action is None or action not in actions_for(page):
        raise Forbidden
    then = page.return_url("tree")
    if action.name == "export":
        query = {"filter": filter_for_ids(ids), "attributes": READ_ATTRIBUTES, "sort": "name"}
        return download(page, "objects.search", "csv", file_name="selection", query=query)
    if action.name in RECIPES or action.name == "template":
        is_recipe = action.name in RECIPES
        place = page_url("selection-recipe", name=action.name) if is_recipe else page_url("selection-recipes")
        return page.redirect_to(f"{place}?{urlencode({'chosen': ids, 'from': then}, doseq=True)}")
    records = find_chosen(page, ids)
    given = {
        "parent": form.get("parent", ""),
        "groups": split_lines("\n".join(form.getlist("group"))),
        "attribute": form.get("attribute", ""),
        "values": [line for line in form.get("values", "").splitlines() if line.strip()],
    }
    context = {"action": action, "records": records, "given": given, "back": then}
    if action.asks and form.get("step") != "preview":
        return page.render("directory/selection/form.html", context)
    try:
        page.require_names()
        task = plan_task(page, action, records, given, then=then)
        task.reason = check_reason(form.get("reason")) or ""
    except GatewayError as refusal:
        if not action.asks:
            raise
        return page.render("directory/selection/form.html", {**context, "problem": refusal})
    return start_task(page, task)


@page_at("directory/selection/recipes", "selection-recipes", get="objects.search")
def recipes(page: PageContext) -> HttpResponseBase:
    """Choose between joiner, mover and leaver, and templates for them."""
    back = page.return_url("tree")
    records = find_chosen(page, page.request.GET.getlist("chosen"))
    context = {
        "recipes": [each for each in RECIPES.values() if offered_blocks(page, each)],
        "templates": page.perform("change-templates.list")["items"] if page.may("change-templates.list") else [],
        "records": records,
        "back": back,
    }
    return page.render("directory/selection/recipes.html", context)


@page_at(
    "directory/selection/recipes/<slug:name>",
    "selection-recipe",
    get="objects.search",
    post="objects.search",
)
def recipe(page: PageContext, name: str) -> HttpResponseBase:
    """The form of a joiner, mover or leaver, which then starts a task."""
    found = RECIPES.get(name)
    if found is None:
        raise NotFound
    form, back = page.submitted, page.return_url("tree")
    records = find_chosen(page, form.getlist("chosen"))
    context = {"recipe": found, "records": records, "blocks": offered_blocks(page, found), "back": back}
    if not page.is_post:
        return page.render("directory/selection/recipe.html", {**context, "choice": proposed_choice(page, found)})
    choice = Choice(frozenset(form.getlist("block")), form.get("colleague", "").strip(), form.get("place", ""))
    try:
        page.require_names()
        task = plan_recipe(page, found, records, choice, then=back)
    except InvalidRequest as refusal:
        shown = {**context, "choice": choice, "problem": refusal}
        return page.render("directory/selection/recipe.html", shown)
    remember_choice(page, found, choice)
    return start_task(page, task)


def start_task(page: PageContext, task: Task) -> HttpResponse:
    """Save a new task and redirect to its page, which begins with a preview."""
    return page.redirect("selection-task", task_id=create_task(page, task).id)


@page_at("directory/selection/<uuid:task_id>", "selection-task", get="objects.search")
def task(page: PageContext, task_id: UUID) -> HttpResponseBase:
    """A task. A long preview loads after the page; a started task's page posts for the next changes by itself."""
    found = find_task(page, task_id)
    part = page.requested_part
    wants_preview = part == "preview" or "now" in page.query or len(found.steps) <= _PREVIEWED_AT_ONCE
    if not found.is_started and not found.is_previewed and wants_preview:
        preview_task(page, found)
    is_undoable = found.is_over and bool(found.by_outcome["done"]) and not found.is_undo
    context = {
        "task": found,
        "risks": sorted({step.risk for step in found.by_effect["change"] if step.risk}),
        "results": [*found.by_outcome["late"], *sorted(found.ended, key=lambda step: step.outcome != "failed")],
        "may_undo": is_undoable and _may_undo(page),
    }
    template = f"_{part}" if part in ("preview", "progress") else "task"
    return page.render(f"directory/selection/{template}.html", context)


def _may_undo(page: PageContext) -> bool:
    return page.may("operations.revert") and page.may("operations.search")


@page_at("directory/selection/<uuid:task_id>/go", "selection-go", "POST", post="objects.update")
def go(page: PageContext, task_id: UUID) -> HttpResponseBase:
    """Confirm a previewed task; once it is started, make its next changes."""
    found = find_task(page, task_id)
    if not found.is_started:
        if not found.is_previewed:
            raise InvalidRequest(_("Look at what it would do first."))
        found.is_started = True
        found.reason = check_reason(page.form.get("reason")) or ""
        save_task(found)
        return page.redirect("selection-task", task_id=task_id)
    advance_task(page, found)
    # A plain redirect even for htmx, which follows it and swaps in the part it asked for.
    return HttpResponseRedirect(page_url("selection-task", task_id=task_id))


@page_at("directory/selection/<uuid:task_id>/undo", "selection-undo", "POST", post="operations.revert")
def undo(page: PageContext, task_id: UUID) -> HttpResponseBase:
    """Start a task that reverts the changes of this one, the last change first."""
    done = find_task(page, task_id)
    if not _may_undo(page):
        raise Forbidden
    query = {"callId": done.id, "outcome": "succeeded", "onlyChanges": "true", "pageSize": "1000"}
    names = {step.object_id: step.name for step in reversed(done.steps)}
    steps = []
    for record in page.perform("operations.search", query=query)["items"]:
        if record["reversible"] != "none":
            target = record["target"] or {"id": None, "distinguishedName": ""}
            step = Step(
                operation="operations.revert",
                document={"id": record["id"]},
                name=names.get(target["id"], _("An object")),
                place=target.get("distinguishedName", ""),
                object_id=target["id"],
                says=_("As it was before"),
            )
            steps.append(step)
    if not steps:
        raise InvalidRequest(_("Nothing that was done can be undone."))
    task = Task(
        title=ngettext("Undo {count} change?", "Undo {count} changes?", len(steps)).format(count=len(steps)),
        confirm=_("Undo"),
        confirm_many=_("Undo all {}"),
        did=_("undone"),
        steps=steps,
        then=page_url("selection-task", task_id=task_id),
        is_undo=True,
    )
    return start_task(page, task)
