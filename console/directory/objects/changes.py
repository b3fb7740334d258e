"""How pages change the directory: preview by a dry run, confirm with a reason, make, report.

Each page has its own form before that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from audit.log import NOT_APPLIED
from audit.models import OPEN_OUTCOMES, Reversible
from console.directory.membership_rules import rule_of_group
from console.page_context import PageContext, page_at, page_url
from console.shared.wording import seconds_since
from core.call import Schedule
from core.errors import GatewayError, InvalidRequest
from core.operation import find_operation
from core.shapes import parse_duration
from core.text.messages import message
from directory.changes.revert import inverse_of
from directory.errors import VersionMismatch
from directory.shapes.kinds import Kind
from gateway.pipeline.membership_rules import TooLong
from gateway.pipeline.schedules import parse_schedule

DryRun = Mapping[str, Any]
_VALUES_SHOWN = 100
_OWN_FIELDS = frozenset({"csrfmiddlewaretoken", "step", "reason", "agreed", "applyAt", "revertAt", "named"})
_GENERATING_PASSWORDS = frozenset({"users.create", "users.reset-password"})


def _no_consent(_: DryRun) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An operation with all of its input, and the texts of its preview.

    `about` is the record of the object to change, None for a creation. `if_match` is the version that the person has
    seen. `title` is the heading of the preview, `confirm` the label of its button. `consent` returns a sentence that
    the person has to agree to, given the dry run, or an empty string. Afterwards `message` is shown on the page at
    `then`, by default the object's.
    """

    operation: str
    about: Mapping[str, Any] | None
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    if_match: str | None = None
    title: str = ""
    confirm: str = ""
    message: str = ""
    then: str = ""
    is_dangerous: bool = False
    consent: Callable[[DryRun], str] = _no_consent

    def preview(self, page: PageContext) -> DryRun:
        """The dry run; with the latest end where a membership needs one."""
        try:
            return self._preview(page)
        except TooLong as refusal:
            longest = parse_duration(refusal.members["maxDuration"])
            return self._preview(page, schedule=Schedule(revert_after=longest))

    def _preview(self, page: PageContext, **schedule: Schedule) -> DryRun:
        dry_run: DryRun = self._answer(page, query={**self.query, "dryRun": "true"}, **schedule)
        return dry_run

    def find_rule(self, page: PageContext) -> Mapping[str, Any] | None:
        """The membership rule of the group that members are added to."""
        is_adding = self.operation == "groups.change-members" and self.body.get("add")
        return rule_of_group(page, self.about) if is_adding else None

    def make(self, page: PageContext) -> Any:
        """Make the change and return the operation's answer. Changes by people in the console need no approval."""
        return self._answer(page, query=self.query, reason=page.form.get("reason"), schedule=schedule_in(page.form))

    def _answer(self, page: PageContext, **arguments: Any) -> Any:
        path = {"id": self.about["id"]} if self.about else {}
        return page.perform(self.operation, body=self.body, if_match=self.if_match, **path, **arguments)


def schedule_in(form: Mapping[str, str]) -> Schedule | None:
    """When a change begins and ends, by the fields of a form, whose times are UTC; raises BadTime."""
    given = {member: (name, form.get(name, "").strip()) for member, name in _TIMES.items()}
    times = {member: (name, f"{text}:00Z") for member, (name, text) in given.items() if text}
    return parse_schedule(times, in_body=True) if times else None


_TIMES = {"apply_at": "applyAt", "revert_at": "revertAt"}


def preview_or_make(
    page: PageContext, change: Change, *, done: Callable[[Any], HttpResponse] | None = None, **arguments: Any
) -> HttpResponse:
    """Show the preview of a change, or make the change if it was confirmed. `arguments` are passed to `render_preview`.

    `done` takes the operation's answer and returns the response; by default the change's `then` is shown.
    """
    if page.form.get("step") != "make":
        return render_preview(page, change, **arguments)
    try:
        # The objects below may have changed since the preview: consent must match what would happen now.
        sentence = "" if change.consent is _no_consent else change.consent(change.preview(page))
        if sentence and page.form.get("agreed") != sentence:
            detail = message("has to be agreed to as it is now")
            raise InvalidRequest.naming(detail, pointer="#/agreed", sentence=_("Nothing was done."))
        answer = change.make(page)
    except GatewayError as refusal:
        _raise_if_stale(change, refusal)
        return render_preview(page, change, **{**arguments, "problem": refusal})
    if done is not None:
        return done(answer)
    show_success(page, change.message)
    return page.redirect_to(change.then or page_url("object", object_id=change.about and change.about["id"]))


