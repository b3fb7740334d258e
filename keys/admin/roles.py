"""Roles in Django admin."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.db.models import Count, ManyToManyField
from django.http import HttpRequest

from audit.model_changes.recorded_admin import RecordedAdmin
from keys.admin.fields import (
    PermissionsField,
    ScopesField,
    full_name,
    held_by,
    is_superuser,
    may_grant,
    names_of,
    resolve_lines,
)
from keys.models import Role
from keys.models.assignable import is_grantable


class RoleForm(forms.ModelForm):
    """`scopes` are typed as names and kept by objectGUID."""

    scopes = ScopesField(whom="A key with this role reaches")

    class Meta:
        model = Role
        fields = ("name", "description", "permissions")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "scopes" in self.fields:  # not on a page that only shows the role
            self.initial["scopes"] = names_of(self.instance.scopes)

    def clean_scopes(self) -> list[dict[str, str]]:
        return resolve_lines(self.cleaned_data["scopes"], known=self.instance.scopes)

    def save(self, commit: bool = True) -> Any:
        self.instance.scopes = self.cleaned_data["scopes"]
        return super().save(commit)


@admin.register(Role)
class RoleAdmin(RecordedAdmin):
    form = RoleForm
    list_display = ("name", "description", "permission_count", "scope_names", "key_count")
    list_filter = ("permissions__content_type__app_label",)
    search_fields = ("name", "description", "permissions__codename")
    search_help_text = "Name, description or permission"
    filter_horizontal = ("permissions",)
    readonly_fields = ("key_count", "created_at", "changed_at")
    fieldsets = (
        (None, {"fields": ("name", "description")}),
        (
            "Limits",
            {
                "description": "A key with this role may do what is chosen here <em>and</em> its owner may do at the "
                "time of each request. A change holds for every key with this role from its next request on.",
                "fields": ("permissions", "scopes"),
            },
        ),
        ("Use", {"fields": ("key_count", "created_at", "changed_at")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        return fieldsets if obj is not None else fieldsets[:-1]  # a new role has no use yet

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(keys=Count("api_keys", distinct=True))

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        # `scopes` is the form's own: the model's column is not editable.
        fields = kwargs.pop("fields", None)
        if fields is not None:
            kwargs["fields"] = [name for name in fields if name != "scopes"]
        return super().get_form(request, obj, change, **kwargs)

    def formfield_for_manytomany(
        self,
        db_field: ManyToManyField,
        request: Any,
        **kwargs: Any,
    ) -> Any:
        if db_field.name == "permissions":
            permissions = Permission.objects.filter(is_grantable()).select_related("content_type")
            permissions = permissions.order_by("content_type__app_label", "name")
            if not is_superuser(request):
                held = held_by(request)
                permissions = permissions.filter(pk__in=[item.pk for item in permissions if full_name(item) in held])
            kwargs |= {"queryset": permissions, "form_class": PermissionsField}
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whoever may not grant all that a role holds may not widen its scopes either."""
        if not super().has_change_permission(request, obj):
            return False
        return obj is None or may_grant(request, obj.permissions.select_related("content_type"))

    @admin.display(description="permissions")
    def permission_count(self, role: Role) -> int:
        return role.permissions.count()

    @admin.display(description="scopes")
    def scope_names(self, role: Role) -> str:
        return "; ".join(names_of(role.scopes)) or "everything"

    @admin.display(description="keys", ordering="keys")
    def key_count(self, role: Any) -> int:
        return getattr(role, "keys", 0)
