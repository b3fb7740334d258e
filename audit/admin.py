"""Django admin for the operations log (read-only), webhook endpoints and their deliveries."""

from collections.abc import Iterable
from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from audit.model_changes.recorded_admin import ReadOnlyAdmin, RecordedAdmin
from audit.models import (
    DeliveryState,
    EventGroup,
    OperationRecord,
    WebhookDelivery,
    WebhookEndpoint,
    new_secret,
)
from audit.webhooks.delivery import redeliver
from core import shown_once


class _FewPages(Paginator):
    """Counts only so far: counting all records would read the whole log."""

    @cached_property
    def count(self) -> int:
        records: Any = self.object_list
        return int(records.order_by()[:_MAX_COUNTED].count())


_MAX_COUNTED: Final = 1000


@admin.register(OperationRecord)
class OperationRecordAdmin(ReadOnlyAdmin):
    console_view = "console:log-record"
    list_display = ("at", "operation_and_target", "outcome_and_code", "caller", "directory")
    paginator = _FewPages
    list_filter = ("outcome", "reversible")  # other columns would be read whole for the values to offer
    search_fields = ("owner", "key_name", "operation", "target_dn", "=target_id", "=request_id", "=run_id", "code")
    search_help_text = "User name, key, operation, distinguished name, objectGUID, request id, run id or code"
    ordering = ("-id",)
    list_per_page = 50
    show_full_result_count = False
    fieldsets = (
        (None, {"fields": ("at", "completed_at", "operation", "reads", "outcome", "code", "reason")}),
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

    # The permission that the API asks for, too: Django's own `view` would be a second way to the log.
    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("audit.read_log")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("audit.read_log")

    @admin.display(description="operation", ordering="operation")
    def operation_and_target(self, record: OperationRecord) -> SafeString:
        return _lines([record.operation, record.target_dn or str(record.target_id or "")])

    @admin.display(description="outcome", ordering="outcome")
    def outcome_and_code(self, record: OperationRecord) -> SafeString:
        return _lines([record.get_outcome_display(), record.code])

    @admin.display(description="by whom", ordering="owner")
    def caller(self, record: OperationRecord) -> SafeString:
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
    """Stack the values that are there in one cell: as many columns would not fit the page."""
    return format_html_join(SafeString("<br>"), "{}", ((value,) for value in values if value)) or SafeString("—")


class EndpointForm(forms.ModelForm):
    events = forms.MultipleChoiceField(choices=EventGroup.choices, widget=forms.CheckboxSelectMultiple)

    class Meta:
        model = WebhookEndpoint
        fields = ("name", "url", "format", "events", "enabled")


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(RecordedAdmin):
    form = EndpointForm
    list_display = ("name", "url", "events_asked_for", "enabled", "waiting", "given_up")
    list_filter = ("enabled",)
    search_fields = ("name", "url")
    actions = ("renew_secret",)

    @admin.display(description="events")
    def events_asked_for(self, endpoint: WebhookEndpoint) -> str:
        return ", ".join(endpoint.events)

    @admin.display(description="waiting")
    def waiting(self, endpoint: WebhookEndpoint) -> int:
        return endpoint.deliveries.filter(state=DeliveryState.WAITING).count()

    @admin.display(description="given up")
    def given_up(self, endpoint: WebhookEndpoint) -> int:
        return endpoint.deliveries.filter(state=DeliveryState.DEAD).count()

    def response_add(
        self, request: HttpRequest, obj: WebhookEndpoint, post_url_continue: str | None = None
    ) -> HttpResponse:
        return _show_secrets(request, [obj])

    @admin.action(description="Make a new secret for the selected endpoints", permissions=["change"])
    def renew_secret(self, request: HttpRequest, queryset: QuerySet[WebhookEndpoint]) -> HttpResponse:
        endpoints = list(queryset)
        for endpoint in endpoints:
            endpoint.secret = new_secret()
            endpoint.save(update_fields=["secret"])
        return _show_secrets(request, endpoints)

    def get_urls(self) -> list[URLPattern]:
        secrets = self.admin_site.admin_view(self.secrets_view)
        return [path("secrets/", secrets, name="audit_webhookendpoint_secrets"), *super().get_urls()]

    def secrets_view(self, request: HttpRequest) -> HttpResponse:
        """Show new signing secrets, this once."""
        context = {
            **self.admin_site.each_context(request),
            "title": "The signing secret of the endpoint",
            "endpoints": shown_once.take(request),
        }
        return render(request, "admin/audit/webhookendpoint/secrets.html", context)


def _show_secrets(request: HttpRequest, endpoints: list[WebhookEndpoint]) -> HttpResponse:
    rows = [{"name": endpoint.name, "secret": endpoint.secret} for endpoint in endpoints]
    return HttpResponseRedirect(shown_once.keep(request, reverse("admin:audit_webhookendpoint_secrets"), rows))


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(RecordedAdmin):
    list_display = ("created_at", "event", "endpoint", "state", "attempts", "next_at", "error")
    list_filter = ("state", "endpoint", "event")
    search_fields = ("=id", "error")
    list_select_related = ("endpoint",)
    fields = readonly_fields = (
        *("id", "endpoint", "event", "state", "attempts", "created_at", "next_at", "delivered_at", "error", "body"),
    )
    actions = ("try_again",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.action(description="Send the selected events again", permissions=["change"])
    def try_again(self, request: HttpRequest, queryset: QuerySet[WebhookDelivery]) -> None:
        chosen = list(queryset)
        for delivery in chosen:
            redeliver(delivery)
        messages.info(request, f"{len(chosen)} events are sent again.")
