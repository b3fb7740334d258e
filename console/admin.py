"""The tables of Django admin that operations change: forms over those operations, with no rules of their own."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.auth.models import Permission
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Count, Field, JSONField, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from pydantic.alias_generators import to_snake

from audit.model_changes.recording import keeps_own_records
from console.shared.forms import body_from_form, body_members, changed_body, form_values, keep_known_ids
from core import shown_once
from core.call import Call
from core.errors import GatewayError
from core.operation import find_operation
from directory.models import DirectoryConnection
from gateway import pipeline
from keys.models import ApiKey, Link, Person, Role
from keys.permission_catalogue import grantable_condition, with_full_names

LINES_WIDGET = forms.Textarea(attrs={"rows": 4, "cols": 60, "spellcheck": "false"})


class OperationAdmin(admin.ModelAdmin):
    """A ModelAdmin that lists its table as Django does and changes it through the operations of `resource`.

    It offers an operation to everybody who holds its permission; the operation alone decides about each call. A form
    has a field for each member of the operation's body, described by the model's column of that name, if any.
    """

    resource: ClassVar[str]
    console_view = ""

    def operation(self, action: str) -> str:
        """The id of the operation for `read`, `create`, `update`, `delete` or an action of the resource."""
        return f"{self.resource}.{action}"

    def path_arguments(self, request: HttpRequest, row: Any) -> dict[str, str]:
        """The arguments of an operation's path; `row` is None for a creation."""
        return {} if row is None else {"id": str(row.pk)}

    def form_fields(self, request: HttpRequest) -> dict[str, forms.Field]:
        """Fields by member, where neither the model's column nor the member's schema describes them well enough."""
        return {}

    def find_made(self, answer: Any) -> Any:
        """The row that a creation answered with."""
        return self.model._default_manager.get(pk=answer["id"])

    def perform(self, request: HttpRequest, action: str, row: Any, document: Any = None) -> pipeline.Answer:
        """Call an operation; raises GatewayError. Status 202 means that a second person has to approve more access."""
        call: Call = request.administering  # type: ignore[attr-defined] # set by `gateway.back_office`
        inputs = pipeline.Inputs(arguments=self.path_arguments(request, row), query=dict, document=lambda: document)
        with keeps_own_records():
            answer = pipeline.run(find_operation(self.operation(action)), call, inputs)
        if answer.status == 202:
            messages.info(request, "This gives more access: a second person has to approve it in the console first.")
        return answer

    def _may_call(self, request: HttpRequest, action: str) -> bool:
        try:
            permissions = find_operation(self.operation(action)).permission
        except KeyError:
            return False
        return any(request.user.has_perm(permission) for permission in permissions)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_call(request, "read")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._may_call(request, "create") and self.has_view_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_call(request, "update")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_call(request, "delete")

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
            return super().changeform_view(request, object_id, form_url, extra_context)  # read-only, or refused
        action = "create" if is_new else "update"
        record = {} if is_new else self.perform(request, "read", row).body
        form, status = self._form(request, action, record), 200
        if request.method == "POST":
            body = self.body(request, action, record)
            try:
                answer = self.perform(request, action, row, body)
            except GatewayError as refusal:
                if not refusal.errors:  # it is about no member of the body
                    raise
                _add_errors(form, refusal)
                status = refusal.status
            else:
                return self.answered(request, row, answer, body)
        response: HttpResponse = self._page(request, form, row)
        response.status_code = status
        return response

    def body(self, request: HttpRequest, action: str, record: dict[str, Any]) -> dict[str, Any]:
        """The body of an operation; for an existing row only the members that were changed."""
        operation = self.operation(action)
        return changed_body(request.POST, operation, record) if record else body_from_form(request.POST, operation)

    def answered(self, request: HttpRequest, row: Any, answer: pipeline.Answer, body: dict[str, Any]) -> HttpResponse:
        """Redirect as Django does, or to the list while the change waits for a second person."""
        if answer.status == 202:
            return self.response_post_save_change(request, row)
        if row is not None:
            self.log_change(request, row, [{"changed": {"fields": list(body)}}])
            return self.response_change(request, self.get_object(request, str(row.pk)))
        made = self.find_made(answer.body)
        self.log_addition(request, made, [{"added": {}}])
        return self.response_add(request, made)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        """Django's view without its transaction, which would roll back the log record of a refusal."""
        return self._delete_view(request, object_id, extra_context)  # type: ignore[attr-defined] # django-stubs lack it

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.perform(request, "delete", obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            self.delete_model(request, row)

    def _form(self, request: HttpRequest, action: str, record: dict[str, Any]) -> forms.Form:
        operation, fields = self.operation(action), self.form_fields(request)
        form = forms.Form(request.POST if request.method == "POST" else None, initial=form_values(record, operation))
        members = body_members(operation)
        if action == "create":
            form.fields.update({name: field for name, field in fields.items() if name not in members})
        for name, member in members.items():
            form.fields[name] = fields.get(name) or self._field(request, name, member)
            if isinstance(form.fields[name], forms.MultipleChoiceField):
                form.initial[name] = record.get(name, [])
            form.fields[name].required = action == "create" and member["isRequired"]
        return form

    def _field(self, request: HttpRequest, name: str, member: Any) -> forms.Field:
        label, help_text = to_snake(name).replace("_", " ").capitalize(), member.get("description", "")
        try:
            column = self.model._meta.get_field(to_snake(name))
        except FieldDoesNotExist:
            column = None
        match member:
            case {"type": "array"}:
                return forms.CharField(label=label, help_text=help_text, widget=LINES_WIDGET)
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


def _add_errors(form: forms.Form, refusal: GatewayError) -> None:
    """Add a refusal's errors to their fields, or to the form if it has no such field."""
    for error in refusal.errors:
        name = (error.pointer or "").removeprefix("#/").partition("/")[0]
        form.add_error(name if name in form.fields else None, error.detail)


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
            # The console's page shows the value once; a message of Django's would stay in the session or a cookie.
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
    """Links are created and deleted, never changed: an integration is configured with the Client ID."""

    resource = "api-keys"
    list_display = ("api_key", "connection", "client_id", "created_at")
    list_filter = ("connection",)
    list_select_related = ("api_key", "connection")
    search_fields = ("api_key__name", "=client_id")

    def operation(self, action: str) -> str:
        return super().operation(action if action == "read" else f"{action}-link")

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
        """The grantable permissions that the person holds: nobody can give others."""
        grantable = with_full_names(Permission.objects.filter(grantable_condition())).order_by(
            "content_type__app_label", "name"
        )
        choices = [
            (item.full_name, f"{item.name} ({item.full_name})")
            for item in grantable
            if request.user.has_perm(item.full_name)
        ]
        return {"permissions": forms.MultipleChoiceField(choices=choices, widget=forms.CheckboxSelectMultiple)}

    def body(self, request: HttpRequest, action: str, record: dict[str, Any]) -> dict[str, Any]:
        """Scopes that were there keep their ids: another object may have taken the name since."""
        body = super().body(request, action, record)
        if record and "scopes" in body:
            body["scopes"] = keep_known_ids(body["scopes"], record["scopeObjects"])
        return body


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
