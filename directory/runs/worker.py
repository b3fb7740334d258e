"""Which worker executes a directory's runs, and in which order. `execution` executes one."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from uuid import UUID, uuid4

import structlog
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from audit import log
from core.call import Call
from core.database import shared_clock
from core.errors import Forbidden, GatewayError
from directory import errors
from directory.lookup.access import find_object
from directory.models.runs import Run, RunLease, RunState
from directory.runs.execution import RunExecution
from directory.runs.requests import announce_completion
from directory.shapes.kinds import Kind

logger = structlog.get_logger(__name__)

LEASE = timedelta(seconds=20)
"""How long a worker may go without renewing its lease before another one takes its directory's runs."""

MAX_ATTEMPTS = 30
"""How often a run is taken up before its remaining accounts fail: some five minutes of an unavailable directory."""

_RETRY_LATER = (errors.Unavailable, log.NotRecorded)
"""Errors after which the run is retried later, for they are not about its accounts."""

CallFactory = Callable[[Run], Call]
"""Makes the call of a run, with its caller's current permissions; raises Forbidden."""

MorePrivilegedThanCaller = Callable[[Call, Collection[UUID]], Collection[UUID]]
"""Filters accounts to those of people who may do more in the gateway than the caller."""


class _LeaseLost(Exception):
    """This worker was stalled for so long that another one may have taken over the directory's runs."""


def find_abandoned_runs() -> list[UUID]:
    """The oldest open run of each directory for which no worker holds the lease."""
    held = RunLease.objects.filter(holder__isnull=False, expires_at__gt=shared_clock.now()).values("connection_id")
    waiting = _open_runs().exclude(connection_id__in=held).values_list("connection_id", "id")
    oldest: dict[UUID, UUID] = {}
    for connection_id, run_id in waiting:
        oldest.setdefault(connection_id, run_id)
    return list(oldest.values())


def run_pending(
    connection_id: UUID,
    *,
    make_call: CallFactory,
    more_privileged_people: MorePrivilegedThanCaller,
    when_completed: Callable[[Run], object],
) -> None:
    """Execute the directory's open runs, oldest first, unless another worker does.

    `when_completed` is called for each completed run, unless the worker is killed right before.
    """
    runs = _open_runs().filter(connection_id=connection_id)
    # A worker that finds the lease taken leaves. No run is missed: the holder looks again after it released the lease.
    while runs.exists():
        with _hold_lease(connection_id) as renew:
            if renew is None:
                return
            while (run := runs.first()) is not None:
                try:
                    _execute(run, renew, make_call, more_privileged_people)
                    announce_completion(run.id)
                except _LeaseLost:
                    logger.warning("another worker may have taken the run over", run=str(run.id))
                    return
                except _RETRY_LATER as reason:
                    logger.warning("the run waits", run=str(run.id), reason=type(reason).__name__)
                    return
                when_completed(run)


def _open_runs() -> QuerySet[Run]:
    return Run.objects.exclude(state=RunState.COMPLETED).order_by("created_at")


def _execute(
    run: Run, renew: Callable[[], None], make_call: CallFactory, more_privileged_people: MorePrivilegedThanCaller
) -> None:
    """Execute one run to its end; raises one of `_RETRY_LATER` when the directory or the log is unavailable."""
    renew()
    is_new = run.state == RunState.QUEUED
    first_start = Coalesce("started_at", shared_clock.now())
    Run.objects.filter(id=run.id).update(state=RunState.RUNNING, attempts=F("attempts") + 1, started_at=first_start)
    execution = RunExecution(run, before_each_step=renew, is_new=is_new)
    if run.attempts >= MAX_ATTEMPTS:
        execution.give_up()
        return
    try:
        with errors.translate_ldap_errors():
            execution.look_up_open_intents()
            call = make_call(run)
            _require_still_allowed(run, call)
            execution.execute(call, more_privileged_people=partial(more_privileged_people, call))
    except _RETRY_LATER:
        raise
    except GatewayError as refusal:
        execution.fail_remaining(refusal)


def _require_still_allowed(run: Run, call: Call) -> None:
    """Check again what the operation checked when the run was requested. Raises Forbidden or ObjectNotFound."""
    try:
        if not {"directory.run_accounts", f"directory.{run.action}_account"} <= call.permissions:
            raise Forbidden
        find_object(call, run.unit, kinds={Kind.ORGANIZATIONAL_UNIT})
    except (Forbidden, errors.ObjectNotFound) as refusal:
        unit = log.TargetRef(id=run.unit, kind=Kind.ORGANIZATIONAL_UNIT, distinguished_name=run.unit_dn)
        log.record_refusal(call, operation=run.operation, code=refusal.code, target=unit, run_id=run.id)
        raise


@contextmanager
def _hold_lease(connection_id: UUID) -> Iterator[Callable[[], None] | None]:
    """Hold the lease on a directory's runs. Yields its renewal, or None while another worker holds the lease.

    The worker calls the renewal before each step; it raises _LeaseLost.
    """
    now, holder = shared_clock.now(), uuid4()
    RunLease.objects.get_or_create(connection_id=connection_id, defaults={"expires_at": now})
    free = RunLease.objects.filter(Q(holder=None) | Q(expires_at__lte=now), connection_id=connection_id)
    expires_at = now + LEASE
    # The conditional UPDATE decides: of two workers that find the lease free, only one changes the row.
    if not free.update(holder=holder, expires_at=expires_at):
        yield None
        return
    own = RunLease.objects.filter(connection_id=connection_id, holder=holder)

    def renew() -> None:
        nonlocal expires_at
        now = shared_clock.now()
        if expires_at - now > LEASE * 2 / 3:  # the steps of a run are short, and each renewal is a write
            return
        if not own.filter(expires_at__gt=now).update(expires_at=now + LEASE):
            raise _LeaseLost
        expires_at = now + LEASE

    try:
        yield renew
    finally:
        own.update(holder=None)
