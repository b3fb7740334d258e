"""Change requests in Django admin: who asks for what, the values side by side, the decision, and the password that was
generated for an approved one. Nothing is edited.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Case, QuerySet, Value, When
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_POST

from approvals import secrets
from approvals.models import ChangeRequest, Status
from approvals.review import decisions
from approvals.review.conflict_of_interest import conflict_reason, find_deciders
from audit import log
from audit.model_changes.recorded_admin import ReadOnlyAdmin, RecordedAdmin, call_of
from audit.model_changes.recording import recorded
from audit.redact import ChangeJson
from core import shown_once
from core.errors import Forbidden, GatewayError, NotFound
from core.operation import find_operation
from directory.lookup.visibility import READ_OBJECT, without_values
from directory.shapes.wording.explained_values import explained
from keys.sign_in.confirmation import is_needed, require_confirmation

DECIDE = "approvals.decide_change"

_DONE = {
    Status.PENDING: "Your approval is kept. Somebody else has to approve it too.",
    Status.APPROVED: "Approved. A worker makes the change now.",
    Status.REJECTED: "Rejected.",
}


class DecisionForm(forms.Form):
    """What comes with a decision: the digest of what was shown, and a comment."""

    digest = forms.CharField(widget=forms.HiddenInput)
    comment = forms.CharField(
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 60}),
        help_text="The requester reads it. A rejection needs one.",
    )
    code = forms.CharField(
        required=False,
        max_length=64,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}),
        help_text="Approving asks for your second factor again.",
    )


@admin.register(ChangeRequest)
class ChangeRequestAdmin(RecordedAdmin, ReadOnlyAdmin):
    list_display = ("what", "state", "requested", "expires")
    list_filter = ("status", "risk", "operation", "requester", "directory")
    search_fields = ("target_dn", "requester", "key_name", "operation", "=id", "=target_id", "=request_id")
    list_per_page = 50

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(DECIDE)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(DECIDE)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ChangeRequest]:
        return super().get_queryset(request).defer("input", "secret")

    def get_ordering(self, request: HttpRequest) -> Any:
        """What waits comes first."""
        return [Case(When(status=Status.PENDING, then=Value(0)), default=Value(1)).asc(), "-id"]

    @admin.display(description="change", ordering="operation")
    def what(self, change_request: ChangeRequest) -> str:
        return _in_lines(change_request.operation, change_request.target_dn)

    @admin.display(description="status and risk", ordering="status")
    def state(self, change_request: ChangeRequest) -> str:
        first = change_request.first_approved_by if change_request.status == Status.PENDING else None
        return _in_lines(
            change_request.get_status_display(), change_request.risk, f"approved once, by {first}" if first else None
        )

    @admin.display(description="asked (UTC)", ordering="created_at")
    def requested(self, change_request: ChangeRequest) -> str:
        key = change_request.key_name
        return _in_lines(
            f"{change_request.created_at:%Y-%m-%d %H:%M}", change_request.requester, f"key {key}" if key else None
        )

    @admin.display(description="expires (UTC)", ordering="expires_at")
    def expires(self, change_request: ChangeRequest) -> str:
        """Of what is decided the date does not matter any more."""
        return f"{change_request.expires_at:%Y-%m-%d %H:%M}" if change_request.status == Status.PENDING else ""

    def get_urls(self) -> list[URLPattern]:
        for_staff = self.admin_site.admin_view
        return [
            path("<uuid:request_id>/approve/", for_staff(self.approve_view), name="approvals_changerequest_approve"),
            path("<uuid:request_id>/reject/", for_staff(self.reject_view), name="approvals_changerequest_reject"),
            path("<uuid:request_id>/secret/", for_staff(self.secret_view), name="approvals_changerequest_secret"),
            *super().get_urls(),
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The request as a page to read and decide, instead of a form to edit."""
        change_request = self.get_object(request, object_id)
        if not self.has_view_permission(request):
            raise PermissionDenied
        if change_request is None:
            raise Http404
        return self._page(request, change_request, DecisionForm(initial={"digest": change_request.digest}))

    def _page(
        self,
        request: HttpRequest,
        change_request: ChangeRequest,
        form: DecisionForm,
    ) -> TemplateResponse:
        is_open = change_request.status == Status.PENDING and change_request.expires_at > timezone.now()
        barred = conflict_reason(request.user.pk, change_request) if is_open else None
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"{change_request.operation} on {change_request.target_dn}",
            "change_request": change_request,
            "what": _summary(change_request.operation),
            "why_held": change_request.why_risky(confined=False),
            "needs_two": decisions.needs_two(change_request),
            "approved_first": change_request.first_approved_by_id == request.user.pk,
            "changes": [_side_by_side(item) for item in _changes_seen_by(request, change_request)],
            "references": {
                each["id"]: each for item in change_request.changes for each in item.get("references", ())
            }.values(),
            "is_own": change_request.requester_id == request.user.pk,
            "is_open": is_open,
            "barred": barred,
            "deciders": find_deciders(change_request) if barred else [],
            "code_needed": is_needed(request.user.pk),
            "has_secret": secrets.may_take(request.user.pk, change_request),
            "password_was_shown": shown_once.is_expected(request),
            "generated_password": shown_once.take(request),
            "form": form,
        }
        return TemplateResponse(request, "admin/approvals/changerequest/detail.html", context)

    @method_decorator(require_POST)
    def approve_view(self, request: HttpRequest, request_id: UUID) -> HttpResponse:
        return self._decide(request, request_id, "approve")

    @method_decorator(require_POST)
    def reject_view(self, request: HttpRequest, request_id: UUID) -> HttpResponse:
        return self._decide(request, request_id, "reject")

    @method_decorator(require_POST)
    def secret_view(self, request: HttpRequest, request_id: UUID) -> HttpResponse:
        """Show the generated password on the page of the request, this once, with the operation's record."""
        call = call_of(request)
        operation = "change-requests.reveal-secret"
        page = reverse("admin:approvals_changerequest_change", args=[request_id])
        try:
            if not call.may(DECIDE):
                raise Forbidden
            with recorded(call, operation=operation) as administration:
                administration.watch(self.table, request_id)
                return HttpResponseRedirect(shown_once.keep(request, page, secrets.take(call.person, request_id)))
        except GatewayError as refusal:
            log.record_refusal(call, operation=operation, code=refusal.code)
            messages.error(request, refusal.detail)
            return HttpResponseRedirect(page)

    def _decide(self, request: HttpRequest, request_id: UUID, decision: str) -> HttpResponse:
        """Decide as the operation of the same name does, with the same record in the operations log."""
        call = call_of(request)
        operation = f"change-requests.{decision}"
        if not call.may(DECIDE):
            log.record_refusal(call, operation=operation, code="Auth.Forbidden")
            raise PermissionDenied
        form = DecisionForm(request.POST)
        if decision == "reject" and form.is_valid() and not form.cleaned_data["comment"].strip():
            form.add_error("comment", "Say why the change must not be made.")
        try:
            if not form.is_valid():
                return self._page(request, decisions.find_request(request_id), form)
            given = form.cleaned_data
            if decision == "approve":
                require_confirmation(call, given["code"].strip() or None)
            with recorded(call, operation=operation) as administration:
                administration.watch(self.table, request_id)
                if decision == "approve":
                    decided = decisions.approve(
                        call.person, request_id, digest=given["digest"], comment=given["comment"].strip() or None
                    )
                else:
                    decided = decisions.reject(call.person, request_id, comment=given["comment"])
        except NotFound as refusal:
            raise Http404 from refusal
        except GatewayError as refusal:
            log.record_refusal(call, operation=operation, code=refusal.code)
            more = f" {refusal.detail}" if refusal.detail != refusal.title else ""
            messages.error(request, f"{refusal.title}.{more}")
        else:
            messages.success(request, _DONE[Status(decided.status)])
        return HttpResponseRedirect(reverse("admin:approvals_changerequest_change", args=[request_id]))


def _in_lines(*texts: str | None) -> str:
    """The cell of a list that says several things, each on a line of its own: seven columns would not fit the page."""
    return format_html_join(mark_safe("<br>"), "{}", ((text,) for text in texts if text))


def _summary(operation: str) -> str:
    """What the operation does in its own words; empty for one that this version does not have any more."""
    try:
        return find_operation(operation).summary
    except KeyError:
        return ""


def _changes_seen_by(request: HttpRequest, change_request: ChangeRequest) -> Sequence[ChangeJson]:
    """The changes of a request; the values of a directory are shown to those who may read it."""
    if change_request.directory_id is None or request.user.has_perm(READ_OBJECT):
        shown: list[ChangeJson] = change_request.changes
        return shown
    return without_values(change_request.changes)


def _side_by_side(change: ChangeJson) -> dict[str, Any]:
    """The values of an attribute before and after, each with whether the other side has it too."""
    before, after = change["before"], change["after"]
    return {
        "attribute": change["attribute"],
        "current": [(explained(change["attribute"], value), value in after) for value in before],
        "proposed": [(explained(change["attribute"], value), value in before) for value in after],
    }
