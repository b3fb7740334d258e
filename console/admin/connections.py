"""Directory connections in Django admin. They are tested in the console."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from console.admin.operation_admin import OperationAdmin
from directory.models import DirectoryConnection


@admin.register(DirectoryConnection)
class DirectoryConnectionAdmin(OperationAdmin):
    resource = "directories"
    console_view = "console:connection"
    list_display = ("name", "servers", "base_dn", "enabled", "client_id", "changed_at")
    list_filter = ("enabled",)
    search_fields = ("name", "base_dn", "bind_dn")
    exclude = ("bind_password",)

    @admin.display(description="servers")
    def servers(self, row: DirectoryConnection) -> str:
        return ", ".join(row.urls)

    def form_fields(self, request: HttpRequest) -> dict[str, forms.Field]:
        hidden = forms.PasswordInput(attrs={"autocomplete": "new-password"})
        help_text = "Never shown again. Empty: the present one stays, which the same servers and account alone get."
        return {"bindPassword": forms.CharField(widget=hidden, strip=False, help_text=help_text)}

    def body(self, request: HttpRequest, action: str, record: dict[str, Any]) -> dict[str, Any]:
        body = super().body(request, action, record)
        return {name: value for name, value in body.items() if value or name != "bindPassword"}
