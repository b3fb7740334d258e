"""Which worker does a directory's runs, and in which order. Doing one is `execution`'s."""

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
from directory.runs.completion import announce
from directory.runs.execution import RunExecution
from directory.shapes.kinds import Kind

logger = structlog.get_logger(__name__)

LEASE = timedelta(seconds=20)
"""How long a directory's runs are one worker's without a sign of life from it; then those of a killed one are free."""

MAX_ATTEMPTS = 30
"""How often a run is taken up before its remaining accounts fail: some five minutes of a directory that is away."""

_NOT_NOW = (errors.Unavailable, log.NotRecorded)
"""Reasons to take a run up again later: nothing is wrong with its accounts."""

CallFor = Callable[[Run], Call]
"""Makes the call a run is done under, with what its caller may do now; raises Forbidden."""

PeopleAboveCaller = Callable[[Call, Collection[UUID]], Collection[UUID]]
"""Which of these accounts are of people who may do more in the gateway than a caller."""


class _LeaseLost(Exception):
    """This worker was held up for so long that another one may be at the runs."""


def find_abandoned() -> list[UUID]:
    """The oldest open run of each directory whose runs no worker is doing."""
    held = RunLease.objects.filter(holder__isnull=False, expires_at__gt=shared_clock.now()).values("connection_id")
    waiting = _open_runs().exclude(connection_id__in=held).values_list("connection_id", "id")
    oldest: dict[UUID, UUID] = {}
    for connection_id, run_id in waiting:
        oldest.setdefault(connection_id, run_id)
    return list(oldest.values())


def run_pending(
    connection_id: UUID,
    *,
    call_for: CallFor,
    more_privileged_people: PeopleAboveCaller,
    when_completed: Callable[[Run], object],
) -> None:
    """Do the directory's open runs, oldest first, unless another worker does them.

    `when_completed` is told of each that ended here, unless the worker is killed right before. Who finds the lease
    taken may go: its holder looks for runs once more after giving it back.
    """
    runs = _open_runs().filter(connection_id=connection_id)
    while runs.exists():
        with _leased(connection_id) as lease:
            if lease is None:
                return
            while (run := runs.first()) is not None:
                try:
                    _do(run, lease, call_for, more_privileged_people)
                    announce(run.id)
                except _LeaseLost:
                    logger.warning("another worker may have taken the run over", run=str(run.id))
                    return
                except _NOT_NOW as reason:
                    logger.warning("the run waits", run=str(run.id), reason=type(reason).__name__)
                    return
                when_completed(run)


def _open_runs() -> QuerySet[Run]:
    return Run.objects.exclude(state=RunState.COMPLETED).order_by("created_at")


def _do(run: Run, lease: "_Lease", call_for: CallFor, more_privileged_people: PeopleAboveCaller) -> None:
    """One run to its end; raises one of `_NOT_NOW` when the directory or the log does not let it end now."""
    lease.renew()
    is_new = run.state == RunState.QUEUED
    begun = Coalesce("started_at", shared_clock.now())
    Run.objects.filter(id=run.id).update(state=RunState.RUNNING, attempts=F("attempts") + 1, started_at=begun)
    execution = RunExecution(run, before_each_step=lease.renew, is_new=is_new)
    if run.attempts >= MAX_ATTEMPTS:
        execution.give_up()
        return
    try:
        with errors.translated():
            execution.look_up_open_intents()
            call = call_for(run)
            _require_still_allowed(run, call)
            execution.execute(call, more_privileged_people=partial(more_privileged_people, call))
    except _NOT_NOW:
        raise
    except GatewayError as refusal:
        execution.fail_rest(refusal)


def _require_still_allowed(run: Run, call: Call) -> None:
    """What the operation asked for when the run was started must still hold. Raises Forbidden or ObjectNotFound."""
    try:
        if not {"directory.run_accounts", f"directory.{run.action}_account"} <= call.permissions:
            raise Forbidden
        find_object(call, run.unit, kinds={Kind.ORGANIZATIONAL_UNIT})
    except (Forbidden, errors.ObjectNotFound) as refusal:
        unit = log.TargetRef(id=run.unit, kind=Kind.ORGANIZATIONAL_UNIT, distinguished_name=run.unit_dn)
        log.record_refusal(call, operation=run.operation, code=refusal.code, target=unit, run_id=run.id)
        raise


class _Lease:
    """The right to do a directory's runs, as long as it is renewed."""

    def __init__(self, connection_id: UUID, holder: UUID) -> None:
        self._rows = RunLease.objects.filter(connection_id=connection_id, holder=holder)
        self._expires_at = shared_clock.now() + LEASE

    def renew(self) -> None:
        """To be called before each step; raises _LeaseLost."""
        now = shared_clock.now()
        if self._expires_at - now > LEASE * 2 / 3:
            return
        if not self._rows.filter(expires_at__gt=now).update(expires_at=now + LEASE):
            raise _LeaseLost
        self._expires_at = now + LEASE

    def give_back(self) -> None:
        self._rows.update(holder=None)


@contextmanager
def _leased(connection_id: UUID) -> Iterator[_Lease | None]:
    """The directory's lease, None while another worker holds it."""
    now, holder = shared_clock.now(), uuid4()
    RunLease.objects.get_or_create(connection_id=connection_id, defaults={"expires_at": now})
    free = RunLease.objects.filter(Q(holder=None) | Q(expires_at__lte=now), connection_id=connection_id)
    if not free.update(holder=holder, expires_at=now + LEASE):
        yield None
        return
    lease = _Lease(connection_id, holder)
    try:
        yield lease
    finally:
        lease.give_back()
