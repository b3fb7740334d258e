"""The pages on which a template is used: what differs is filled in, and a new account's password is told once."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _

from console.directory.objects.actions import show_password
from console.directory.objects.new import name_of
from console.directory.selection.actions import find_chosen
from console.directory.selection.from_template import Newcomer, Use, people_chosen, plan_use
from console.directory.selection.pages import start
from console.directory.selection.tasks import Task, find, keep
from console.page_context import PageContext, console_page
from core.errors import FieldError, Forbidden, GatewayError, NotFound


@console_page("GET", "POST", get="change-templates.read", post="objects.search")
def use(page: PageContext, template_id: UUID) -> HttpResponseBase:
    """Fill in what differs: for the people who were chosen (`chosen`), for one who is named, or for somebody new."""
    template = page.perform("change-templates.read", id=template_id)
    form, back = page.sent, page.way_back("change-templates")
    ids = form.getlist("chosen")
    if page.request.method != "POST":
        return _form(page, Use(template=template, newcomer=_newcomer(page, template, ids)), ids, back)
    given = {name.removeprefix("fill."): text for name, text in page.form.items() if name.startswith("fill.")}
    planned = Use(template=template, newcomer=_newcomer(page, template, ids), given=given)
    try:
        if planned.newcomer is None:
            planned = replace(planned, people=people_chosen(page, ids, form.get("person", "").strip()))
        task = plan_use(page, planned, then=back)
        _try_creation(page, task)
    except GatewayError as refusal:
        return _form(page, planned, ids, back, refusal)
    return start(page, task)


def _newcomer(page: PageContext, template: dict[str, Any], ids: Sequence[str]) -> Newcomer | None:
    """Somebody new, if that is who the template is for and nobody was chosen."""
    if ids or template["occasion"] != "joiner":
        return None
    if not page.may("users.create"):
        raise Forbidden
    typed = Newcomer.typed(page.form)
    known = template["parent"] and template["parent"]["distinguishedName"]
    return replace(typed, parent=known or name_of(page, typed.parent))


def _try_creation(page: PageContext, task: Task) -> None:
    """Find out by a dry run whether the account can be made; raises what would be refused, by the form's fields."""
    making = next((step for step in task.steps if step.operation == "users.create"), None)
    if making is None:
        return
    try:
        page.perform("users.create", query={"dryRun": "true"}, body=making.document)
    except GatewayError as refusal:
        refusal.errors = tuple(_of_form(error) for error in refusal.errors)
        raise


def _of_form(error: FieldError) -> FieldError:
    """Where a refused attribute of the creation is typed, if it is."""
    where = {"#/replace/givenName": "#/givenName", "#/replace/sn": "#/sn"}.get(error.pointer or "", error.pointer)
    return replace(error, pointer=where)


def _form(
    page: PageContext, planned: Use, ids: Sequence[str], back: str, problem: GatewayError | None = None
) -> HttpResponseBase:
    context = {
        "template": planned.template,
        "asked": planned.asked,
        "newcomer": planned.newcomer,
        "asks_place": planned.newcomer is not None and not planned.template["parent"],
        "chosen": planned.people or (find_chosen(page, ids) if ids else []),
        "ids": ids,
        "person": page.form.get("person", ""),
        "back": back,
        "problem": problem,
    }
    return page.render("directory/selection/from_template.html", context)


@console_page("POST", post="objects.read")
def password(page: PageContext, task_id: UUID) -> HttpResponseBase:
    """Go on to the page that shows the password of a new account, this once."""
    task = find(page, task_id)
    made = next((step for step in task.steps if step.outcome == "done" and step.document.get("password")), None)
    if made is None or made.object_id is None:
        raise NotFound(_("The password was shown already."))
    answer = show_password(page, {"id": made.object_id, "name": made.name}, made.document.pop("password"))
    keep(task)
    return answer


urls = [
    path("templates/<uuid:template_id>/use", use, name="change-template-use"),
    path("directory/selection/<uuid:task_id>/password", password, name="selection-password"),
]