def render_preview(
    page: PageContext,
    change: Change,
    *,
    form: Callable[[GatewayError], HttpResponse] | None = None,
    kept: Sequence[tuple[str, str]] | None = None,
    problem: GatewayError | None = None,
    **context: Any,
) -> HttpResponse:
    """Render the preview of a change with a button to confirm it.

    `form` renders the form again if its input is refused. `kept` are the form's fields, by default as submitted.
    `problem` is the refusal of an attempt to make the change. Raises VersionMismatch for a change with `if_match`: the
    caller shows what has changed meanwhile.
    """
    rule, revert_at = change.find_rule(page), page.form.get("revertAt", "")
    try:
        dry_run = change.preview(page)
        page.require_names()
    except GatewayError as refusal:
        _raise_if_stale(change, refusal)
        problem = problem or refusal
        if form is not None:
            return form(problem)
    else:
        revert_at = revert_at or dry_run.get("revertAt", "")[:16]
        changes = [shorten_values(item, _VALUES_SHOWN) for item in dry_run["changes"]]
        context |= {"preview": dry_run, "changes": changes, "consent": change.consent(dry_run)}
    if kept is None:
        sent = page.request.POST.lists()
        kept = [(name, str(value)) for name, values in sent if name not in _OWN_FIELDS for value in values]
    given = {"change": change, "kept": kept, "has_form": form is not None, "reason": page.form["reason"]}
    given |= {"applyAt": page.form.get("applyAt", ""), "revertAt": revert_at, "rule": rule}
    given["may_end"] = find_operation(change.operation).inverse is not None
    return page.render("directory/objects/preview.html", {**given, "problem": problem, **context})


def _raise_if_stale(change: Change, refusal: GatewayError) -> None:
    """Raise a VersionMismatch on, since only the change's own page can show what others have changed."""
    if isinstance(refusal, VersionMismatch) and change.if_match is not None:
        raise refusal


def shorten_values(change: Mapping[str, Any], most: int) -> dict[str, Any]:
    """A change with at most `most` values on each side, and the number of the others."""
    cut = {side: values[:most] for side, values in change.items() if side in ("before", "after")}
    for side, values in cut.items():
        if rest := len(change[side]) - len(values):
            values.append(_("and {count} more").format(count=rest))
    return {"attribute": change["attribute"], **cut}


def show_success(page: PageContext, message: str) -> None:
    """Show on the next page what was done, with links to its log record and to undo it."""
    messages.success(page.request, format_html("{} {}", message, record_link(page)))


def record_link(page: PageContext) -> str | SafeString:
    """A link to the log record of this request's change, and one to undo it, as far as the person may use them."""
    if not page.may("operations.search"):
        return _own_undo_link(page)
    found = page.perform("operations.search", query={"callId": str(page.call.call_id), "pageSize": "10"})["items"]
    if not found:  # nothing was changed
        return ""
    # The newest is first; dependent changes have records that begin after that of the change.
    record = found[-1]
    address = page_url("log-record", record_id=record["id"])
    link = format_html('<a href="{}">{}</a>.', address, _("See its log record"))
    if record["reversible"] == Reversible.NONE or not page.may("operations.revert"):
        return link
    undo = page_url("log-revert", record_id=record["id"])
    return format_html('{} <a href="{}">{}</a>', link, undo, _("Undo"))


def _own_undo_link(page: PageContext) -> str | SafeString:
    """A link to undo what this session has just done, for people who do not read the log."""
    found = page.perform("operations.search-own", query={"pageSize": "1"})["items"]
    if not found or not _may_undo(page, found[0]):
        return ""
    return format_html('<a href="{}">{}</a>', page_url("own-change", record_id=found[0]["id"]), _("Undo"))


def _may_undo(page: PageContext, change: Mapping[str, Any]) -> bool:
    """Whether the person may make the inverse of a change of their own."""
    if change["reversible"] == Reversible.NONE or not change["target"]:
        return False
    return page.may(inverse_of(find_operation(change["operation"]), change["target"]["kind"]).name)


@page_at("directory/changes/<uuid:record_id>", "own-change", get="operations.read-own")
def own_change(page: PageContext, record_id: UUID) -> HttpResponseBase:
    """A change whose answer is late: whether it was made. The page polls and gets 204 until that is known."""
    change = page.perform("operations.read-own", id=record_id)
    is_open = change["outcome"] in OPEN_OUTCOMES
    if is_open and page.is_partial:
        return HttpResponse(status=204)
    target, action = change["target"] or {}, change["operation"].rpartition(".")[2]
    context = {
        "change": change,
        "is_open": is_open,
        "waited": seconds_since(change["at"]),
        "was_not_made": change["code"] == NOT_APPLIED,
        "is_there": bool(target.get("id")) and target["kind"] in list(Kind) and action != "delete",
        "may_have_password": change["operation"] in _GENERATING_PASSWORDS,
        "may_undo": _may_undo(page, change),
        "may_revert": page.may("operations.revert"),
        "problem": page.problem,
    }
    return page.render("directory/own_change.html", context)


@page_at("directory/changes/<uuid:record_id>/undo", "own-change-undo", "POST", post="operations.undo", form=own_change)
def undo_own_change(page: PageContext, record_id: UUID) -> HttpResponseBase:
    """Undo what this session has done: it needs the permission of the inverse change alone."""
    change = page.perform("operations.read-own", id=record_id)
    page.perform("operations.undo", id=record_id)
    is_gone = change["operation"].endswith(".create")
    address = page_url("home") if is_gone else page_url("object", object_id=change["target"]["id"])
    return page.redirect_to(address, message=_("The change is undone."))
