"""Celery tasks of the runs over organizational units' accounts. What they do is in `directory.runs.worker`.

Each may run twice, late, or in several workers at once: a lease in the database decides who does a directory's runs.
"""

from dataclasses import replace
from typing import Any
from uuid import UUID

from celery import shared_task

from approvals.queue import end_with_run
from core.call import Call, CredentialKind, CredentialRef, Surface
from directory.models.runs import Run, RunState
from directory.runs import worker as run_worker
from directory.runs.requests import EXECUTE_RUN, delete_old_plans
from keys.agents.identification import call_for_agent
from keys.permissions.effective import call_for_key, call_for_person
from keys.permissions.more_privileged_people import more_privileged_people


@shared_task(name=EXECUTE_RUN)
def execute_run(run_id: str) -> None:
    """Do a run, and whatever else waits in its directory; nothing if it is done already or a worker is at it."""
    waiting = Run.objects.filter(id=UUID(run_id)).exclude(state=RunState.COMPLETED)
    for connection_id in waiting.values_list("connection_id", flat=True):
        run_worker.run_pending(
            connection_id,
            call_for=_call_for,
            more_privileged_people=more_privileged_people,
            when_completed=end_with_run,
        )


@shared_task(name="directory.tasks.sweep_runs")
def sweep_runs() -> None:
    """Take up the runs whose worker was killed, whose directory was away or whose message was lost."""
    for run_id in run_worker.find_abandoned():
        execute_run.delay(str(run_id))
    delete_old_plans()


def _call_for(run: Run) -> Call:
    """The run's caller with what they may do now; raises Forbidden."""
    work: dict[str, Any] = {
        "connection_id": run.connection_id,
        "surface": Surface.WORKER,
        "request_id": run.request_id,
        "change_request_id": run.change_request_id,
    }
    if run.credential_kind == CredentialKind.API_KEY:
        call = call_for_key(run.credential_id, **work)
    elif run.credential_kind == CredentialKind.AGENT_TOKEN:
        call = call_for_agent(run.credential_id, **work)
    else:
        credential = CredentialRef(CredentialKind(run.credential_kind), run.credential_id, run.credential_name)
        call = call_for_person(run.person_id, credential=credential, **work)
    return replace(call, client_address=run.client_address, reason=run.reason)
