"""API keys, their links and roles in Django admin. A new key's value is shown by the console, once."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from console.access.bodies import known_objects
from console.admin.operation_admin import OperationAdmin
from core import shown_once
from directory.models import DirectoryConnection
from gateway import pipeline
from keys.models import ApiKey, Link, Person, Role
from keys.permission_catalogue import is_grantable, named


@admin.register(ApiKey)
class ApiKeyAdmin(OperationAdmin):
    resource = "api-keys"
    console_view = "console:key"
    list_display = ("name", "owner", "role", "state", "supervision_level", "expires_at", "last_used_at")
    list_filter = ("supervision_level", "role", "links__connection")
    list_select_related = ("owner", "role")
    search_fields = ("name", "owner__username", "role__name", "=lookup_id", "=links__client_id")
    search_help_text = "Name, owner, role, look-up id (the 12 characters after dgk_) or Client ID"
    date_hierarchy = "created_at"
    actions = ("revoke",)

    @admin.display(description="state")
    def state(self, key: ApiKey) -> str:
        return key.state

    def form_fields(self, request: HttpRequest) -> dict[str, forms.Field]:
        owners = Person.objects.filter(is_active=True)
        return {"owner": forms.ModelChoiceField(owners, to_field_name="username", initial=request.user.get_username())}

    def answered(self, request: HttpRequest, row: Any, answer: pipeline.Answer, body: dict[str, Any]) -> HttpResponse:
        response = super().answered(request, row, answer, body)
        if answer.body and "value" in answer.body:
            place = reverse("console:key-value", args=[answer.body["id"]])
            shown = {"template": "key_made", "value": answer.body["value"]}
            return HttpResponseRedirect(shown_once.keep(request, place, shown))
        return response

    @admin.action(description="Revoke the selected API keys", permissions=["change"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        for key in keys:
            self.perform(request, "revoke", key)
            self.log_change(request, key, "Revoked.")


@admin.register(Link)
class LinkAdmin(OperationAdmin):
    """A link is made or removed, never changed: its Client ID stands in somebody's configuration."""

    resource = "api-keys"
    operations = {"create": "api-keys.create-link", "update": "", "delete": "api-keys.delete-link"}
    list_display = ("api_key", "connection", "client_id", "created_at")
    list_filter = ("connection",)
    list_select_related = ("api_key", "connection")
    search_fields = ("api_key__name", "=client_id")

    def path_arguments(self, request: HttpRequest, row: Link | None) -> dict[str, str]:
        if row is None:
            return {"id": request.POST.get("key", "")}
        return {"id": str(row.api_key_id), "clientId": str(row.client_id)}

    def form_fields(self, request: HttpRequest) -> dict[str, forms.Field]:
        return {
            "key": forms.ModelChoiceField(ApiKey.objects.filter(revoked_at=None)),
            "directory": forms.ModelChoiceField(DirectoryConnection.objects.all()),
        }

    def find_made(self, answer: Any) -> Link:
        return Link.objects.get(client_id=answer["clientId"])


@admin.register(Role)
class RoleAdmin(OperationAdmin):
    resource = "roles"
    console_view = "console:role"
    list_display = ("name", "description", "permission_count", "scope_names", "key_count")
    list_filter = ("permissions__content_type__app_label",)
    search_fields = ("name", "description", "permissions__codename")
    search_help_text = "Name, description or permission"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Role]:
        rows: QuerySet[Role] = super().get_queryset(request)
        return rows.annotate(keys=Count("api_keys", distinct=True), given=Count("permissions", distinct=True))

    @admin.display(description="permissions")
    def permission_count(self, role: Any) -> int:
        return int(role.given)

    @admin.display(description="scopes")
    def scope_names(self, role: Role) -> str:
        return "; ".join(scope["distinguishedName"] for scope in role.scopes) or "everything"

    @admin.display(description="keys", ordering="keys")
    def key_count(self, role: Any) -> int:
        return int(role.keys)

    def form_fields(self, request: HttpRequest) -> dict[str, forms.Field]:
        """The permissions that the person may give."""
        grantable = named(Permission.objects.filter(is_grantable())).order_by("content_type__app_label", "name")
        choices = [
            (item.full_name, f"{item.name} ({item.full_name})")
            for item in grantable
            if request.user.has_perm(item.full_name)
        ]
        return {"permissions": forms.MultipleChoiceField(choices=choices, widget=forms.CheckboxSelectMultiple)}

    def body(self, request: HttpRequest, action: str, record: dict[str, Any]) -> dict[str, Any]:
        """A scope that was there before stays the object it is, whatever is called so now."""
        body = super().body(request, action, record)
        if record and "scopes" in body:
            body["scopes"] = known_objects(body["scopes"], record["scopeObjects"])
        return body
