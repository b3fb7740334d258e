"""Valid API keys that want looking at: those that expire soon, and those that nobody seems to need any more."""

from datetime import timedelta
from typing import Final

from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from keys.models import ApiKey

EXPIRES_WITHIN: Final = timedelta(days=30)
UNUSED_FOR: Final = timedelta(days=90)


def find_expiring() -> QuerySet[ApiKey]:
    """The valid keys whose time is over within 30 days, the first of them first."""
    return _valid().filter(expires_at__lte=timezone.now() + EXPIRES_WITHIN).order_by("expires_at", "id")


def find_unused() -> QuerySet[ApiKey]:
    """The valid keys not used for 90 days, the longest unused first. One never used counts from when it was made."""
    idle = _valid().annotate(idle_since=Coalesce("last_used_at", "created_at"))
    return idle.filter(idle_since__lte=timezone.now() - UNUSED_FOR).order_by("idle_since", "id")


def _valid() -> QuerySet[ApiKey]:
    not_over = Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())
    return ApiKey.objects.select_related("owner").filter(not_over, revoked_at__isnull=True)
