"""What Prometheus may know: requests, their duration, how domain controllers answer, refusals, memory and time, and
what `gauges` reads when it is asked.

Each process writes files of its own and the one that is asked adds them all up (prometheus-client's multiprocess mode).
"""

import os
import shutil
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from audit.security import tell_of_refusals
from directory.ldap import listen


def _directory_of_this_server() -> Path:
    """The directory that the processes of one server share, named for their parent. Those of ended servers are removed.

    Process numbers are given out again: old files would be taken for those of a new process.
    """
    root: Path = settings.DATA_DIR / "metrics"
    mine = root / str(os.getppid())
    mine.mkdir(parents=True, exist_ok=True)
    for other in root.iterdir():
        if other.name.isdigit() and not Path("/proc", other.name).exists():
            shutil.rmtree(other, ignore_errors=True)
    return mine


os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(_directory_of_this_server())  # read when prometheus_client is imported

from prometheus_client import (  # noqa: E402 - see above
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric  # noqa: E402
from prometheus_client.multiprocess import MultiProcessCollector  # noqa: E402

from gateway.monitoring.gauges import Gauges  # noqa: E402 - it imports prometheus_client too

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Of the answer. From here, so that nobody else imports prometheus_client before its environment is set."""

_requests = Counter("gateway_requests", "Requests by operation and status.", ["operation", "method", "status"])
_seconds = Histogram(
    "gateway_request_seconds",
    "Time from request to answer.",
    ["operation"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
_refusals = Counter("gateway_rate_limited", "Requests refused by a rate limit.", ["policy"])

_directory_seconds = Histogram(
    "gateway_directory_seconds",
    "Time for which a connection to a domain controller was used: a read or write until its answer, a search whole.",
    ["server", "kind"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 20),
)
_directory_failures = Counter(
    "gateway_directory_failures",
    "Connections to domain controllers that broke or could not be opened; error BadCredentials is a refused bind.",
    ["server", "kind", "error"],
)
_directory_waits = Histogram(
    "gateway_directory_wait_seconds",
    "Time until a connection was there: others had all of them, or one had to be opened.",
    buckets=(0.001, 0.01, 0.1, 0.5, 1, 5),
)
_credentials_refused = Counter(
    "gateway_credentials_refused", "Refused sign-ins of people, and refused keys, tokens and sessions.", ["kind"]
)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def count_request(name: str, method: str | None, status: int, seconds: float) -> None:
    """Count one answered request. The name is one from the code: a client cannot invent new ones."""
    requests, durations = _counters(name, method if method in _METHODS else "other", status)
    requests.inc()
    durations.observe(seconds)


@lru_cache(maxsize=4096)
def _counters(name: str, method: str | None, status: int) -> tuple[Counter, Histogram]:
    """Finding them by their labels costs more than counting."""
    return _requests.labels(name, method, status), _seconds.labels(name)


def count_refusal(policy: str) -> None:
    """Count one request that a rate limit refused."""
    _refusals.labels(policy).inc()


class _Processes:
    """Memory and processor time of each living process of this server."""

    def collect(self) -> Iterable[Metric]:
        memory = GaugeMetricFamily("gateway_process_resident_bytes", "Resident memory.", labels=["pid"])
        time = GaugeMetricFamily("gateway_process_cpu_seconds", "Processor time used.", labels=["pid"])
        page, ticks = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
        files = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]).glob("counter_*.db")
        for pid in sorted({file.stem.partition("_")[2] for file in files}):
            try:
                statistics = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended; what it counted stays
            memory.add_metric([pid], int(statistics[21]) * page)
            time.add_metric([pid], (int(statistics[11]) + int(statistics[12])) / ticks)
        return [memory, time]


class _Directories:
    """How each domain controller answers; told by the LDAP layer."""

    def used(self, server: str, kind: str, seconds: float) -> None:
        _directory_children(server, kind).observe(seconds)

    def failed(self, server: str, kind: str, error: str) -> None:
        _directory_failures.labels(server, kind, error).inc()

    def waited(self, seconds: float) -> None:
        _directory_waits.observe(seconds)


@lru_cache(maxsize=256)
def _directory_children(server: str, kind: str) -> Histogram:
    return _directory_seconds.labels(server, kind)


listen(_Directories())
tell_of_refusals(lambda kind: _credentials_refused.labels(kind.value).inc())


def exposition() -> bytes:
    """All of it, in Prometheus' text format."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    registry.register(_Processes())
    registry.register(Gauges())
    return generate_latest(registry)
