"""What Prometheus may know: requests, their duration, how domain controllers answer, refusals, memory and time, and
what `gauges` reads when it is asked.

Each process writes files of its own and the one that is asked adds them all up (prometheus-client's multiprocess mode).
"""

import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import structlog

from active_directory import Listener, listen
from audit.security import tell_of_refusals
from core import tracing
from gateway.monitoring import metrics_folder

if not metrics_folder.is_chosen():
    metrics_folder.use_for_web()

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from gateway.monitoring.gauges import Gauges

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

_LOGGER: Final = "gateway.directory"
_logger = structlog.stdlib.get_logger(_LOGGER)
_level = logging.getLogger(_LOGGER)
"""At DEBUG a line for each time that a domain controller is asked, with the id of the request that asks."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def count_request(name: str, method: str | None, status: int, seconds: float) -> None:
    """Count one answered request. The name is one from the code: a client cannot invent new ones."""
    _requests.labels(name, method if method in _METHODS else "other", status).inc()
    _seconds.labels(name).observe(seconds)


def count_refusal(policy: str) -> None:
    """Count one request that a rate limit refused."""
    _refusals.labels(policy).inc()


_tasks = Counter("gateway_tasks", "Tasks that workers did, by name and how they ended.", ["task", "outcome"])
_task_seconds = Histogram(
    "gateway_task_seconds",
    "Time that a task took.",
    ["task"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800),
)


def count_task(name: str, outcome: str, seconds: float) -> None:
    """Count one task that a worker did; the outcome is `done` or `failed`."""
    _tasks.labels(name, outcome).inc()
    _task_seconds.labels(name).observe(seconds)


_Labels = dict[str, str]
_Places = Sequence[tuple[Sequence[Path], _Labels]]
_OF_WORKER: Final[_Labels] = {"process": "worker"}


class _Counted(Collector):
    """What the processes of some folders have counted, added up for those with the same labels.

    A worker is restarted without its web server: added up without a label, the sum would seem to begin anew.
    """

    def __init__(self, places: _Places) -> None:
        self._places = places

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for folders, labels in self._places:
            files = [str(file) for folder in folders for file in folder.glob("*.db")]
            for found in MultiProcessCollector.merge(files, accumulate=True):  # type: ignore[no-untyped-call]
                family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
                family.samples += [each._replace(labels={**each.labels, **labels}) for each in found.samples]
        return families.values()


class _Processes(Collector):
    """Memory and processor time of each living process of these folders that can be seen from here."""

    def __init__(self, places: _Places) -> None:
        self._places = places

    def collect(self) -> Iterable[Metric]:
        memory = GaugeMetricFamily("gateway_process_resident_bytes", "Resident memory.", labels=["pid", "process"])
        time = GaugeMetricFamily("gateway_process_cpu_seconds", "Processor time used.", labels=["pid", "process"])
        page, ticks = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
        for folders, labels in self._places:
            seen = [folder for folder in folders if metrics_folder.has_numbers_of_here(folder)]
            files = (file for folder in seen for file in folder.glob("counter_*.db"))
            for pid in sorted({file.stem.partition("_")[2] for file in files}):
                try:
                    statistics = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue  # it has ended; what it counted stays
                named = [pid, labels.get("process", "web")]
                memory.add_metric(named, int(statistics[21]) * page)
                time.add_metric(named, (int(statistics[11]) + int(statistics[12])) / ticks)
        return [memory, time]


class _Directories(Listener):
    """How each domain controller answers; told by the LDAP layer."""

    def used(self, server: str, kind: str, seconds: float) -> None:
        _directory_seconds.labels(server, kind).observe(seconds)
        if _level.isEnabledFor(logging.DEBUG):
            _logger.debug("directory asked", kind=kind, server=server, ms=round(seconds * 1000, 1))
        tracing.past(f"LDAP {kind}", seconds, **{"server.address": server})

    def failed(self, server: str, kind: str, error: str) -> None:
        _directory_failures.labels(server, kind, error).inc()
        _logger.debug("directory failed", kind=kind, server=server, error=error)
        tracing.event(f"LDAP {kind} failed", **{"server.address": server, "error.type": error})

    def waited(self, seconds: float) -> None:
        _directory_waits.observe(seconds)


listen(_Directories())
tell_of_refusals(lambda kind: _credentials_refused.labels(kind.value).inc())


def exposition() -> bytes:
    """What a web server tells, in Prometheus' text format: of its processes, of this host's workers, of what waits."""
    places: _Places = [([metrics_folder.of_this_process()], {}), (metrics_folder.of_workers(), _OF_WORKER)]
    return _rendered(places, Gauges())


def exposition_of_worker() -> bytes:
    """What a worker tells of its own processes."""
    return _rendered([([metrics_folder.of_this_process()], _OF_WORKER)])


def _rendered(places: _Places, *others: Gauges) -> bytes:
    registry = CollectorRegistry()
    collectors: tuple[Collector, ...] = (_Counted(places), _Processes(places), *others)
    for each in collectors:
        registry.register(each)
    return generate_latest(registry)
