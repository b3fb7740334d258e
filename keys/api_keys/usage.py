"""When and from where a key, or an agent, was last used.

It is written at most once a minute, and beside the request, not in its way.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import lru_cache
from uuid import UUID

import structlog
from django.db import DatabaseError, connection
from django.db.models import Q
from django.utils import timezone

from keys.models import ApiKey
from keys.models.agents import AgentGrant

EVERY = timedelta(minutes=1)

_logger = structlog.get_logger(__name__)
_noted: dict[UUID, float] = {}


@lru_cache(maxsize=1)
def _writer() -> ThreadPoolExecutor:
    """One thread per process, made on first use: a thread does not survive the fork of a worker."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="key-usage")


def note(id: UUID, *, last_used_at: datetime | None, address: str, of: type[ApiKey | AgentGrant] = ApiKey) -> None:
    """Note that a key (or an agent's grant) was used now. Neither waits for the database nor raises."""
    if last_used_at is not None and timezone.now() - last_used_at < EVERY:
        return
    now = time.monotonic()
    if now - _noted.get(id, -EVERY.total_seconds()) < EVERY.total_seconds():
        return  # this process has it under way
    _noted[id] = now
    _writer().submit(_write, of, id, timezone.now(), address)


def _write(of: type[ApiKey | AgentGrant], id: UUID, at: datetime, address: str) -> None:
    """Other processes may have been faster: the condition lets one of them win."""
    try:
        is_due = Q(last_used_at__isnull=True) | Q(last_used_at__lte=at - EVERY)
        of.objects.filter(is_due, pk=id).update(last_used_at=at, last_used_address=address)
    except DatabaseError as error:
        _logger.warning("last use of a credential not written", credential=str(id), error=str(error))
    finally:
        connection.close()
