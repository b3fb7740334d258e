"""Signs of life for this process's idempotency claims: that of a killed process is soon free, that of a slow one not.

What a claim is for is `gateway.surfaces.idempotency`'s.
"""

import os
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


class Renewal:
    """Renews the claims under way, from a thread that starts with a process's first one, so never before a fork.

    A process that is held up for longer than the lease may lose its claim to a retry. Its write is then late, and a
    late write is not sent (`OperationRecord.may_be_written`).
    """

    EVERY: Final = 10.0

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Begin empty, as in a forked child: the parent's claims are the parent's."""
        self._lock = threading.Lock()
        self._claims: set[int] = set()
        self._thread: threading.Thread | None = None

    @contextmanager
    def of(self, claim: int) -> Iterator[None]:
        """Renew this claim for as long as the block takes."""
        with self._lock:
            self._claims.add(claim)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="idempotency-claims", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._claims.discard(claim)

    def _run(self) -> None:
        while True:
            threading.Event().wait(self.EVERY)
            self.renew()
            connection.close()  # most requests are over before this is needed at all

    def renew(self) -> None:
        """Give a sign of life for all of them; a database that is away is tried again the next time."""
        with self._lock:
            claims = list(self._claims)
        if not claims:
            return
        try:
            IdempotencyRecord.objects.filter(id__in=claims, status=None).update(lease_until=shared_clock.now() + LEASE)
        except (DatabaseError, InterfaceError) as error:
            _logger.warning("idempotency claims cannot be renewed for now", claims=len(claims), error=str(error))


renewal: Final = Renewal()
"""The claims of this process."""

os.register_at_fork(after_in_child=renewal._reset)
