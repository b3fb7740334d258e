"""Waiting for what takes longer than a request: a person's decision, a run over many accounts."""

import time
from uuid import UUID

from gateway_client.answers import expect
from gateway_client.generated import AuthenticatedClient
from gateway_client.generated.api.change_requests import change_requests_read
from gateway_client.generated.api.runs import runs_read
from gateway_client.generated.models import ChangeRequestJson, RunResult, RunResultState, Status

UNDECIDED = frozenset({Status.PENDING, Status.APPROVED, Status.APPLYING, Status.UNKNOWN})


def wait_for_change(
    client: AuthenticatedClient, change_request: UUID, *, within: float = 3600, every: float = 2
) -> ChangeRequestJson:
    """The change request once it is at its end; `status` says which. Raises Refused, and TimeoutError after `within` s.

    A change that failed carries its problem; one that is still undecided after a week expires.
    """
    deadline = time.monotonic() + within
    while True:
        found = expect(change_requests_read.sync_detailed(change_request, client=client), ChangeRequestJson)
        if found.status not in UNDECIDED:
            return found
        _pause(deadline, every, f"change request {change_request} is {found.status}")


def wait_for_run(client: AuthenticatedClient, run: UUID, *, within: float = 3600, every: float = 2) -> RunResult:
    """The run once it is completed, with what came of each account. Raises as `wait_for_change` does."""
    deadline = time.monotonic() + within
    while True:
        found = expect(runs_read.sync_detailed(run, client=client), RunResult)
        if found.state == RunResultState.COMPLETED:
            return found
        _pause(deadline, every, f"run {run} is {found.state}")


def _pause(deadline: float, seconds: float, state: str) -> None:
    if time.monotonic() + seconds > deadline:
        raise TimeoutError(state)
    time.sleep(seconds)
