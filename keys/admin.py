"""Keys, roles and people in Django admin, read-only but for two flags: who is a superuser and who may enter here."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group
from django.db.models import Count, QuerySet
from django.http import HttpRequest

from audit.model_changes.recorded_admin import ReadOnlyAdmin, RecordedAdmin
from keys.models import ApiKey, Link, Person, Role
from keys.models.people import kept_scopes

_EDITABLE = ("is_superuser", "is_staff")


@admin.register(Person)
class PersonAdmin(RecordedAdmin, ReadOnlyAdmin):
    """The console changes everything else about people."""

    console_view = "console:person"
    console_identifier = "public_id"
    list_display = ("username", "display_name", "directory", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = ("is_active", "is_staff", "is_superuser", "connection", "groups")
    list_select_related = ("connection",)
    search_fields = ("username", "display_name", "email")
    search_help_text = "User name, display name or e-mail address"
    ordering = ("username",)
    readonly_fields = (
        *("username", "display_name", "email", "directory", "object_guid", "is_active"),
        *("groups", "last_login", "date_joined"),
    )
    fields = (*_EDITABLE, *readonly_fields)

    @admin.display(description="directory", ordering="connection__name")
    def directory(self, person: Person) -> str:
        return str(person.connection) if person.connection else "local account"

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return isinstance(request.user, Person) and request.user.is_superuser


admin.site.unregister(Group)


@admin.register(Group)
class PermissionGroupAdmin(ReadOnlyAdmin):
    list_display = ("name", "scopes")
    search_fields = ("name",)
    fields = ("name", "permissions", "scopes")

    @admin.display(description="scopes")
    def scopes(self, group: Group) -> str:
        return "; ".join(scope["distinguishedName"] for scope in kept_scopes(group)) or "everything"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("keys.view_person")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    console_view = "console:key"
    list_display = ("name", "owner", "role", "state", "supervision_level", "expires_at", "last_used_at")
    list_filter = ("supervision_level", "role", "links__connection")
    list_select_related = ("owner", "role")
    search_fields = ("name", "owner__username", "role__name", "=lookup_id", "=links__client_id")
    search_help_text = "Name, owner, role, look-up id (the 12 characters after dgk_) or Client ID"
    date_hierarchy = "created_at"
    exclude = ("digest", "previous_digest")

    @admin.display(description="state")
    def state(self, key: ApiKey) -> str:
        return key.state


@admin.register(Link)
class LinkAdmin(ReadOnlyAdmin):
    list_display = ("api_key", "connection", "client_id", "created_at")
    list_filter = ("connection",)
    list_select_related = ("api_key", "connection")
    search_fields = ("api_key__name", "=client_id")


@admin.register(Role)
class RoleAdmin(ReadOnlyAdmin):
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
