"""Change requests in Django admin, read-only. They are decided in the console."""

from typing import Any

from django.contrib import admin
from django.db.models import Case, QuerySet, Value, When
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from approvals.models import ChangeRequest, Status
from audit.model_changes.recorded_admin import ReadOnlyAdmin


@admin.register(ChangeRequest)
class ChangeRequestAdmin(ReadOnlyAdmin):
    console_view = "console:change"
    list_display = ("what", "state", "requested", "expires_at")
    list_filter = ("status", "risk", "operation", "requester", "directory")
    search_fields = ("target_dn", "requester", "key_name", "operation", "=id", "=target_id", "=request_id")
    list_per_page = 50
    fields = (
        *("operation", "target_kind", "target_dn", "target_id", "directory", "status", "risk", "requester", "key_name"),
        *("client_address", "reason", "created_at", "expires_at"),
        *("first_approved_by", "first_approved_at", "decided_by", "decided_at", "comment"),
    )

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("approvals.decide_change")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ChangeRequest]:
        return super().get_queryset(request).defer("input", "secret")

    def get_ordering(self, request: HttpRequest) -> Any:
        """Pending requests come first."""
        return [Case(When(status=Status.PENDING, then=Value(0)), default=Value(1)).asc(), "-id"]

    @admin.display(description="change", ordering="operation")
    def what(self, held: ChangeRequest) -> SafeString:
        return _in_lines(held.operation, held.target_dn)

    @admin.display(description="status and risk", ordering="status")
    def state(self, held: ChangeRequest) -> SafeString:
        return _in_lines(held.get_status_display(), held.risk)

    @admin.display(description="asked (UTC)", ordering="created_at")
    def requested(self, held: ChangeRequest) -> SafeString:
        return _in_lines(f"{held.created_at:%Y-%m-%d %H:%M}", held.requester, held.key_name and f"key {held.key_name}")


def _in_lines(*texts: str | None) -> SafeString:
    """A cell with one text per line: more columns would not fit the page."""
    return format_html_join(SafeString("<br>"), "{}", ((text,) for text in texts if text))
