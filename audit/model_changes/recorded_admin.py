"""Django admin that records every change in the operations log, as `/rest` does.

`gateway.back_office` identifies the caller and refuses every write without a record.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse

from audit.model_changes.descriptions import AuditedModel, audited_model_of
from audit.model_changes.recording import Administration, recorded
from core.call import Call

_READING = ("GET", "HEAD", "OPTIONS")


class RecordedAdmin(admin.ModelAdmin):
    """A ModelAdmin that changes only its own table, which `log_descriptions` declares, and records each change.

    Tables that operations change have an `OperationAdmin` instead. An action is recorded under its name: `renew_secret`
    of webhook endpoints as `webhook-endpoints.renew-secret`.
    """

    @property
    def table(self) -> AuditedModel:
        """The declaration of the table."""
        table = audited_model_of(self.model)
        if table is None:
            raise LookupError(f"{self.model.__name__} is not in log_descriptions: its changes cannot be recorded")
        return table

    @contextmanager
    def recorded(
        self, request: HttpRequest, rows: Iterable[Model], *, action: str | None = None, may_delete: bool = False
    ) -> Iterator[Administration]:
        """Change rows inside the block, in one transaction that ends with their records."""
        operation = f"{self.table.resource}.{action}" if action else None
        call: Call = request.administering  # type: ignore[attr-defined] # set by `gateway.back_office`
        with recorded(call, operation=operation) as administration:
            for row in sorted(rows, key=lambda row: str(row.pk)):  # always in one order, or two could deadlock
                administration.watch_row(row, with_dependents=may_delete)
            request.administration = administration  # type: ignore[attr-defined]
            yield administration

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Django calls this for every row that a form has created."""
        request.administration.note_new_row(obj)  # type: ignore[attr-defined]
        return super().log_addition(request, obj, message)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        if request.method in _READING:
            return super().changeform_view(request, object_id, form_url, extra_context)
        with self.recorded(request, self._named(request, object_id)):
            return super().changeform_view(request, object_id, form_url, extra_context)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        if request.method in _READING:
            return super().delete_view(request, object_id, extra_context)
        with self.recorded(request, self._named(request, object_id), may_delete=True):
            return super().delete_view(request, object_id, extra_context)

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        action = request.POST.get("action", "")
        chosen = queryset
        if request.POST.get("select_across") != "1":
            chosen = queryset.filter(pk__in=request.POST.getlist(ACTION_CHECKBOX_NAME))
        is_deletion = action == "delete_selected"
        action = "delete" if is_deletion else action.replace("_", "-")
        with self.recorded(request, chosen, action=action, may_delete=is_deletion):
            return super().response_action(request, queryset, *args, **kwargs)

    def _named(self, request: HttpRequest, object_id: str | None) -> list[Model]:
        row = self.get_object(request, object_id) if object_id is not None else None
        return [] if row is None else [row]


class ReadOnlyAdmin(admin.ModelAdmin):
    """A ModelAdmin that shows its table and changes nothing.

    `console_view` names the console's page about a row, which shows more.
    """

    console_view = ""
    actions: Any = None

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
