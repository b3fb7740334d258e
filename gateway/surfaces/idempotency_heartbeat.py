"""Signs of life of an idempotency claim: that of a killed process is soon free, that of a slow one not.

What a claim is for is `gateway.surfaces.idempotency`'s.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import structlog
from django.db import DatabaseError, InterfaceError, connection

from core.database import shared_clock
from gateway.models import IdempotencyRecord

_logger = structlog.stdlib.get_logger(__name__)

LEASE: Final = timedelta(seconds=30)
"""How long a claim holds without a sign of life."""
RENEWED_EVERY = 10.0
"""Seconds: most requests are over before the first renewal."""


@contextmanager
def renewed(claim_id: int) -> Iterator[None]:
    """Renew a claim for as long as the block takes.

    A process that is held up for longer than the lease may lose its claim to a retry. Its write is then late, and a
    late write is not sent (`OperationRecord.may_be_written`).
    """
    done = threading.Event()
    threading.Thread(target=_renew, args=(claim_id, done), name="idempotency-claim", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _renew(claim_id: int, done: threading.Event) -> None:
    while not done.wait(RENEWED_EVERY):
        mine = IdempotencyRecord.objects.filter(id=claim_id, status=None)
        try:
            mine.update(lease_until=shared_clock.now() + LEASE)
        except (DatabaseError, InterfaceError) as error:  # it is tried again the next time
            _logger.warning("an idempotency claim cannot be renewed for now", error=str(error))
        connection.close()
