"""Filters for pages about API keys."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import template
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from core.ip_addresses import is_allowed
from keys.api_keys import EXPIRES_WITHIN, UNUSED_FOR
from keys.models import Level

register = template.Library()


@register.filter
def level_label(value: str) -> str:
    """The label of a supervision level."""
    return str(Level(value).label)


@register.filter
def key_warnings(key: Mapping[str, Any]) -> list[str]:
    """Warnings about an active key: deactivated owner, near expiry, unused."""
    if key["state"] != "active":
        return []
    now = timezone.now()
    expires, used = _moment(key["expiresAt"]), _moment(key["lastUsedAt"] or key["createdAt"])
    found = (
        (not key["ownerActive"], _("owner deactivated")),
        (expires is not None and expires <= now + EXPIRES_WITHIN, _("expires soon")),
        (used is not None and used <= now - UNUSED_FOR, _("unused")),
    )
    return [text for applies, text in found if applies]


@register.filter
def permission_titles(permissions: Iterable[Mapping[str, Any]]) -> str:
    """The titles of permissions, joined for a sentence: lower-case in English, unchanged in German."""
    is_english = (get_language() or "en").startswith("en")
    return ", ".join(item["title"].lower() if is_english else item["title"] for item in permissions)


@register.filter
def as_lines(values: Iterable[str]) -> str:
    """The values of a text area, one a line."""
    return "\n".join(values)


@register.filter
def key_names(keys: Iterable[Mapping[str, Any]]) -> str:
    """The names of keys, joined by commas."""
    return ", ".join(key["name"] for key in keys)


def _moment(text: str | None) -> Any:
    return parse_datetime(text) if text else None


@register.filter
def is_address_allowed(allowed: Sequence[str], address: str | None) -> bool:
    """Whether a key's allowed addresses (empty: all) admit a request from this IP address."""
    return not allowed or is_allowed(address or "", allowed)
