"""Django admin of saved filters."""

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from audit.model_changes.recorded_admin import ReadOnlyAdmin, RecordedAdmin
from directory.models.filters_and_templates import SavedFilter


@admin.register(SavedFilter)
class SavedFilterAdmin(RecordedAdmin, ReadOnlyAdmin):
    """For viewing and deleting. People create filters over `/rest` and `/api`, where they can try them.

    A person sees their own and shared filters, as there; a superuser sees all, to delete those that others left behind.
    """

    actions = ()
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

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if not request.user.has_perm("directory.manage_savedfilter"):
            return False
        return obj is None or obj.owner_id == request.user.pk or request.user.is_superuser
