"""People and their groups in Django admin."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import PermissionDenied
from django.db.models import ManyToManyField, QuerySet
from django.http import HttpRequest, HttpResponse

from audit.model_changes.recorded_admin import RecordedAdmin
from core.errors import Conflict
from keys.admin.fields import (
    PermissionsField,
    ScopesField,
    full_name,
    held_by,
    is_superuser,
    names_of,
    resolve_lines,
)
from keys.models import Person
from keys.models.assignable import APPS
from keys.models.groups import confines_members, keep_scopes, kept_scopes
from keys.people.revocation import end_all
from keys.permissions.effective import permissions_of_person, reference_to
from keys.sign_in import second_factor
from keys.sign_in.sessions import revoke_tokens

_FOR_PEOPLE = (*APPS, "auth")


def _is_above(request: HttpRequest, person: Person) -> bool:
    """Whether somebody holds what the signed-in person does not: whoever sets their password could be them."""
    if is_superuser(request) or person == request.user:
        return False
    held = permissions_of_person(person.pk, is_active=True, is_superuser=person.is_superuser)
    return person.is_superuser or not held <= held_by(request)


class PersonForm(UserChangeForm):
    """`scopes` are typed as names and kept by objectGUID."""

    scopes = ScopesField(whom="Whatever they do, and their keys and agents, they reach")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "scopes" in self.fields:  # not on a page that only shows the person
            self.initial["scopes"] = names_of(self.instance.scopes)

    def clean_scopes(self) -> list[dict[str, str]]:
        return resolve_lines(self.cleaned_data["scopes"], known=self.instance.scopes)

    def clean(self) -> Any:
        cleaned = super().clean()
        if self.cleaned_data.get("scopes") and self.cleaned_data.get("is_superuser", self.instance.is_superuser):
            self.add_error("scopes", "A superuser cannot be restricted to scopes.")
        return cleaned

    def save(self, commit: bool = True) -> Any:
        if "scopes" in self.cleaned_data:
            self.instance.scopes = self.cleaned_data["scopes"]
        return super().save(commit)


class OwnPersonForm(PersonForm):
    """Nobody confines themselves, or lifts what confines them."""

    scopes = None  # type: ignore[assignment]


@admin.register(Person)
class PersonAdmin(RecordedAdmin, UserAdmin):
    form = PersonForm
    list_display = ("username", "display_name", "directory", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = ("is_active", "is_staff", "is_superuser", "connection", "groups")
    list_select_related = ("connection",)
    search_fields = ("username", "display_name", "email")
    search_help_text = "User name, display name or e-mail address"
    ordering = ("username",)
    readonly_fields = ("directory", "object_guid", "last_login", "date_joined")
    fieldsets = (
        (None, {"fields": ("username", "password", "display_name", "email")}),
        (
            "What they may do",
            {
                "description": "API keys never do more than their owner. Deactivating a person ends their sessions, "
                "their tokens and all their API keys at once; nothing is deleted.",
                "fields": ("is_active", "is_staff", "is_superuser", "groups", "user_permissions", "scopes"),
            },
        ),
        ("Where they come from", {"fields": ("directory", "object_guid", "last_login", "date_joined")}),
    )
    add_fieldsets = (
        (
            None,
            {
                "description": "A local account. The people of a directory are not entered here: they sign in, and an "
                "administrator then gives them permissions.",
                "fields": ("username", "display_name", "email", "usable_password", "password1", "password2"),
            },
        ),
    )

    actions = ("reset_second_factor",)

    @admin.display(description="directory", ordering="connection__name")
    def directory(self, person: Person) -> str:
        return str(person.connection) if person.connection else "local account"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or obj.is_local:
            return fieldsets
        return ((None, {"fields": ("username", "display_name", "email")}), *fieldsets[1:])

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        fields = list(super().get_readonly_fields(request, obj))
        if obj is not None and not obj.is_local:
            fields += ["username", "display_name"]
        if not is_superuser(request):
            fields += ["is_superuser", "is_staff", "groups"]
        if obj == request.user:
            fields.append("scopes")
        return tuple(fields)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        # `scopes` is the form's own: the model's column is not editable.
        if obj is not None:
            kwargs["form"] = OwnPersonForm if obj == request.user else PersonForm
            shown = kwargs.pop("fields", None) or flatten_fieldsets(self.get_fieldsets(request, obj))
            kwargs["fields"] = [name for name in shown if name != "scopes"]
        return super().get_form(request, obj, change=change, **kwargs)

    def formfield_for_manytomany(
        self,
        db_field: ManyToManyField,
        request: Any,
        **kwargs: Any,
    ) -> Any:
        if db_field.name == "user_permissions":
            permissions = Permission.objects.filter(content_type__app_label__in=_FOR_PEOPLE)
            permissions = permissions.select_related("content_type").order_by("content_type__app_label", "name")
            if not is_superuser(request):
                held = held_by(request)
                permissions = permissions.filter(pk__in=[item.pk for item in permissions if full_name(item) in held])
            kwargs |= {"queryset": permissions, "form_class": PermissionsField}
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if "is_active" in form.changed_data:
            obj.left_directory_at = None  # an administrator has decided: signing in does not take it back
        super().save_model(request, obj, form, change)
        if not obj.is_active:
            end_all(obj.pk)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        person = self.get_object(request, id)
        if person is not None and not person.is_local:
            raise PermissionDenied("The password of a person of a directory is the directory's to change.")
        if person is None or request.method != "POST":
            return super().user_change_password(request, id, form_url)
        with self.recorded(request, [person]):
            response = super().user_change_password(request, id, form_url)
            if response.status_code == 302:
                revoke_tokens(person)  # Django ends the sessions itself: they carry a digest of the password
        return response

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or not _is_above(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and (
            obj is None or (obj != request.user and not _is_above(request, obj))
        )

    @admin.action(description="Reset the second factor of selected people", permissions=["change"])
    def reset_second_factor(self, request: HttpRequest, people: QuerySet[Person]) -> None:
        """Let people whose authenticator is lost sign in with their password alone."""
        assert isinstance(request.user, Person)
        by = reference_to(request.user)
        for person in people:
            if _is_above(request, person):
                self.message_user(request, f"You do not hold all that {person} may do.", messages.ERROR)
                continue
            try:
                done = second_factor.reset(person, by=by)
            except Conflict as refusal:
                self.message_user(request, refusal.detail, messages.ERROR)
            else:
                message = f"The second factor of {person} is reset." if done else f"There is none of {person}."
                self.message_user(request, message, messages.SUCCESS if done else messages.INFO)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        # Deleting many at once would not look at each.
        return {name: action for name, action in super().get_actions(request).items() if name != "delete_selected"}


class GroupForm(forms.ModelForm):
    """`scopes` are typed as names and kept by objectGUID."""

    scopes = ScopesField(whom="Whatever its members do, they reach")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "scopes" in self.fields:  # not on a page that only shows the group
            self.initial["scopes"] = names_of(kept_scopes(self.instance))

    def clean_scopes(self) -> list[dict[str, str]]:
        return resolve_lines(self.cleaned_data["scopes"], known=kept_scopes(self.instance))


admin.site.unregister(Group)


@admin.register(Group)
class PeopleGroupAdmin(RecordedAdmin, GroupAdmin):
    """Groups give permissions to all their members, and may confine them, so only superusers change them."""

    form = GroupForm
    fields = ("name", "permissions", "scopes")

    @admin.display(description="scopes")
    def scopes(self, group: Group) -> str:
        return "; ".join(names_of(kept_scopes(group))) or "everything"

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        # `scopes` is the form's own: they are in a table of their own.
        kwargs["fields"] = [name for name in kwargs.pop("fields", None) or self.fields if name != "scopes"]
        return super().get_form(request, obj, change, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        keep_scopes(obj, form.cleaned_data["scopes"])

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        # Deleting many at once would not look at each.
        return {name: action for name, action in super().get_actions(request).items() if name != "delete_selected"}

    def formfield_for_manytomany(
        self,
        db_field: ManyToManyField,
        request: Any = None,
        **kwargs: Any,
    ) -> Any:
        if db_field.name == "permissions":
            permissions = Permission.objects.filter(content_type__app_label__in=_FOR_PEOPLE)
            permissions = permissions.select_related("content_type").order_by("content_type__app_label", "name")
            kwargs |= {"queryset": permissions, "form_class": PermissionsField}
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return is_superuser(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return is_superuser(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """One that confines people is not deleted before they are taken out of it: then it is said what they gain."""
        return is_superuser(request) and (obj is None or not confines_members(obj))
