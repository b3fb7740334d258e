"""The operations log in Django admin: to look at, never to change."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from audit.model_changes.recorded_admin import ReadOnlyAdmin
from audit.models import OperationRecord
from audit.webhooks import admin as webhook_admin  # noqa: F401 - registers itself


@admin.register(OperationRecord)
class OperationRecordAdmin(ReadOnlyAdmin):
    console_view = "console:log-record"
    list_display = ("at", "what", "ended", "who", "directory")
    list_filter = ("outcome", "surface", "directory", "reversible")
    search_fields = ("owner", "key_name", "operation", "target_dn", "=target_id", "=request_id", "=run_id", "code")
    search_help_text = "User name, key, operation, distinguished name, objectGUID, request id, run id or code"
    date_hierarchy = "at"
    ordering = ("-id",)
    list_per_page = 50
    show_full_result_count = False
    fieldsets = (
        (None, {"fields": ("at", "completed_at", "operation", "outcome", "code", "reason")}),
        ("By whom", {"fields": ("owner", "key_name", "credential_id", "surface", "client_address", "request_id")}),
        (
            "What",
            {
                "fields": (
                    "directory",
                    "target_kind",
                    "target_dn",
                    "target_id",
                    "change_table",
                    "raised_access",
                    "reversible",
                    "server",
                )
            },
        ),
        ("Belongs to", {"fields": ("change_request_id", "approved_by", "run_id", "batch_index")}),
    )

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("audit.read_log")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("audit.read_log")

    @admin.display(description="operation", ordering="operation")
    def what(self, record: OperationRecord) -> SafeString:
        return _lines([record.operation, record.target_dn or str(record.target_id or "")])

    @admin.display(description="outcome", ordering="outcome")
    def ended(self, record: OperationRecord) -> SafeString:
        return _lines([record.get_outcome_display(), record.code])

    @admin.display(description="by whom", ordering="owner")
    def who(self, record: OperationRecord) -> SafeString:
        key = f"key {record.key_name}" if record.key_name else None
        return _lines([record.owner, key, record.client_address])

    @admin.display(description="changes")
    def change_table(self, record: OperationRecord) -> SafeString:
        if not record.changes:
            return SafeString("—")
        rows = format_html_join(
            "",
            '<tr><th scope="row">{}</th><td>{}</td><td>{}</td></tr>',
            ((change["attribute"], _lines(change["before"]), _lines(change["after"])) for change in record.changes),
        )
        return format_html(
            '<div class="scroll" role="region" aria-label="Changes" tabindex="0"><table class="facts">'
            '<thead><tr><th scope="col">Attribute</th>'
            '<th scope="col">Before</th><th scope="col">After</th></tr></thead><tbody>{}</tbody></table></div>',
            rows,
        )


def _lines(values: Iterable[str | None]) -> SafeString:
    """Values one below the other, without those that are not there: as many columns would not fit the page."""
    return format_html_join(SafeString("<br>"), "{}", ((value,) for value in values if value)) or SafeString("—")
