"""How a change of the directory goes on its pages: shown by a dry run, confirmed with a reason, made, and told of.

The forms before it, and what is asked for in them, are the business of each page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from audit.models import Reversible
from console.page_context import PageContext, page_address
from core.errors import GatewayError, InvalidRequest
from core.text.messages import message
from directory.errors import VersionMismatch

DryRun = Mapping[str, Any]
_VALUES_SHOWN = 100
_OWN_FIELDS = frozenset({"csrfmiddlewaretoken", "step", "reason", "agreed"})


@dataclass(frozen=True, slots=True)
class Change:
    """An operation on the object with an id, with all of its input. `if_match` is the version the person has seen."""

    operation: str
    id: UUID | None = None
    _: KW_ONLY
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    if_match: str | None = None

    def preview(self, page: PageContext) -> DryRun:
        dry_run: DryRun = self._answer(page, query={**self.query, "dryRun": "true"})
        return dry_run

    def make(self, page: PageContext) -> Any:
        """The operation's answer. It is made at once: what people do themselves waits for nobody's approval."""
        return self._answer(page, query=self.query, reason=page.form.get("reason"))

    def _answer(self, page: PageContext, **how: Any) -> Any:
        path: dict[str, Any] = {"id": self.id} if self.id else {}
        return page.answer(self.operation, body=self.body, if_match=self.if_match, **path, **how).body


def _nothing(_: DryRun) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the preview of a change asks. `title` is its heading, `confirm` what its button says.

    `about` is the record of the object concerned, to lead back to. `consent` gives the sentence that has to be agreed
    to as well for what the preview shows, if any. `message` is told when it is done, on the page at `then`: that of the
    object, where nothing else is said.
    """

    title: str
    confirm: str
    about: Mapping[str, Any] | None
    message: str
    then: str = ""
    dangerous: bool = False
    consent: Callable[[DryRun], str] = _nothing


def ask(
    page: PageContext,
    change: Change,
    question: Question,
    *,
    done: Callable[[Any], HttpResponse] | None = None,
    **how: Any,
) -> HttpResponse:
    """Show what a change would do; or make it, when that was confirmed. `how` is as for `preview`.

    `done` takes the operation's answer and says where to go on to; else the question does.
    """
    if page.form.get("step") != "make":
        return preview(page, change, question, **how)
    try:
        _require_consent(page, change, question)
        answer = change.make(page)
    except GatewayError as refusal:
        _raise_if_stale(change, refusal)
        return preview(page, change, question, **{**how, "problem": refusal})
    if done is not None:
        return done(answer)
    tell(page, question.message)
    return page.redirect_to(question.then or page_address("object", object_id=change.id))


def preview(
    page: PageContext,
    change: Change,
    question: Question,
    *,
    form: Callable[[GatewayError], HttpResponse] | None = None,
    kept: Sequence[tuple[str, str]] | None = None,
    problem: GatewayError | None = None,
    **context: Any,
) -> HttpResponse:
    """Show what a change would do, and ask whether to make it.

    `form` is where it comes from if its input is refused; `kept` are the fields of that form, by default as they were
    sent; `problem` is what kept it from being made. Raises VersionMismatch for a change with `if_match`: whoever makes
    such a one says what has changed meanwhile.
    """
    shown: dict[str, Any] = {}
    try:
        dry_run = change.preview(page)
    except GatewayError as refusal:
        _raise_if_stale(change, refusal)
        problem = problem or refusal
        if form is not None:
            return form(problem)
    else:
        shown = {
            "preview": dry_run,
            "changes": [shortened(item, _VALUES_SHOWN) for item in dry_run["changes"]],
            "consent": question.consent(dry_run),
        }
    context = {
        "question": question,
        "operation": change.operation,
        "kept": _sent(page) if kept is None else kept,
        "has_form": form is not None,
        "reason": page.form.get("reason", ""),
        "problem": problem,
        **shown,
        **context,
    }
    return page.render("directory/objects/preview.html", context)


def _sent(page: PageContext) -> list[tuple[str, str]]:
    fields = page.request.POST.lists()
    return [(name, str(value)) for name, values in fields if name not in _OWN_FIELDS for value in values]


def _require_consent(page: PageContext, change: Change, question: Question) -> None:
    """Raise InvalidRequest unless the person has agreed to what the change would do now."""
    if question.consent is _nothing:
        return
    sentence = question.consent(change.preview(page))
    if sentence and page.form.get("agreed") != sentence:
        detail = message("has to be agreed to as it is now")
        raise InvalidRequest.naming(detail, pointer="#/agreed", sentence=_("Nothing was done."))


def _raise_if_stale(change: Change, refusal: GatewayError) -> None:
    if isinstance(refusal, VersionMismatch) and change.if_match is not None:
        raise refusal


def shortened(change: Mapping[str, Any], most: int) -> dict[str, Any]:
    """A change with at most so many values of each side, and how many there are besides."""
    cut = {side: values[:most] for side, values in change.items() if side in ("before", "after")}
    for side, values in cut.items():
        if rest := len(change[side]) - len(values):
            values.append(_("and {count} more").format(count=rest))
    return {"attribute": change["attribute"], **cut}


def tell(page: PageContext, message: str) -> None:
    """Tell on the next page what was done."""
    messages.success(page.request, format_html("{} {}", message, record_link(page)))


def record_link(page: PageContext) -> str | SafeString:
    """A link to the log record of the change that this request has made, for whom may read it, and one to undo it."""
    if not page.may("operations.search"):
        return ""
    found = page.perform("operations.search", query={"callId": str(page.call.call_id), "pageSize": "10"})["items"]
    if not found:  # there was nothing to do
        return ""
    # Newest first: what followed from the change has records, too, which were begun after it.
    record = found[-1]
    address = page_address("log-record", record_id=record["id"])
    link = format_html('<a href="{}">{}</a>.', address, _("See its log record"))
    if record["reversible"] == Reversible.NONE or not page.may("operations.revert"):
        return link
    undo = page_address("log-revert", record_id=record["id"])
    return format_html('{} <a href="{}">{}</a>', link, undo, _("Undo"))
