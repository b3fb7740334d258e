"""The metrics for Prometheus: counters of all processes, and gauges read from database and broker on each scrape.

Each process writes files of its own, and the one that is scraped adds them up (prometheus-client's multiprocess mode).
The gauges (what waits, is late, or expires soon) are the same in every web process, so alerts take the maximum over
hosts and not the sum. A gauge that cannot be read is left out, since in an outage the others matter most.
"""

import collections
import logging
import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.db.models import Count, Max, Min
from django.utils import timezone
from redis import RedisError

from active_directory import Listener, listen
from approvals.ends import LATE
from approvals.models import ChangeRequest
from approvals.statistics import find_waiting
from audit.chain.sealing import find_unsealed
from audit.models import OPEN_OUTCOMES, DeliveryState, LogVerification, OperationRecord, WebhookDelivery
from audit.security import add_refusal_listener
from core import tracing
from core.background_writer import BackgroundWriter
from core.redis.clients import redis_client
from core.redis.queues import QUEUES
from core.secrets.encryption import UndecryptableSecret
from gateway.models import NotedBackup
from gateway.monitoring import metrics_folder
from gateway.monitoring.certificates import certificates
from gateway.monitoring.readiness import readiness
from gateway.monitoring.workers import find_lost_workers, find_workers
from keys.models.api_keys import valid_keys

if not metrics_folder.is_chosen():
    metrics_folder.use_for_web()

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Re-exported, so that nobody imports prometheus_client before PROMETHEUS_MULTIPROC_DIR is set."""

_requests = Counter("gateway_requests", "Requests by operation and status.", ["operation", "method", "status"])


class _Seconds(Histogram):
    """Observes many times at once."""

    def observe_all(self, amounts: Sequence[float]) -> None:
        """The same as `observe` for each, written once."""
        self._sum.inc(sum(amounts))
        for bucket, number in collections.Counter(bisect_left(self._upper_bounds, each) for each in amounts).items():
            self._buckets[bucket].inc(number)


_seconds = _Seconds(
    "gateway_request_seconds",
    "Time from request to answer.",
    ["operation"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
_refusals = Counter("gateway_rate_limited", "Requests refused by a rate limit.", ["policy"])

_directory_seconds = _Seconds(
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

_LOGGER = "gateway.directory"
_logger = structlog.stdlib.get_logger(_LOGGER)
_level = logging.getLogger(_LOGGER)
"""At DEBUG, each LDAP operation gets a log line with the id of its request."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def count_requests(answered: Iterable[tuple[str, str | None, int, float]]) -> None:
    """Count answered requests: name, method, status and seconds.

    The name is from the code: clients must not be able to create new labels.
    """
    alike = defaultdict(list)
    for name, method, status, seconds in answered:
        alike[name, method if method in _METHODS else "other", status].append(seconds)
    for labels, all_seconds in alike.items():
        counted, measured = _of_request(*labels)
        counted.inc(len(all_seconds))
        measured.observe_all(all_seconds)


@lru_cache(maxsize=4096)
def _of_request(name: str, method: str | None, status: int) -> tuple[Counter, _Seconds]:
    return _requests.labels(name, method, status), _seconds.labels(name)


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
    """Count one task that a worker ran; the outcome is `done` or `failed`."""
    _tasks.labels(name, outcome).inc()
    _task_seconds.labels(name).observe(seconds)


_Labels = dict[str, str]
_Sources = Sequence[tuple[Sequence[Path], _Labels]]
_WORKER_LABELS = {"process": "worker"}


