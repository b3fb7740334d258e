"""What is done with an object besides editing: enable, disable, unlock, move, rename, delete, reset the password."""

from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from console.directory.objects.changes import Change, DryRun, Question, ask, tell
from console.directory.objects.page import Record, find, frame_of, operation_on, require
from console.page_context import PageContext, console_page, page_address
from core import shown_once
from core.errors import GatewayError
from directory.shapes.kinds import permission_for

_WORDS: Final = {
    "enable": (gettext_noop("Enable {name}?"), gettext_noop("Enable"), gettext_noop("{name} is enabled.")),
    "disable": (gettext_noop("Disable {name}?"), gettext_noop("Disable"), gettext_noop("{name} is disabled.")),
    "unlock": (gettext_noop("Unlock {name}?"), gettext_noop("Unlock"), gettext_noop("{name} is unlocked.")),
    "move": (gettext_noop("Move {name}?"), gettext_noop("Move"), gettext_noop("{name} is moved.")),
    "rename": (
        gettext_noop("Rename {name} to {new}?"),
        gettext_noop("Rename"),
        gettext_noop("{name} is now called {new}."),
    ),
    "delete": (gettext_noop("Delete {name}?"), gettext_noop("Delete"), gettext_noop("{name} is deleted.")),
}
"""What is asked, what the button says, and what is told when it is done."""
_DANGEROUS: Final = frozenset({"disable", "delete"})


def _question(record: Record, action: str, *, new: str = "", **more: Any) -> Question:
    title, confirm, message = (_(text).format(name=record["name"], new=new) for text in _WORDS[action])
    return Question(title=title, confirm=confirm, message=message, about=record, dangerous=action in _DANGEROUS, **more)


@console_page("GET", "POST")
def switch(page: PageContext, object_id: UUID, action: str) -> HttpResponseBase:
    """Enable, disable or unlock an account."""
    record = find(page, object_id)
    return ask(page, Change(operation_on(record, action), object_id), _question(record, action))


@console_page("GET", "POST")
def move(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Choose another place, see what the move means, move."""
    require(page, "directory.move_object")
    return _with_field(page, find(page, object_id), "move", "parent")


@console_page("GET", "POST")
def rename(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Type another name, see what stays as it is, rename."""
    record = find(page, object_id)
    require(page, permission_for("update", record["kind"]))
    return _with_field(page, record, "rename", "name")


def _with_field(page: PageContext, record: Record, action: str, member: str) -> HttpResponse:
    """A change whose body is one field of a form, on a page of its own."""
    typed = page.form.get(member)

    def form(problem: GatewayError | None = None) -> HttpResponse:
        context = {**frame_of(page, record), "value": typed, "problem": problem}
        return page.render(f"directory/objects/{action}.html", context)

    if page.request.method == "GET" or page.form.get("step") == "form":
        return form()
    change = Change(operation_on(record, action), UUID(record["id"]), body={member: typed or ""})
    return ask(page, change, _question(record, action, new=typed or ""), form=form)


@console_page("GET", "POST")
def delete(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Delete an object; with all that is below it only for who agrees to how many they are."""
    record = find(page, object_id)
    parent = record["parentId"]
    then = page_address("object", object_id=parent) if parent else page_address("home")
    change = Change(operation_on(record, "delete"), object_id, query={"recursive": "true"})
    return ask(page, change, _question(record, "delete", then=then, consent=_consent_to_delete))


def _consent_to_delete(dry_run: DryRun) -> str:
    """What has to be agreed to: the objects below, as many as there are at this moment."""
    names = next(item["before"] for item in dry_run["changes"] if item["attribute"] == "distinguishedName")
    below = len(names) - 1
    if below == 0:
        return ""
    text = ngettext("Delete the object below it too", "Delete all {count} objects below it too", below)
    return text.format(count=below)


@console_page(post="users.reset-password")
def reset_password(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Set or generate a password. What a reset means for the account is shown before, by a dry run."""
    require(page, "directory.reset_password")
    record = find(page, object_id)
    operation = operation_on(record, "reset-password")
    if page.request.method != "POST":
        return _reset_form(page, record)
    generate = page.form.get("how") != "given"
    body = {
        **({"generate": True} if generate else {"newPassword": page.form.get("newPassword", "")}),
        "mustChange": "mustChange" in page.form,
        "unlock": "unlock" in page.form,
    }
    try:
        answer = Change(operation, object_id, body=body).make(page)
    except GatewayError as refusal:
        return _reset_form(page, record, refusal)
    tell(page, _("The password of {name} is reset.").format(name=record["name"]))
    if not generate:
        return page.redirect("object", object_id=object_id)
    return show_password(page, record, answer["generatedPassword"])


def show_password(page: PageContext, record: Record, password: str) -> HttpResponse:
    """Go on to the page that shows once a password that was generated for an account."""
    shown = {"name": record["name"], "password": password}
    return page.redirect_showing(shown, "object-password", object_id=record["id"])


@console_page()
def password(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """A generated password, once. The directory is not asked: whatever happens to it, the password is shown."""
    context = {"object_id": object_id, "may_reset": page.may("users.reset-password")}
    return page.render("directory/objects/password.html", {**context, "shown": shown_once.take(page.request)})


def _reset_form(page: PageContext, record: Record, problem: GatewayError | None = None) -> HttpResponse:
    """The form with what a reset means; htmx asks for that anew when an option is changed."""
    given = page.form if page.request.method == "POST" else page.query
    chosen = {name: name in given for name in ("mustChange", "unlock")}
    if not given:
        chosen = {"mustChange": True, "unlock": record["account"]["lockedOut"] and page.may("users.unlock")}
    context: dict[str, Any] = {
        **frame_of(page, record),
        **chosen,
        "how": given.get("how", "generate"),
        "reason": given.get("reason", ""),
        "problem": problem,
    }
    change = Change("users.reset-password", UUID(record["id"]), body={"generate": True, **chosen})
    try:
        context["preview"] = change.preview(page)
    except GatewayError as refusal:
        context["problem"] = problem = problem or refusal
    return page.render("directory/objects/reset_password.html", context)


urls = [
    *(
        path(f"directory/objects/<uuid:object_id>/{action}", switch, {"action": action}, name=f"object-{action}")
        for action in ("enable", "disable", "unlock")
    ),
    path("directory/objects/<uuid:object_id>/move", move, name="object-move"),
    path("directory/objects/<uuid:object_id>/rename", rename, name="object-rename"),
    path("directory/objects/<uuid:object_id>/delete", delete, name="object-delete"),
    path("directory/objects/<uuid:object_id>/reset-password", reset_password, name="object-reset-password"),
    path("directory/objects/<uuid:object_id>/password", password, name="object-password"),
]
