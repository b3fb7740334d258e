"""Filters for pages about API keys."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import template
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from core.network.allowed_networks import is_allowed
from keys.api_keys.expiring import EXPIRES_WITHIN, UNUSED_FOR
from keys.models import Level

register = template.Library()


@register.filter
def level_label(value: str) -> str:
    """A supervision level as people call it."""
    return str(Level(value).label)


@register.filter
def warnings(key: Mapping[str, Any]) -> list[str]:
    """What somebody should know who looks at a valid key."""
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
def titles_of(permissions: Iterable[Mapping[str, Any]]) -> str:
    """The titles of permissions as a list within a sentence, where English writes them small and German does not."""
    is_english = (get_language() or "en").startswith("en")
    return ", ".join(item["title"].lower() if is_english else item["title"] for item in permissions)


@register.filter
def names_of(keys: Iterable[Mapping[str, Any]]) -> str:
    """The names of keys as a list."""
    return ", ".join(key["name"] for key in keys)


def _moment(text: str | None) -> Any:
    return parse_datetime(text) if text else None


@register.filter
def admits(allowed: Sequence[str], address: str | None) -> bool:
    """Whether allowed addresses (none: all) admit a request from this one."""
    return not allowed or is_allowed(address or "", allowed)
