"""What is read from database and broker when Prometheus asks: what waits, what is late, what ends soon.

Every web process would answer the same, so an alert takes the maximum over hosts and not the sum. Whatever cannot be
read is left out: then more than ever the other measurements are wanted.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Count, Max, Min, Q
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from redis import RedisError

from approvals.models import ChangeRequest
from approvals.statistics import find_waiting
from audit.chain.sealing import find_unsealed
from audit.models import OPEN_OUTCOMES, LogVerification, OperationRecord
from audit.webhooks.models import WebhookDelivery
from core.redis.clients import redis_client
from core.secrets.encryption import UndecryptableSecret
from gateway.models import NotedBackup
from gateway.monitoring.certificates import certificates
from gateway.monitoring.heartbeats import find_lost_workers, find_workers
from gateway.monitoring.readiness import readiness
from keys.models import ApiKey

_SOON: Final = {"7d": timedelta(days=7), "30d": timedelta(days=30)}
_PATIENCE: Final = 3.0
"""Seconds for which domain controllers are waited for whose certificates were not seen yet: once in a process."""
_QUEUE: Final = "celery"
"""Celery's own name for the one queue there is."""


class Gauges(Collector):
    """A collector of prometheus_client's."""

    def collect(self) -> Iterable[Metric]:
        """All that can be read now."""
        for read in _READERS:
            try:
                yield from list(read())
            except (DatabaseError, RedisError, OSError, UndecryptableSecret):
                continue


def _gauge(name: str, says: str, value: float) -> Metric:
    return GaugeMetricFamily(f"gateway_{name}", says, value=value)


def _labelled(name: str, says: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    """One value for each value of a label."""
    gauge = GaugeMetricFamily(f"gateway_{name}", says, labels=[label])
    for of, value in values:
        gauge.add_metric([of], value)
    return gauge


def _age(since: datetime | None) -> float:
    """In seconds, 0 without anything that is old."""
    return max(0.0, (timezone.now() - since).total_seconds()) if since else 0.0


def _change_requests() -> Iterator[Metric]:
    found = find_waiting(ChangeRequest.objects.all())
    by_risk = ((risk.value, count) for risk, count in found.by_risk.items())
    yield _labelled("change_requests_waiting", "Change requests that wait for a decision.", "risk", by_risk)
    age = found.oldest_age.total_seconds() if found.oldest_age else 0
    yield _gauge("change_requests_oldest_seconds", "Age of the oldest of them, 0 when there is none.", age)


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
    found: dict[str, Any] = WebhookDelivery.objects.order_by().aggregate(
        waiting=Count("id", filter=Q(state="waiting")),
        oldest=Min("created_at", filter=Q(state="waiting")),
        dead=Count("id", filter=Q(state="dead")),
    )
    yield _gauge("webhook_deliveries_waiting", "Webhook events that are not delivered yet.", found["waiting"])
    yield _gauge("webhook_oldest_seconds", "Age of the oldest of them, 0 when there is none.", _age(found["oldest"]))
    yield _gauge("webhook_deliveries_dead", "Webhook events that were given up.", found["dead"])


def _keys() -> Iterator[Metric]:
    now = timezone.now()
    valid = ApiKey.objects.filter(revoked_at=None, expires_at__gt=now)
    expiring = ((name, valid.filter(expires_at__lte=now + time).count()) for name, time in _SOON.items())
    yield _labelled("api_keys_expiring", "Valid API keys that expire within this time.", "within", expiring)


def _certificates() -> Iterator[Metric]:
    """A connection that names no authority trusts the system's, which are not told of."""
    servers = GaugeMetricFamily(
        "gateway_directory_certificate_expiry_timestamp_seconds",
        "When the certificate ends that a domain controller shows.",
        labels=["directory", "server"],
    )
    authorities: dict[str, float] = {}
    for end in certificates.ends(patience=_PATIENCE):  # the earliest comes first
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
        queued: Any = redis.llen(_QUEUE)
    yield _gauge("tasks_queued", "Tasks that no worker has taken yet.", queued)


def _backups() -> Iterator[Metric]:
    last = NotedBackup.objects.aggregate(at=Max("made_at"))["at"]
    seconds = last.timestamp() if last else 0.0
    yield _gauge("last_backup_timestamp_seconds", "When `gateway backup` last made one, 0 for never.", seconds)


def _checks() -> Iterator[Metric]:
    found = ((check.name, check.detail is None) for check in readiness.glance())
    yield _labelled("check_ok", "Whether what the gateway works with was there lately: 1, else 0.", "check", found)


_READERS: Final[tuple[Callable[[], Iterator[Metric]], ...]] = (
    *(_change_requests, _records, _seals, _webhooks, _keys, _certificates, _workers, _backups, _checks),
)