class _SummedCounters(Collector):
    """Adds up the counters of the processes in some folders, separately for each set of labels.

    A worker restarts without its web server: in a common sum, Prometheus would take that for a reset of the counter.
    """

    def __init__(self, sources: _Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for folders, labels in self._sources:
            files = [str(file) for folder in folders for file in folder.glob("*.db")]
            for found in MultiProcessCollector.merge(files, accumulate=True):  # type: ignore[no-untyped-call]
                family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
                family.samples += [each._replace(labels={**each.labels, **labels}) for each in found.samples]
        return families.values()


class _ProcessUsage(Collector):
    """Memory and processor time of the live processes of some folders, as far as this PID namespace shows them."""

    def __init__(self, sources: _Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterable[Metric]:
        memory = GaugeMetricFamily("gateway_process_resident_bytes", "Resident memory.", labels=["pid", "process"])
        time = GaugeMetricFamily("gateway_process_cpu_seconds", "Processor time used.", labels=["pid", "process"])
        page, ticks = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
        for folders, labels in self._sources:
            seen = [folder for folder in folders if metrics_folder.is_in_our_pid_namespace(folder)]
            files = (file for folder in seen for file in folder.glob("counter_*.db"))
            for pid in sorted({file.stem.partition("_")[2] for file in files}):
                try:
                    statistics = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue  # the process has ended, though its counters remain
                named = [pid, labels.get("process", "web")]
                memory.add_metric(named, int(statistics[21]) * page)
                time.add_metric(named, (int(statistics[11]) + int(statistics[12])) / ticks)
        return [memory, time]


@lru_cache(maxsize=256)
def _of_server(server: str, kind: str) -> _Seconds:
    return _directory_seconds.labels(server, kind)


def _measure_uses(uses: Iterable[tuple[str, str, float]]) -> bool:
    alike = defaultdict(list)
    for server, kind, seconds in uses:
        alike[server, kind].append(seconds)
    for labels, all_seconds in alike.items():
        _of_server(*labels).observe_all(all_seconds)
    return True


_uses: BackgroundWriter[tuple[str, str, float]] = BackgroundWriter("uses-of-directory", _measure_uses, delay=0.05)
"""Uses of connections, which are measured together: one by one it would take a twentieth of a read's time."""


class _DirectoryMetrics(Listener):
    """Measures how each domain controller answers; the LDAP layer calls it."""

    def used(self, server: str, kind: str, seconds: float) -> None:
        _uses.add((server, kind, seconds))
        if _level.isEnabledFor(logging.DEBUG):
            _logger.debug("directory asked", kind=kind, server=server, ms=round(seconds * 1000, 1))
        tracing.record_past_span(f"LDAP {kind}", seconds, **{"server.address": server})

    def failed(self, server: str, kind: str, error: str) -> None:
        _directory_failures.labels(server, kind, error).inc()
        _logger.debug("directory failed", kind=kind, server=server, error=error)
        tracing.add_event(f"LDAP {kind} failed", **{"server.address": server, "error.type": error})

    def waited(self, seconds: float) -> None:
        _directory_waits.observe(seconds)


listen(_DirectoryMetrics())
add_refusal_listener(lambda kind: _credentials_refused.labels(kind.value).inc())


def exposition() -> bytes:
    """The metrics of a web server, its host's workers and the gauges, in Prometheus' text format."""
    sources: _Sources = [([metrics_folder.own_folder()], {}), (metrics_folder.worker_folders(), _WORKER_LABELS)]
    return _render(sources, Gauges())


def exposition_of_worker() -> bytes:
    """The metrics of a worker's own processes, in Prometheus' text format."""
    return _render([([metrics_folder.own_folder()], _WORKER_LABELS)])


def _render(sources: _Sources, *others: Collector) -> bytes:
    _uses.flush()
    registry = CollectorRegistry()
    collectors: tuple[Collector, ...] = (_SummedCounters(sources), _ProcessUsage(sources), *others)
    for each in collectors:
        registry.register(each)
    return generate_latest(registry)


_SOON = {"7d": timedelta(days=7), "30d": timedelta(days=30)}
_CERTIFICATE_WAIT_SECONDS = 3.0
"""How long a process waits, once, for certificates that it has not read yet."""

_MOST_COUNTED = 1000
"""How far deliveries are counted, so that a scrape takes as long whatever an endpoint that is away has left.

PostgreSQL counts so few by the index, also while it has no statistics of the table.
"""


class Gauges(Collector):
    """Reads the gauges from the database, the broker and this process."""

    def collect(self) -> Iterable[Metric]:
        """Yield every gauge that can be read now."""
        for read in _READERS:
            try:
                yield from list(read())
            except (DatabaseError, RedisError, OSError, UndecryptableSecret):
                continue


def _gauge(name: str, description: str, value: float) -> Metric:
    return GaugeMetricFamily(f"gateway_{name}", description, value=value)


def _labelled(name: str, description: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    """A gauge with one value for each label value."""
    gauge = GaugeMetricFamily(f"gateway_{name}", description, labels=[label])
    for of, value in values:
        gauge.add_metric([of], value)
    return gauge


def _age(since: datetime | None) -> float:
    """Seconds since then; 0 for None."""
    return max(0.0, (timezone.now() - since).total_seconds()) if since else 0.0


def _change_requests() -> Iterator[Metric]:
    found = find_waiting(ChangeRequest.objects.all())
    by_risk = ((risk.value, count) for risk, count in found.by_risk.items())
    yield _labelled("change_requests_waiting", "Change requests that wait for a decision.", "risk", by_risk)
    age = found.oldest_age.total_seconds() if found.oldest_age else 0
    yield _gauge("change_requests_oldest_seconds", "Age of the oldest of them, 0 when there is none.", age)
    late = ChangeRequest.objects.filter(retry_at__isnull=False, ends__isnull=False, due_at__lte=timezone.now() - LATE)
    yield _gauge("changes_overdue", "Changes that should have ended five minutes ago or earlier.", late.count())


def _records() -> Iterator[Metric]:
    found: dict[str, Any] = OperationRecord.objects.filter(outcome__in=OPEN_OUTCOMES).aggregate(
        count=Count("id"), oldest=Min("at")
    )
    yield _gauge("log_open_records", "Records of changes whose outcome is not known yet.", found["count"])
    yield _gauge("log_open_oldest_seconds", "Age of the oldest of them, 0 when there is none.", _age(found["oldest"]))


def _seals() -> Iterator[Metric]:
    found = find_unsealed()
    yield _gauge("log_unsealed_records", "Records that no seal holds yet.", found.count)
    yield _gauge("log_unsealed_oldest_seconds", "Age of the oldest of them: the lag of sealing.", _age(found.oldest))
    yield _gauge("log_refused_records", "Records that are not the gateway's own.", found.refused)
    last = LogVerification.objects.order_by("-at").first()
    if last is not None:
        yield _gauge("log_verified_timestamp_seconds", "When the log was last verified.", last.at.timestamp())
        yield _gauge("log_intact", "1 if nothing was found then, else 0.", last.finding is None)


def _webhooks() -> Iterator[Metric]:
    waiting, dead = _deliveries(DeliveryState.WAITING), _deliveries(DeliveryState.DEAD)
    yield _gauge("webhook_deliveries_waiting", "Webhook events that are not delivered yet.", waiting["count"])
    yield _gauge("webhook_oldest_seconds", "Age of the oldest of them, 0 when there is none.", _age(waiting["oldest"]))
    yield _gauge("webhook_deliveries_dead", "Webhook events that were given up.", dead["count"])


def _deliveries(state: DeliveryState) -> dict[str, Any]:
    """How many deliveries are in a state, as far as they are counted, and when the oldest was made."""
    oldest = WebhookDelivery.objects.filter(state=state).order_by("created_at").values("created_at")[:_MOST_COUNTED]
    return oldest.aggregate(count=Count("created_at"), oldest=Min("created_at"))


def _keys() -> Iterator[Metric]:
    now, valid = timezone.now(), valid_keys()
    expiring = ((name, valid.filter(expires_at__lte=now + time).count()) for name, time in _SOON.items())
    yield _labelled("api_keys_expiring", "Valid API keys that expire within this time.", "within", expiring)


def _certificates() -> Iterator[Metric]:
    """A connection without its own authority trusts the system's, which are not reported."""
    servers = GaugeMetricFamily(
        "gateway_directory_certificate_expiry_timestamp_seconds",
        "When the certificate ends that a domain controller shows.",
        labels=["directory", "server"],
    )
    authorities: dict[str, float] = {}
    for end in certificates.ends(wait_seconds=_CERTIFICATE_WAIT_SECONDS):  # the earliest comes first
        if end.kind == "server":
            servers.add_metric([end.directory, end.name], end.at.timestamp())
        else:
            authorities.setdefault(end.directory, end.at.timestamp())
    yield _labelled(
        "directory_ca_expiry_timestamp_seconds",
        "When the certificate authority of a connection ends, the earliest of several.",
        "directory",
        authorities.items(),
    )
    yield servers


def _workers() -> Iterator[Metric]:
    yield _labelled(
        "worker_lost_seconds",
        "Time since the last sign of life of a worker that did not say that it ends; for an hour.",
        "worker",
        ((worker.name, _age(worker.seen_at)) for worker in find_lost_workers()),
    )
    yield _gauge("workers", "Workers that have given a sign of life in the last 30 seconds.", len(find_workers()))
    with redis_client(settings.REDIS_URL, seconds=1) as redis:
        queued = sum(redis.llen(queue) for queue in QUEUES)
    yield _gauge("tasks_queued", "Tasks that no worker has taken yet.", queued)


def _backups() -> Iterator[Metric]:
    last = NotedBackup.objects.aggregate(at=Max("made_at"))["at"]
    seconds = last.timestamp() if last else 0.0
    yield _gauge("last_backup_timestamp_seconds", "When `gateway backup` last made one, 0 for never.", seconds)


def _checks() -> Iterator[Metric]:
    found = ((check.name, check.detail is None) for check in readiness.latest_checks())
    yield _labelled("check_ok", "Whether what the gateway works with was there lately: 1, else 0.", "check", found)


_READERS = (_change_requests, _records, _seals, _webhooks, _keys, _certificates, _workers, _backups, _checks)
