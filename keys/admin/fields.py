"""Form fields of the admin pages: lists written one a line, and permissions shown by what they allow."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.contrib.auth.models import Permission
from django.http import HttpRequest

from keys.models import Person
from keys.permissions.effective import permissions_of_person


class LinesField(forms.CharField):
    """A list of texts, one a line."""

    widget = forms.Textarea

    def __init__(self, *, rows: int = 4, **options: Any) -> None:
        super().__init__(widget=forms.Textarea(attrs={"rows": rows, "cols": 60, "spellcheck": "false"}), **options)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        return [line.strip() for line in text.splitlines() if line.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(super().has_changed(self.prepare_value(initial or []), data))


class PermissionsField(forms.ModelMultipleChoiceField):
    """Permissions by what they allow, with the name that the API uses."""

    def label_from_instance(self, permission: Any) -> str:
        return f"{permission.name} ({full_name(permission)})"


def without_delete(field: Any) -> Any:
    """Take away the cross beside a choice: it would delete the person or the directory itself, not the choice."""
    if field is not None and isinstance(field.widget, RelatedFieldWidgetWrapper):
        field.widget.can_delete_related = False
    return field


def full_name(permission: Permission) -> str:
    return f"{permission.content_type.app_label}.{permission.codename}"


def held_by(request: HttpRequest) -> frozenset[str]:
    """What the signed-in person holds, and so may grant."""
    person = request.user
    if not isinstance(person, Person):
        return frozenset()
    return permissions_of_person(person.pk, is_active=person.is_active, is_superuser=person.is_superuser)


def may_grant(request: HttpRequest, permissions: Iterable[Permission]) -> bool:
    return {full_name(permission) for permission in permissions} <= held_by(request)


def is_superuser(request: HttpRequest) -> bool:
    return isinstance(request.user, Person) and request.user.is_superuser
