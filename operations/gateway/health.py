"""The gateway's health, for its administrators. Process supervisors use `/health/ready` instead."""

from typing import Literal

from redis import RedisError
from typing_extensions import TypedDict

from core.call import Call
from core.operation import rest_operation
from core.shapes import Moment, as_record, render_timestamp
from gateway.monitoring.certificates import Kind, certificates
from gateway.monitoring.readiness import Check, HealthStatus, readiness, status_of
from gateway.monitoring.workers import HEARTBEAT_LIFETIME, Worker, find_workers
from keys.agents.availability import install_command

_CERTIFICATE_WAIT_SECONDS = 3.0
"""How long to wait for domain controllers whose certificates were not seen yet."""


class CheckJson(TypedDict):
    """`status` is `ok` or `unavailable`; `detail` then says what is wrong."""

    name: str
    status: Literal["ok", "unavailable"]
    detail: str | None


class WorkerJson(TypedDict):
    name: str
    seenAt: Moment


class CertificateEndJson(TypedDict):
    """A certificate that a connection depends on: of a domain controller, by its URL, or of an authority that is
    trusted. `endsSoon` is whether that is within 30 days.
    """

    directory: str
    kind: Kind
    name: str
    endsAt: Moment
    endsSoon: bool


class HealthJson(TypedDict):
    """`status` is `ok` when all checks are, `degraded` while a part of the work can be done.

    `certificates` are those whose end is known, the next first. They change no status: everything works until then.
    """

    status: HealthStatus
    checks: list[CheckJson]
    workers: list[WorkerJson]
    certificates: list[CertificateEndJson]


@rest_operation(
    "health.read", "GET health", "Read the gateway's health", permission="directory.view_directoryconnection"
)
def read_health(call: Call) -> HealthJson:  # noqa: ARG001 - every operation takes its call
    """Read whether database, broker and every enabled directory answer, and whether a worker is there.

    Waits at most 3 seconds for answers, and keeps results for 2. Agents are among the checks if they are enabled and
    this host lacks what they need.
    """
    checks = list(readiness.checks())
    found: list[Worker] = []
    if all(check.detail is None for check in checks if check.name == "broker"):
        found, check = _check_workers()
        checks.append(check)
    if command := install_command():
        checks.append(Check("agents", f"what they need is not installed: {command}"))
    return {
        "status": status_of(checks),
        "checks": [
            {"name": check.name, "status": "ok" if check.detail is None else "unavailable", "detail": check.detail}
            for check in checks
        ],
        "workers": [as_record(WorkerJson, worker) for worker in found],
        "certificates": _find_ends(checks),
    }


def _find_ends(checks: list[Check]) -> list[CertificateEndJson]:
    if any(check.detail is not None for check in checks if check.name == "database"):
        return []
    ends = certificates.ends(wait_seconds=_CERTIFICATE_WAIT_SECONDS)
    return [
        as_record(CertificateEndJson, end, endsAt=render_timestamp(end.at), endsSoon=end.expires_soon) for end in ends
    ]


def _check_workers() -> tuple[list[Worker], Check]:
    try:
        found = find_workers()
    except (RedisError, OSError) as error:
        return [], Check("workers", str(error) or type(error).__name__)
    missing = f"no worker has given a sign of life for {HEARTBEAT_LIFETIME.total_seconds():g} s"
    return found, Check("workers", None if found else missing)
