"""API keys in Django admin: made, linked, rotated and revoked here; their value is shown once."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from audit.model_changes.recorded_admin import RecordedAdmin
from core import shown_once
from core.network.allowed_networks import normalise_networks
from core.shapes import parse_guid
from keys.admin.fields import LinesField, full_name, is_superuser, without_delete
from keys.api_keys import lifecycle
from keys.models import ApiKey, Level, Link, Person
from keys.people.account_status import require_present
from keys.permissions.effective import effective_permissions, permissions_of_person


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        return (("active", "Active"), ("expired", "Expired"), ("revoked", "Revoked"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        expired = Q(expires_at__lte=timezone.now())
        conditions = {
            "active": Q(revoked_at__isnull=True) & ~expired,
            "expired": Q(revoked_at__isnull=True) & expired,
            "revoked": Q(revoked_at__isnull=False),
        }
        return queryset.filter(conditions.get(self.value() or "", Q()))


class ApiKeyForm(forms.ModelForm):
    allowed_addresses = LinesField(
        required=False,
        help_text="Addresses and CIDR blocks, one a line: 192.0.2.10, 192.0.2.0/24, 2001:db8:12::/48. "
        "From anywhere else the key is refused. Empty: it works from everywhere.",
    )

    class Meta:
        model = ApiKey
        fields = (
            *("name", "owner", "role", "expires_at", "allowed_addresses"),
            *("supervision_level", "passwords_to_requester"),
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "expires_at" in self.fields:  # not for who may only look
            for widget, part in zip(self.fields["expires_at"].widget.widgets, ("date", "time"), strict=True):
                widget.attrs["aria-label"] = f"Expires: {part}"

    def clean_allowed_addresses(self) -> list[str]:
        try:
            return normalise_networks(self.cleaned_data["allowed_addresses"])
        except ValueError as error:
            raise ValidationError(str(error)) from None

    def clean_expires_at(self) -> Any:
        expires_at = self.cleaned_data["expires_at"]
        if expires_at is not None and "expires_at" in self.changed_data and expires_at <= timezone.now():
            raise ValidationError("This is in the past; to end a key now, revoke it.")
        return expires_at


class LinkInline(admin.StackedInline):
    """A link is made or removed, never changed: its Client ID stands in somebody's configuration."""

    model = Link
    extra = 0
    readonly_fields = ("client_id", "created_at")
    fields = ("connection", "client_id", "created_at")
    verbose_name_plural = "directory links: what the key may manage; integrations send the Client ID in X-Client-Id"

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_foreignkey(db_field, request, **kwargs)
        if db_field.name == "connection" and field is not None:
            field.widget.attrs["aria-label"] = "Directory"  # in a table only the column's heading tells
        return field

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        return without_delete(super().formfield_for_dbfield(db_field, request, **kwargs))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None or _may_change(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is not None and _may_change(request, obj)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("keys.view_apikey") or request.user.has_perm("keys.change_apikey")


class GraceForm(forms.Form):
    """How long the value before stays valid."""

    grace = forms.TypedChoiceField(
        label="The old value stays valid for",
        coerce=int,
        choices=((0, "no time at all"), (3600, "an hour"), (86400, "a day"), (604800, "a week")),
        help_text="Time to put the new value into the integration's configuration.",
    )


def _may_change(request: HttpRequest, key: ApiKey) -> bool:
    """A key acts as its owner: only they, or a superuser, may make it say something new. A revoked one is history."""
    if key.revoked_at is not None or not request.user.has_perm("keys.change_apikey"):
        return False
    return is_superuser(request) or key.owner_id == request.user.pk


@admin.register(ApiKey)
class ApiKeyAdmin(RecordedAdmin):
    form = ApiKeyForm
    inlines = (LinkInline,)
    list_display = ("name", "owner", "role", "state", "level", "expires_at", "last_used_at", "last_used_address")
    list_filter = (StateFilter, "supervision_level", "role", "links__connection")
    list_select_related = ("owner", "role")
    search_fields = ("name", "owner__username", "role__name", "=lookup_id", "=links__client_id")
    search_help_text = "Name, owner, role, look-up id (the 12 characters after dgk_) or Client ID"
    date_hierarchy = "created_at"
    radio_fields = {"supervision_level": admin.VERTICAL}
    actions = ("revoke_selected", "rotate_selected")
    change_form_template = "admin/keys/apikey/change_form.html"
    readonly_fields = (
        "state", "lookup_id", "previous_valid_until", "created_at", "created_by", "revoked_at", "revoked_by",
        "last_used_at", "last_used_address", "permission_table",
    )  # fmt: skip
    _settings: ClassVar[tuple[Any, ...]] = (
        (None, {"fields": ("name", "owner", "role", "expires_at")}),
        (
            "Allowed addresses",
            {"fields": ("allowed_addresses",)},
        ),
        (
            "Supervision level",
            {
                "description": format_html(
                    "<dl>{}</dl>",
                    format_html_join("", "<dt>{}</dt><dd>{}</dd>", ((level.label, level.meaning) for level in Level)),
                ),
                "fields": ("supervision_level", "passwords_to_requester"),
            },
        ),
    )
    add_fieldsets = _settings
    fieldsets: ClassVar[Any] = (
        *_settings,
        ("What the key may do now", {"fields": ("permission_table",)}),
        (
            "Life of the key",
            {
                "fields": (
                    "state", "lookup_id", "created_at", "created_by", "last_used_at", "last_used_address",
                    "previous_valid_until", "revoked_at", "revoked_by",
                )
            },
        ),
    )  # fmt: skip

    @admin.display(description="state")
    def state(self, key: ApiKey) -> str:
        return key.state

    @admin.display(description="supervision", ordering="supervision_level")
    def level(self, key: ApiKey) -> str:
        return str(Level(key.supervision_level).label)

    @admin.display(description="permissions")
    def permission_table(self, key: ApiKey) -> SafeString:
        """Effective permissions beside what the role gives and what the owner holds."""
        owner = key.owner
        facts = {"is_active": owner.is_active, "is_superuser": owner.is_superuser}
        held = permissions_of_person(owner.pk, **facts)
        effective = effective_permissions(key.role_id, owner_id=owner.pk, **facts)
        rows = (
            (
                permission.name,
                full_name(permission),
                _yes_no(full_name(permission) in held),
                _yes_no(full_name(permission) in effective),
            )
            for permission in key.role.permissions.select_related("content_type").order_by("name")
        )
        return format_html(
            '<table><thead><tr><th scope="col">Given by the role {}</th><th scope="col">Held by {}</th>'
            '<th scope="col">The key may</th></tr></thead><tbody>{}</tbody></table>',
            key.role.name,
            owner.username,
            format_html_join("", "<tr><td>{} ({})</td><td>{}</td><td>{}</td></tr>", rows),
        )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.add_fieldsets if obj is None else super().get_fieldsets(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        fields = tuple(super().get_readonly_fields(request, obj))
        return fields if obj is None else (*fields, "owner")

    def get_inlines(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.inlines

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "owner":
            owners = Person.objects.filter(is_active=True)
            kwargs["queryset"] = owners if is_superuser(request) else owners.filter(pk=_person_id(request))
            kwargs["initial"] = request.user.pk
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        return without_delete(super().formfield_for_dbfield(db_field, request, **kwargs))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or _may_change(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or not lifecycle.is_in_use(obj))

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        # Deleting many at once would not look at whether each is in use.
        return {name: action for name, action in super().get_actions(request).items() if name != "delete_selected"}

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        if not change:
            value = lifecycle.issue(obj, created_by_id=_person_id(request))
            request.issued_value = value  # type: ignore[attr-defined]
        elif form.changed_data:
            # Only what was changed: a revocation or a rotation at the same moment is not written over.
            obj.save(update_fields=[name for name in form.changed_data if name in ApiKeyForm.Meta.fields])

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        return _show_values(request, [(obj, request.issued_value)])  # type: ignore[attr-defined]

    @admin.action(description="Revoke the selected API keys", permissions=["change"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse:
        return _redirect_with_ids("admin:keys_apikey_revoke", queryset)

    @admin.action(description="Rotate the selected API keys", permissions=["change"])
    def rotate_selected(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse:
        return _redirect_with_ids("admin:keys_apikey_rotate", queryset)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("revoke/", view(self.revoke_view), name="keys_apikey_revoke"),
            path("rotate/", view(self.rotate_view), name="keys_apikey_rotate"),
            path("values/", view(self.values_view), name="keys_apikey_values"),
            *super().get_urls(),
        ]

    def revoke_view(self, request: HttpRequest) -> HttpResponse:
        """Ask, then revoke. Anybody who may change keys may: taking away is always safe."""
        keys = self._chosen(request)
        if request.method != "POST":
            return self._confirm(request, keys, action="Revoke", template="revoke")
        with self.recorded(request, keys, action="revoke"):
            for key in keys:
                if lifecycle.revoke(key, revoked_by_id=_person_id(request)):
                    self.log_change(request, key, "Revoked.")
        messages.success(request, f"Revoked: {', '.join(key.name for key in keys)}")
        return HttpResponseRedirect(reverse("admin:keys_apikey_changelist"))

    def rotate_view(self, request: HttpRequest) -> HttpResponse:
        """Ask for how long the old value shall stay valid, then show the new one."""
        keys = self._chosen(request)
        if not all(_may_change(request, key) for key in keys):
            raise PermissionDenied
        form = GraceForm(request.POST if request.method == "POST" else None)
        if not form.is_valid():
            return self._confirm(request, keys, action="Rotate", template="rotate", form=form)
        grace = timedelta(seconds=form.cleaned_data["grace"])
        for key in keys:  # all of them before the first value is made, which would be lost
            require_present(key.owner)
        with self.recorded(request, keys, action="rotate"):
            rotated = [(key, lifecycle.rotate(key, grace=grace)) for key in keys]
            for key, _ in rotated:
                self.log_change(request, key, "Rotated.")
            return _show_values(request, rotated)

    def values_view(self, request: HttpRequest) -> HttpResponse:
        """Show new values, this once."""
        values = shown_once.take(request)
        context = {**self.admin_site.each_context(request), "title": "The value of the key", "values": values}
        return render(request, "admin/keys/apikey/values.html", context)

    def _chosen(self, request: HttpRequest) -> list[ApiKey]:
        if not request.user.has_perm("keys.change_apikey"):
            raise PermissionDenied
        ids = [parsed for text in request.GET.get("ids", "").split(",") if (parsed := parse_guid(text))]
        keys = list(ApiKey.objects.filter(pk__in=ids, revoked_at__isnull=True).select_related("owner"))
        if not keys:
            raise PermissionDenied("None of these keys is there and valid.")
        return keys

    def _confirm(
        self, request: HttpRequest, keys: list[ApiKey], *, action: str, template: str, form: Any = None
    ) -> HttpResponse:
        resource = "this API key" if len(keys) == 1 else f"these {len(keys)} API keys"
        context = {
            **self.admin_site.each_context(request),
            "title": f"{action} {resource}?",
            "keys": keys,
            "form": form,
        }
        return render(request, f"admin/keys/apikey/{template}.html", context)


def _person_id(request: HttpRequest) -> int:
    """The signed-in person; the admin lets nobody else in."""
    if request.user.pk is None:
        raise PermissionDenied
    return request.user.pk


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"


def _redirect_with_ids(view: str, queryset: QuerySet[ApiKey]) -> HttpResponse:
    ids = ",".join(str(key.pk) for key in queryset)
    return HttpResponseRedirect(f"{reverse(view)}?ids={ids}")


def _show_values(request: HttpRequest, issued: list[tuple[ApiKey, str]]) -> HttpResponse:
    rows = [{"id": str(key.pk), "name": key.name, "value": value} for key, value in issued]
    return HttpResponseRedirect(shown_once.keep(request, reverse("admin:keys_apikey_values"), rows))
