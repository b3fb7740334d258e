"""Django admin of directory connections and saved filters."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from audit.model_changes.recorded_admin import RecordedAdmin, call_of
from core.errors import GatewayError
from directory.models import DirectoryConnection
from directory.models.saved_filters import SavedFilter
from directory.queries.connection_test import functional_level_name, try_and_record


class ServersField(forms.CharField):
    """Servers as people write them: one URL a line."""

    widget = forms.Textarea

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override]
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return list(initial or []) != self.to_python(data)


class DirectoryConnectionForm(forms.ModelForm):
    urls = ServersField(
        label="Servers",
        widget=forms.Textarea(attrs={"rows": 3, "cols": 60, "placeholder": "ldaps://dc1.corp.example.com"}),
        help_text="Domain controllers in order of preference, one URL a line. The host must be a name that the "
        "server's certificate carries. Without StartTLS: ldaps://; with StartTLS: ldap://.",
    )
    bind_password = forms.CharField(
        label="Bind password",
        required=False,
        strip=False,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
        help_text="Encrypted in the database and never shown again. Leave empty to keep the present one, "
        "unless the servers, their authority, StartTLS or the bind DN change.",
    )

    class Meta:
        model = DirectoryConnection
        fields = ("name", "enabled", "urls", "start_tls", "ca_certificate", "base_dn", "bind_dn", "bind_password")

    def clean_bind_password(self) -> str:
        given: str = self.cleaned_data["bind_password"]
        self.instance.bind_password_given = bool(given)
        if given:
            return given
        if self.instance._state.adding:
            raise ValidationError("A new connection needs the password of its account.", code="required")
        kept: str = self.instance.bind_password
        return kept


@admin.register(DirectoryConnection)
class DirectoryConnectionAdmin(RecordedAdmin):
    form = DirectoryConnectionForm
    list_display = ("name", "servers", "base_dn", "enabled", "changed_at")
    list_filter = ("enabled",)
    search_fields = ("name", "base_dn", "bind_dn")
    readonly_fields = ("id", "client_id", "created_at", "changed_at")
    change_form_template = "admin/directory/directoryconnection/change_form.html"
    fieldsets = (
        (None, {"fields": ("name", "enabled")}),
        (
            "Servers",
            {
                "fields": ("urls", "start_tls", "ca_certificate"),
                "description": "The gateway never sends a password over an unencrypted or unverified connection.",
            },
        ),
        (
            "Account",
            {
                "fields": ("base_dn", "bind_dn", "bind_password"),
                "description": "After saving, <em>Test connection</em> tells whether all of this works.",
            },
        ),
        ("Identification", {"fields": ("id", "client_id", "created_at", "changed_at")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: DirectoryConnection | None = None) -> Any:
        """Without the permission to change, a form shows its fields as text: the password is not among them then."""
        may_write = self.has_add_permission(request) if obj is None else self.has_change_permission(request, obj)
        if may_write:
            return super().get_fieldsets(request, obj)
        return [
            (name, {**options, "fields": tuple(field for field in options["fields"] if field != "bind_password")})
            for name, options in super().get_fieldsets(request, obj)
        ]

    @admin.display(description="servers")
    def servers(self, row: DirectoryConnection) -> str:
        return ", ".join(row.urls)

    def get_urls(self) -> list[URLPattern]:
        test = path(
            "<uuid:object_id>/test/",
            self.admin_site.admin_view(
                method_decorator(require_POST)(DirectoryConnectionAdmin.test_view).__get__(self)
            ),
            name="directory_directoryconnection_test",
        )
        return [test, *super().get_urls()]

    def test_view(self, request: HttpRequest, object_id: Any) -> HttpResponse:
        """Try the saved connection and show what was reached, or the reason why not."""
        row = self.get_object(request, str(object_id))
        if row is None:
            raise Http404
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        try:
            report = try_and_record(call_of(request), row)
        except GatewayError as refusal:
            self.message_user(request, f"{refusal.detail}.", messages.ERROR)
            return HttpResponseRedirect(
                reverse("admin:directory_directoryconnection_change", args=[row.pk], current_app=self.admin_site.name)
            )
        context = {
            **self.admin_site.each_context(request),
            "title": f"Test of {row.name}",
            "opts": self.model._meta,
            "connection": row,
            "report": report,
            "functional_level": functional_level_name(report["functionalLevel"]),
        }
        return TemplateResponse(request, "admin/directory/directoryconnection/test.html", context)


@admin.register(SavedFilter)
class SavedFilterAdmin(RecordedAdmin):
    """To look at and to tidy up. They are made where they can be tried: over `/rest` and `/api`.

    A person sees what they see there, their own and shared ones; a superuser sees all, to remove what others left.
    """

    list_display = ("name", "kind", "filter", "base_dn", "owner", "shared", "connection")
    list_filter = ("connection", "shared", "kind")
    list_select_related = ("owner", "connection")
    search_fields = ("name", "filter", "base_dn", "owner__username")
    search_help_text = "Name, filter, base or owner"
    fields = (
        *("name", "connection", "owner", "shared", "kind", "filter", "base_dn", "base_guid", "scope", "attributes"),
        *("created_at", "changed_at"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[SavedFilter]:
        rows: QuerySet[SavedFilter] = super().get_queryset(request)
        if request.user.is_superuser:
            return rows
        return rows.filter(Q(owner_id=request.user.pk) | Q(shared=True))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return any(request.user.has_perm(f"directory.{name}") for name in ("run_savedfilter", "manage_savedfilter"))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if not request.user.has_perm("directory.manage_savedfilter"):
            return False
        return obj is None or obj.owner_id == request.user.pk or request.user.is_superuser
