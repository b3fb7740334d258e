"""Filters for pages about API keys."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from keys.api_keys.addresses import is_allowed
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
        (not key["ownerActive"], "owner deactivated"),
        (expires is not None and expires <= now + EXPIRES_WITHIN, "expires soon"),
        (used is not None and used <= now - UNUSED_FOR, "unused"),
    )
    return [text for applies, text in found if applies]


def _moment(text: str | None) -> Any:
    return parse_datetime(text) if text else None


@register.filter
def admits(allowed: Sequence[str], address: str | None) -> bool:
    """Whether allowed addresses (none: all) admit a request from this one."""
    return not allowed or is_allowed(address or "", allowed)
