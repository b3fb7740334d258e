"""How a change of the directory goes on its pages: shown by a dry run, confirmed with a reason, made, and told of.

The forms before it, and what is asked for in them, are the business of each page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from audit.models import Reversible
from console.page_context import PageContext, page_address
from core.errors import GatewayError, InvalidRequest
from directory.errors import VersionMismatch

DryRun = Mapping[str, Any]
_VALUES_SHOWN = 100
_OWN_FIELDS = frozenset({"csrfmiddlewaretoken", "step", "reason", "agreed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An operation with all of its input. `if_match` is the version of the object that the person has seen."""

    operation: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
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
        return page.answer(self.operation, body=self.body, if_match=self.if_match, **self.arguments, **how).body


def _nothing(_: DryRun) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the preview of a change asks. `title` is its heading, `confirm` what its button says.

    `about` is the record of the object concerned, to lead back to. `consent` gives the sentence that has to be agreed
    to as well for what the preview shows, if any. `message` is told when it is done, on the page at `then`.
    """

    title: str
    confirm: str
    about: Mapping[str, Any] | None
    then: str
    message: str
    dangerous: bool = False
    consent: Callable[[DryRun], str] = _nothing


Form = Callable[[GatewayError], HttpResponse]
"""Shows the form of a change again, with the refusal of what was filled in."""


def ask(page: PageContext, change: Change, question: Question, **how: Any) -> HttpResponse:
    """Show what a change would do; or make it, when that was confirmed. `how` is as for `preview`."""
    if page.form.get("step") != "make":
        return preview(page, change, question, **how)
    try:
        _require_consent(page, change, question)
        change.make(page)
    except GatewayError as refusal:
        _raise_if_stale(change, refusal)
        return preview(page, change, question, **{**how, "problem": refusal})
    return finish(page, message=question.message, then=question.then)


def preview(
    page: PageContext,
    change: Change,
    question: Question,
    *,
    form: Form | None = None,
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
            "changes": [_shortened(item) for item in dry_run["changes"]],
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
        detail = "has to be agreed to as it is now"
        raise InvalidRequest.naming(detail, pointer="#/agreed", sentence=_("Nothing was done."))


def _raise_if_stale(change: Change, refusal: GatewayError) -> None:
    if isinstance(refusal, VersionMismatch) and change.if_match is not None:
        raise refusal


def _shortened(change: Mapping[str, Any]) -> dict[str, Any]:
    """A change with at most so many values of each side, and how many there are besides."""
    return {
        "attribute": change["attribute"],
        **{
            side: [*values[:_VALUES_SHOWN], *_rest(len(values) - _VALUES_SHOWN)]
            for side, values in (("before", change["before"]), ("after", change["after"]))
        },
    }


def _rest(count: int) -> list[str]:
    return [_("and {count} more").format(count=count)] if count > 0 else []


def finish(page: PageContext, *, message: str, then: str) -> HttpResponse:
    """Tell what was done on the page at `then`."""
    messages.success(page.request, format_html("{} {}", message, record_link(page)))
    return page.redirect_to(then)


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
