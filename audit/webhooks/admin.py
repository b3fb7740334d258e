"""Webhooks in Django admin: endpoints, with their secret shown when they are made, and what could not be delivered."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import URLPattern, path, reverse

from audit.model_changes.recorded_admin import RecordedAdmin
from audit.webhooks.delivery import send_again
from audit.webhooks.models import (
    DeliveryState,
    EventGroup,
    WebhookDelivery,
    WebhookEndpoint,
    new_secret,
)
from core import shown_once


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
            send_again(delivery)
        messages.info(request, f"{len(chosen)} events are sent again.")
