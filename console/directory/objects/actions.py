"""Actions on an object besides editing: enable, disable, unlock, move, rename, delete, reset the password."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.directory.objects.changes import Change, DryRun, preview_or_make, show_success
from console.directory.objects.form import Record
from console.directory.objects.page import find_object, operation_for, render_object, require_permission
from console.page_context import PageContext, page_at, page_url
from core import shown_once
from core.errors import GatewayError
from core.text.vocabulary import declare_texts
from directory.shapes.kinds import permission_for

_TEXTS = {
    "enable": ("Enable {name}?", "Enable", "{name} is enabled."),
    "disable": ("Disable {name}?", "Disable", "{name} is disabled."),
    "unlock": ("Unlock {name}?", "Unlock", "{name} is unlocked."),
    "move": ("Move {name}?", "Move", "{name} is moved."),
    "rename": (
        "Rename {name} to {new}?",
        "Rename",
        "{name} is now called {new}.",
    ),
    "delete": ("Delete {name}?", "Delete", "{name} is deleted."),
}
"""The question, the button's label, and the message afterwards, by action."""
declare_texts(text for texts in _TEXTS.values() for text in texts)


def _action_change(record: Record, action: str, *, new: str = "", **more: Any) -> Change:
    title, confirm, message = (_(text).format(name=record["name"], new=new) for text in _TEXTS[action])
    return Change(
        operation=operation_for(record, action),
        about=record,
        title=title,
        confirm=confirm,
        message=message,
        is_dangerous=action in ("disable", "delete"),
        **more,
    )


@page_at("directory/objects/<uuid:object_id>/enable", "object-enable", "GET", "POST", fixed={"action": "enable"})
@page_at("directory/objects/<uuid:object_id>/disable", "object-disable", "GET", "POST", fixed={"action": "disable"})
@page_at("directory/objects/<uuid:object_id>/unlock", "object-unlock", "GET", "POST", fixed={"action": "unlock"})
def switch(page: PageContext, object_id: UUID, action: str) -> HttpResponseBase:
    """Enable, disable or unlock an account."""
    return preview_or_make(page, _action_change(find_object(page, object_id), action))


@page_at("directory/objects/<uuid:object_id>/move", "object-move", "GET", "POST")
def move(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Choose another container, preview, move."""
    require_permission(page, "directory.move_object")
    return _with_field(page, find_object(page, object_id), "move", "parent")


@page_at("directory/objects/<uuid:object_id>/rename", "object-rename", "GET", "POST")
def rename(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Type another name, preview what stays unchanged, rename."""
    record = find_object(page, object_id)
    require_permission(page, permission_for("update", record["kind"]))
    return _with_field(page, record, "rename", "name")


def _with_field(page: PageContext, record: Record, action: str, member: str) -> HttpResponse:
    """An action whose body is the one field of its form."""
    typed = page.form.get(member)

    def form(problem: GatewayError | None = None) -> HttpResponse:
        return render_object(page, record, action, value=typed, problem=problem)

    if not page.is_post or page.form.get("step") == "form":
        return form()
    return preview_or_make(page, _action_change(record, action, new=typed or "", body={member: typed or ""}), form=form)


@page_at("directory/objects/<uuid:object_id>/delete", "object-delete", "GET", "POST")
def delete(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Delete an object; with objects below it, only if the person agrees to their number."""
    record = find_object(page, object_id)
    parent = record["parentId"]
    then = page_url("object", object_id=parent) if parent else page_url("home")
    query = {"recursive": "true"}
    return preview_or_make(page, _action_change(record, "delete", query=query, then=then, consent=_consent_to_delete))


def _consent_to_delete(dry_run: DryRun) -> str:
    """The sentence to agree to: how many objects are below now; empty if there are none."""
    names = next(item["before"] for item in dry_run["changes"] if item["attribute"] == "distinguishedName")
    below = len(names) - 1
    if below == 0:
        return ""
    text = ngettext("Delete the object below it too", "Delete all {count} objects below it too", below)
    return text.format(count=below)


@page_at("directory/objects/<uuid:object_id>/reset-password", "object-reset-password", post="users.reset-password")
def reset_password(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Set or generate a password. A dry run shows first what the reset means for the account."""
    require_permission(page, "directory.reset_password")
    record = find_object(page, object_id)
    operation = operation_for(record, "reset-password")
    if not page.is_post:
        return _reset_form(page, record)
    generate = page.form.get("how") != "given"
    body = {
        **({"generate": True} if generate else {"newPassword": page.form["newPassword"]}),
        **{name: name in page.form for name in ("mustChange", "unlock")},
    }
    try:
        answer = Change(operation=operation, about=record, body=body).make(page)
    except GatewayError as refusal:
        return _reset_form(page, record, refusal)
    show_success(page, _("The password of {name} is reset.").format(name=record["name"]))
    if not generate:
        return page.redirect("object", object_id=object_id)
    return show_password(page, record, answer["generatedPassword"])


def show_password(page: PageContext, record: Record, password: str) -> HttpResponse:
    """Redirect to the page that shows an account's generated password once."""
    shown = {"name": record["name"], "password": password}
    return page.redirect_showing(shown, "object-password", object_id=record["id"])


@page_at("directory/objects/<uuid:object_id>/password", "object-password")
def password(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """A generated password, shown once. It does not depend on the directory, which may be unreachable by now."""
    context = {"object_id": object_id, "shown": shown_once.take(page.request)}
    return page.render("directory/objects/password.html", context)


def _reset_form(page: PageContext, record: Record, problem: GatewayError | None = None) -> HttpResponse:
    """The form with a preview of the reset, which htmx refreshes when an option changes."""
    given = page.form if page.is_post else page.query
    options = {name: name in given for name in ("mustChange", "unlock")}
    if not given:
        options = {"mustChange": True, "unlock": record["account"]["lockedOut"] and page.may("users.unlock")}
    preview: DryRun | None = None
    try:
        body = {"generate": True, **options}
        preview = Change(operation="users.reset-password", about=record, body=body).preview(page)
    except GatewayError as refusal:
        problem = problem or refusal
    shown = {"how": given.get("how", "generate"), "reason": given.get("reason", ""), "preview": preview, **options}
    return render_object(page, record, "reset_password", problem=problem, **shown)
