"""Django admin whose rows are made, changed and deleted by operations, through the pipeline."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Field, JSONField, QuerySet
from django.http import HttpRequest, HttpResponse
from pydantic.alias_generators import to_snake

from audit.model_changes.recording import keeps_own_records
from console.access.bodies import body_of, changed_body, fields_of, members_of
from core.call import Call
from core.errors import GatewayError
from core.operation import find_operation
from gateway import pipeline

LINES = forms.Textarea(attrs={"rows": 4, "cols": 60, "spellcheck": "false"})


class OperationAdmin(admin.ModelAdmin):
    """A ModelAdmin that shows its table as Django does, and changes it by the operations of `resource`.

    Whoever holds the permission of an operation is offered it; whether it admits what they ask for is said by it alone.
    A form has a field for each member of the operation's body, which the model's column describes where there is one.
    """

    resource: ClassVar[str]
    console_view = ""
    operations: ClassVar[dict[str, str]] = {}
    """The operations with other names than `resource` and `read`, `create`, `update` or `delete`."""

    def operation(self, action: str) -> str:
        return self.operations.get(action, f"{self.resource}.{action}")

    def path_arguments(self, request: HttpRequest, row: Any) -> dict[str, str]:
        """What the path of an operation names; `row` is None for one that is to be made."""
        return {} if row is None else {"id": str(row.pk)}

    def form_fields(self, request: HttpRequest) -> dict[str, forms.Field]:
        """Fields that neither the model's column nor the schema of the member describes well enough."""
        return {}

    def find_made(self, answer: Any) -> Any:
        """The row that an operation has made, by its answer."""
        return self.model._default_manager.get(pk=answer["id"])

    def perform(self, request: HttpRequest, action: str, row: Any, document: Any = None) -> pipeline.Answer:
        """The answer of an operation; raises GatewayError. 202 says that more access waits for a second person."""
        call: Call = request.administering  # type: ignore[attr-defined] # `gateway.back_office` found out who it is
        inputs = pipeline.Inputs(arguments=self.path_arguments(request, row), query=dict, document=lambda: document)
        with keeps_own_records():
            answer = pipeline.run(find_operation(self.operation(action)), call, inputs)
        if answer.status == 202:
            messages.info(request, "This gives more access: a second person has to approve it in the console first.")
        return answer

    def _may(self, request: HttpRequest, action: str) -> bool:
        try:
            permissions = find_operation(self.operation(action)).permission
        except KeyError:
            return False
        return any(request.user.has_perm(permission) for permission in permissions)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "read")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._may(request, "create") and self.has_view_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "update")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "delete")

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        row = None if object_id is None else self.get_object(request, object_id)
        is_new = object_id is None
        if not (self.has_add_permission(request) if is_new else row and self.has_change_permission(request, row)):
            return super().changeform_view(request, object_id, form_url, extra_context)  # to look at, or refused
        action = "create" if is_new else "update"
        record = {} if is_new else self.perform(request, "read", row).body
        form, status = self._form(request, action, record), 200
        if request.method == "POST":
            body = self.body(request, action, record)
            try:
                answer = self.perform(request, action, row, body)
            except GatewayError as refusal:
                if not _tell(form, refusal):
                    raise
                status = refusal.status
            else:
                return self.answered(request, row, answer, body)
        response: HttpResponse = self._page(request, form, row)
        response.status_code = status
        return response

    def body(self, request: HttpRequest, action: str, record: dict[str, Any]) -> dict[str, Any]:
        """The body of an operation; of a row that is there only what was typed differently than it was shown."""
        operation = self.operation(action)
        return changed_body(request.POST, operation, record) if record else body_of(request.POST, operation)

    def answered(self, request: HttpRequest, row: Any, answer: pipeline.Answer, body: dict[str, Any]) -> HttpResponse:
        """Go on to what Django shows next, or to the list while a second person is waited for."""
        if answer.status == 202:
            return self.response_post_save_change(request, row)
        if row is not None:
            self.log_change(request, row, [{"changed": {"fields": list(body)}}])
            return self.response_change(request, self.get_object(request, str(row.pk)))
        made = self.find_made(answer.body)
        self.log_addition(request, made, [{"added": {}}])
        return self.response_add(request, made)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        """As Django's, but for its transaction: the record of a refusal is to stay."""
        return self._delete_view(request, object_id, extra_context)  # type: ignore[attr-defined] # django-stubs lack it

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.perform(request, "delete", obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            self.delete_model(request, row)

    def _form(self, request: HttpRequest, action: str, record: dict[str, Any]) -> forms.Form:
        operation, fields = self.operation(action), self.form_fields(request)
        form = forms.Form(request.POST if request.method == "POST" else None, initial=fields_of(record, operation))
        members = members_of(operation)
        if action == "create":
            form.fields.update({name: field for name, field in fields.items() if name not in members})
        for name, member in members.items():
            form.fields[name] = fields.get(name) or self._field(request, name, member)
            if isinstance(form.fields[name], forms.MultipleChoiceField):
                form.initial[name] = record.get(name, [])
            form.fields[name].required = action == "create" and name in _required(operation)
        return form

    def _field(self, request: HttpRequest, name: str, member: Any) -> forms.Field:
        label, help_text = to_snake(name).replace("_", " ").capitalize(), member.get("description", "")
        try:
            column = self.model._meta.get_field(to_snake(name))
        except FieldDoesNotExist:
            column = None
        match member:
            case {"type": "array"}:
                return forms.CharField(label=label, help_text=help_text, widget=LINES)
            case {"format": "date-time"}:
                day = forms.DateInput(attrs={"type": "date"})
                return forms.CharField(label=label, help_text=help_text, widget=day)
        if isinstance(column, Field) and not isinstance(column, JSONField):
            described = column.formfield() if column.is_relation else self.formfield_for_dbfield(column, request)
            if described is not None:
                return described
        return forms.CharField(label=label, help_text=help_text, max_length=member.get("maxLength"))

    def _page(self, request: HttpRequest, form: Any, row: Any) -> HttpResponse:
        fieldsets = [(None, {"fields": list(form.fields)})]
        context = {
            **self.admin_site.each_context(request),
            "title": f"{'Add' if row is None else 'Change'} {self.opts.verbose_name}",
            "subtitle": None if row is None else str(row),
            "adminform": helpers.AdminForm(form, fieldsets, {}, model_admin=self),
            "object_id": None if row is None else str(row.pk),
            "original": row,
            "is_popup": False,
            "to_field": None,
            "media": self.media + form.media,
            "inline_admin_formsets": [],
            "errors": helpers.AdminErrorList(form, []),
            "preserved_filters": self.get_preserved_filters(request),
        }
        response: HttpResponse = self.render_change_form(
            request, context, add=row is None, change=row is not None, obj=row
        )
        return response


def _required(operation: str) -> list[str]:
    shape = find_operation(operation).body
    assert shape is not None
    required: list[str] = shape.model_json_schema().get("required", [])
    return required


def _tell(form: forms.Form, refusal: GatewayError) -> bool:
    """Put what is wrong with members beside their fields; False where it is about none of them."""
    for error in refusal.errors:
        name = (error.pointer or "").removeprefix("#/").partition("/")[0]
        form.add_error(name if name in form.fields else None, error.detail)
    return bool(refusal.errors)
