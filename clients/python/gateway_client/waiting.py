"""Waits for what takes longer than a request: a person's decision, a run over many accounts."""

import time
from uuid import UUID

from gateway_client.generated.api import Gateway
from gateway_client.generated.models import ChangeRequestJson, RunResult

UNDECIDED = frozenset({"pending", "approved", "applying", "unknown"})


def wait_for_change(
    gateway: Gateway, change_request: UUID, *, within: float = 3600, every: float = 2
) -> ChangeRequestJson:
    """Wait for the end of a change request, which its `status` says. Raises Refused, and TimeoutError after `within` s.

    A failed change carries its problem; a request that nobody decides expires after a week.
    """
    deadline = time.monotonic() + within
    while True:
        found = gateway.change_requests.read(change_request)
        if found.status not in UNDECIDED:
            return found
        _pause(deadline, every, f"change request {change_request} is {found.status}")


def wait_for_run(gateway: Gateway, run: UUID, *, within: float = 3600, every: float = 2) -> RunResult:
    """Wait for the end of a run and return it with the result for each account. Raises as `wait_for_change` does."""
    deadline = time.monotonic() + within
    while True:
        found = gateway.runs.read(run)
        if found.state == "completed":
            return found
        _pause(deadline, every, f"run {run} is {found.state}")


def _pause(deadline: float, seconds: float, state: str) -> None:
    if time.monotonic() + seconds > deadline:
        raise TimeoutError(state)
    time.sleep(seconds)
