"""Posts events to their endpoints. Any worker tries a due one, several times over three days; then it needs a person.

An endpoint's host name is resolved once, and the connection goes to an address that was checked, so that a second DNS
answer cannot lead inside (DNS rebinding). Redirects are not followed.
"""

import http.client
import socket
import ssl
from datetime import datetime, timedelta
from ipaddress import ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit

import structlog
from django.conf import settings
from django.utils.encoding import iri_to_uri

from audit.model_changes.recording import call_of_gateway, recorded
from audit.models import DeliveryState, WebhookDelivery, WebhookEndpoint
from audit.webhooks.events import sign
from core import tracing
from core.database import row_lease, shared_clock
from core.ip_addresses import may_be_reached

_logger = structlog.stdlib.get_logger(__name__)

TIMEOUT: Final = 10
"""Seconds for connecting, and for an answer."""
LEASE: Final = timedelta(seconds=60)
"""How long a worker has a delivery to itself."""
# The schedule that Standard Webhooks recommends: seconds at first, then hours, over three days.
PAUSES: Final = tuple(
    timedelta(seconds=seconds) for seconds in (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
)


class Undeliverable(Exception):
    """Why an attempt failed. `final` if there is no point in another one."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


def deliver_due(*, limit: int = 100) -> int:
    """Try the deliveries that are due; return how many succeeded."""
    due = WebhookDelivery.objects.filter(state=DeliveryState.WAITING, next_at__lte=shared_clock.now())
    delivered = 0
    for delivery in due.select_related("endpoint").order_by("next_at")[:limit]:
        if _lease(delivery):
            delivered += _try(delivery)
    return delivered


def redeliver(delivery: WebhookDelivery) -> None:
    """Send a delivery again that was given up or has succeeded."""
    WebhookDelivery.objects.filter(id=delivery.id).exclude(state=DeliveryState.WAITING).update(
        state=DeliveryState.WAITING, attempts=0, next_at=shared_clock.now(), error=""
    )


def _lease(delivery: WebhookDelivery) -> bool:
    mine = WebhookDelivery.objects.filter(id=delivery.id, state=DeliveryState.WAITING)
    return row_lease.try_take(mine, "next_at", seen=delivery.next_at, lasts=LEASE, counting="attempts")


@tracing.traced("deliver a webhook")
def _try(delivery: WebhookDelivery) -> bool:
    mine = WebhookDelivery.objects.filter(id=delivery.id, state=DeliveryState.WAITING)
    if not delivery.endpoint.enabled:
        mine.update(state=DeliveryState.DEAD, next_at=None, error="The endpoint is not enabled.")
        return False
    try:
        _post(delivery)
    except Undeliverable as failure:
        next_at = _next_attempt(delivery.attempts, failure)
        state = DeliveryState.WAITING if next_at else DeliveryState.DEAD
        mine.update(state=state, next_at=next_at, error=str(failure)[:500])
        _logger.warning(
            "webhook not delivered", endpoint=delivery.endpoint.name, delivery=str(delivery.id), reason=str(failure)
        )
        return False
    mine.update(state=DeliveryState.DELIVERED, next_at=None, delivered_at=shared_clock.now(), error="")
    return True


def _next_attempt(attempts_before: int, failure: Undeliverable) -> datetime | None:
    if failure.final or attempts_before >= len(PAUSES):
        return None
    return shared_clock.now() + PAUSES[attempts_before]


def _post(delivery: WebhookDelivery) -> None:
    """Make one attempt. Raises Undeliverable."""
    url = urlsplit(delivery.endpoint.url)
    body = delivery.body.encode()
    timestamp = int(shared_clock.now().timestamp())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "directory-management-gateway",
        "webhook-id": str(delivery.id),
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(delivery.endpoint.secret, str(delivery.id), timestamp, body),
    }
    connection = connect(url)
    try:
        connection.request("POST", path_of(url), body, headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise Undeliverable(f"No answer: {error}") from error
    finally:
        connection.close()
    if status == 410:  # Standard Webhooks: the endpoint wants no more events
        with recorded(call_of_gateway("The endpoint says that it is gone (410)."), delivery.endpoint):
            WebhookEndpoint.objects.filter(id=delivery.endpoint_id).update(enabled=False)
        raise Undeliverable("The endpoint is gone (410) and was disabled.", final=True)
    if not 200 <= status < 300:
        raise Undeliverable(f"The endpoint answered {status}.")


def path_of(url: SplitResult) -> str:
    """What a request names of a URL, in ASCII."""
    return iri_to_uri(f"{url.path or '/'}{'?' + url.query if url.query else ''}")


def connect(url: SplitResult) -> http.client.HTTPConnection:
    """Connect to an allowed address of the URL's host. Raises Undeliverable."""
    if url.scheme != "https" and not settings.CONFIGURATION.Webhooks.AllowPlainHttp:
        raise Undeliverable("Only HTTPS is allowed (Webhooks:AllowPlainHttp).")
    try:
        host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    except ValueError as error:
        raise Undeliverable(f"No address: {error}", final=True) from error
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    try:
        link = _open(_allowed_addresses(host, port), port)
        if url.scheme == "https":
            # The certificate must be for the name, although the connection goes to a checked address.
            link = ssl.create_default_context().wrap_socket(link, server_hostname=host)
    except OSError as error:
        raise Undeliverable(f"No connection: {error}") from error
    connection.sock = link
    return connection


def _open(addresses: list[str], port: int) -> socket.socket:
    for address in addresses[:-1]:
        try:
            return socket.create_connection((address, port), timeout=TIMEOUT)
        except OSError:
            continue
    return socket.create_connection((addresses[-1], port), timeout=TIMEOUT)


def _allowed_addresses(host: str, port: int) -> list[str]:
    """Resolve a host to its allowed addresses. Raises Undeliverable if it has none."""
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        raise Undeliverable(f"The host name {host} cannot be resolved: {error}") from error
    networks = [ip_network(network) for network in settings.CONFIGURATION.Webhooks.AllowedNetworks]
    allowed = sorted(address for address in addresses if may_be_reached(address, networks))
    if not allowed:
        raise Undeliverable(f"The address of {host} is not allowed (Webhooks:AllowedNetworks).")
    return allowed
