"""People and their groups in Django admin, read-only but for two flags: who is a superuser and who may enter here."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group
from django.http import HttpRequest

from audit.model_changes.recorded_admin import ReadOnlyAdmin, RecordedAdmin
from keys.models import Person
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
