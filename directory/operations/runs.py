"""Looking at a run: its state and the results so far. Starting one is `organization_unit_accounts`'."""

from uuid import UUID

from directory import runs
from directory.access import is_within_any, scope_bases
from directory.run_models import Run
from directory.runs import RunResult
from gateway.core.call import Call
from gateway.core.errors import NotFound
from gateway.core.operation import SIGNED_IN, operation


@operation("runs.read", "GET ad/runs/{id}", permission=SIGNED_IN, output=RunResult)
def read_run(call: Call, *, id: UUID) -> RunResult:
    """Read the state and the results so far of a run over an organizational unit's accounts."""
    assert call.directory is not None
    run = Run.objects.filter(id=id, connection_id=call.directory.id).first()
    if run is None or not (_is_own(call, run) or _may_see(call, run)):
        raise NotFound
    return runs.result(run)


def _is_own(call: Call, run: Run) -> bool:
    return (run.credential_kind, run.credential_id) == (call.credential.kind, call.credential.id)


def _may_see(call: Call, run: Run) -> bool:
    """Whether the caller could have started it: others' runs are shown to those who manage the same accounts."""
    if not call.may("directory.run_accounts"):
        return False
    bases = scope_bases(call)
    return bases is None or is_within_any(run.unit_dn, bases)
