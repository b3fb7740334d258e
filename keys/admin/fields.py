"""Form fields of the admin pages: lists written one a line, and permissions shown by what they allow."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import forms
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.contrib.auth.models import Permission
from django.http import HttpRequest

from core.errors import GatewayError
from keys.models import Person
from keys.permissions.effective import permissions_of_person
from keys.permissions.scopes import ScopeNotFound, resolve


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


class ScopesField(LinesField):
    """Scopes, typed as names and kept by objectGUID."""

    def __init__(self, *, whom: str) -> None:
        super().__init__(
            required=False,
            help_text="Distinguished names or objectGUIDs, one a line, such as OU=Staff,DC=corp,DC=example,DC=com. "
            f"{whom} nothing outside them. Empty: everywhere. Each is kept by its objectGUID, so renaming or moving it "
            "changes nothing.",
        )


def names_of(scopes: Sequence[Mapping[str, str]]) -> list[str]:
    """What a ScopesField shows of scopes."""
    return [scope["distinguishedName"] for scope in scopes]


def resolve_lines(texts: Sequence[str], *, known: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """What is kept of the lines of a ScopesField; raises ValidationError.

    A scope of those known that was not touched stays the object it is, whatever has that name now.
    """
    ids = {scope["distinguishedName"]: scope["guid"] for scope in known}
    try:
        return resolve([ids.get(text, text) for text in texts])
    except ScopeNotFound as missing:
        raise forms.ValidationError(f"{texts[missing.position]}: no enabled directory has such an object.") from None
    except GatewayError as refusal:
        raise forms.ValidationError(refusal.detail) from None


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
