"""Webhooks, sent to a real server on loopback."""

import json
import ssl
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from hmac import digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ValidationError
from django.test import Client, override_settings
from django.utils import timezone
from jsonschema import Draft202012Validator
from jsonschema import ValidationError as NotDescribed

from approvals.models import Status
from approvals.states import move
from audit import log
from audit.chain import sealing
from audit.models import OperationRecord, WebhookDelivery, WebhookEndpoint
from audit.read_buffer import SEALED_FROM, reads
from audit.webhooks import delivery as webhook_delivery
from audit.webhooks import events as webhooks
from core.configuration_sections import WebhooksSection
from core.ip_addresses import may_be_reached
from directory.shapes.proposal import Target
from keys.models import Person
from lab.commands import PROJECT
from lab.samba.certificates import CertificateAuthority
from tests.approvals.proposals import hold
from tests.audit.calls import CALL, call_named, make_call

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


class Receiver(ThreadingHTTPServer):
    """Keeps what is posted to it and answers with `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.status = 204

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?for=gateway"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(({"path": self.path, **{k.lower(): v for k, v in self.headers.items()}}, body))
        self.send_response(self.server.status)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def on_loopback() -> Iterator[None]:
    allowed = WebhooksSection(AllowedNetworks=("127.0.0.0/8",), AllowPlainHttp=True)
    with override_settings(CONFIGURATION=settings.CONFIGURATION.model_copy(update={"Webhooks": allowed})):
        yield


@pytest.fixture
def endpoint(receiver: Receiver, on_loopback: None) -> WebhookEndpoint:
    return WebhookEndpoint.objects.create(name="siem", url=receiver.url, events=["changes"])


def write_change() -> None:
    record = log.record_intent(CALL, log.Intent(operation="users.update"))
    log.complete(record.id, outcome="succeeded")


def require_documented(event: Any) -> None:
    """Fail unless the machine surface's document describes an event with this content."""
    document = json.loads((PROJECT / "docs" / "openapi" / "api.json").read_text())
    posted = document["webhooks"][event["type"]]["post"]["requestBody"]["content"]["application/json"]["schema"]
    Draft202012Validator({**posted, "components": document["components"]}).validate(event)


def due_now() -> None:
    WebhookDelivery.objects.filter(state="waiting").update(next_at=timezone.now())


def test_a_change_is_sent_and_signed(endpoint: WebhookEndpoint, receiver: Receiver) -> None:
    write_change()
    sealing.seal_records()
    assert webhook_delivery.deliver_due() == 1
    ((headers, body),) = receiver.received
    assert headers["path"] == "/hook?for=gateway"
    event = json.loads(body)
    assert (event["type"], event["data"]["operation"], event["data"]["owner"]) == (
        "operation.succeeded",
        "users.update",
        "ada",
    )
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = b64decode(endpoint.secret.removeprefix("whsec_"))
    assert headers["webhook-signature"] == "v1," + b64encode(digest(key, signed, sha256)).decode()
    assert abs(int(headers["webhook-timestamp"]) - timezone.now().timestamp()) < 60
    assert WebhookDelivery.objects.get().state == "delivered"
    assert webhook_delivery.deliver_due() == 0


def test_the_signature_is_the_standards() -> None:
    """The example of https://github.com/standard-webhooks/standard-webhooks."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    signature = webhooks.sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_each_closed_record_makes_one_event(endpoint: WebhookEndpoint) -> None:
    record = log.record_intent(CALL, log.Intent(operation="users.update"))
    log.record_read(CALL, operation="users.read")
    reads.flush()
    sealing.seal_records()
    assert not WebhookDelivery.objects.exists(), "neither an open record nor a read"
    log.complete(record.id, outcome="failed", code="AD.Object.NotFound")
    sealing.seal_records()
    sealing.seal_records()
    assert [delivery.event for delivery in WebhookDelivery.objects.all()] == ["operation.failed"]


def test_events_are_as_documented(endpoint: WebhookEndpoint) -> None:
    endpoint.events = ["changes", "change-requests"]
    endpoint.save()
    write_change()
    request = hold(make_call())
    move(request.id, Status.PENDING, Status.APPROVED)
    sealing.seal_records()
    events = [json.loads(delivery.body) for delivery in WebhookDelivery.objects.all()]
    named = {"operation.succeeded", "change-request.pending", "change-request.approved"}
    assert {event["type"] for event in events} >= named
    for event in events:
        require_documented(event)
    del events[0]["data"]["id"]
    with pytest.raises(NotDescribed):
        require_documented(events[0])


def test_every_event_is_documented() -> None:
    document = json.loads((PROJECT / "docs" / "openapi" / "api.json").read_text())
    assert list(document["webhooks"]) == [event.name for event in webhooks.all_events()]


def test_an_endpoint_gets_what_it_asked_for(endpoint: WebhookEndpoint) -> None:
    endpoint.events = ["reads", "change-requests"]
    endpoint.save()
    write_change()
    log.record_read(CALL, operation="users.read")
    reads.flush()
    sealing.seal_records()
    webhooks.enqueue_change_request("approved", lambda: {"id": "x"})
    events = set(WebhookDelivery.objects.values_list("event", flat=True))
    assert events == {"operation.succeeded", "change-request.approved"}
    assert "users.read" in WebhookDelivery.objects.get(event="operation.succeeded").body
    for _ in range(SEALED_FROM):  # these are sealed as they are written
        log.record_read(CALL, operation="users.search")
    reads.flush()
    assert WebhookDelivery.objects.filter(body__contains="users.search").count() == SEALED_FROM
    WebhookDelivery.objects.filter(body__contains="users.search").delete()
    endpoint.enabled = False
    endpoint.save()
    webhooks.enqueue_change_request("rejected", lambda: {"id": "x"})
    assert WebhookDelivery.objects.count() == 2


@pytest.mark.parametrize("status", [500, 404, 301])
def test_a_failed_delivery_is_tried_again_with_the_same_id(
    endpoint: WebhookEndpoint, receiver: Receiver, status: int
) -> None:
    receiver.status = status
    write_change()
    sealing.seal_records()
    begun = timezone.now()
    assert webhook_delivery.deliver_due() == 0
    delivery = WebhookDelivery.objects.get()
    assert (delivery.state, delivery.attempts, delivery.error) == ("waiting", 1, f"The endpoint answered {status}.")
    assert delivery.next_at is not None
    assert begun + timedelta(seconds=3) < delivery.next_at < timezone.now() + timedelta(seconds=6)
    WebhookDelivery.objects.update(next_at=timezone.now() + timedelta(minutes=10))  # for machines that take long
    assert webhook_delivery.deliver_due() == 0
    assert len(receiver.received) == 1, "not before its time"
    receiver.status = 200
    due_now()
    assert webhook_delivery.deliver_due() == 1
    assert receiver.received[0][0]["webhook-id"] == receiver.received[1][0]["webhook-id"]


def test_after_the_last_attempt_a_person_decides(endpoint: WebhookEndpoint, receiver: Receiver, client: Client) -> None:
    receiver.status = 503
    write_change()
    sealing.seal_records()
    for _ in range(len(webhook_delivery.PAUSES) + 3):
        webhook_delivery.deliver_due()
        due_now()
    delivery = WebhookDelivery.objects.get()
    assert (delivery.state, delivery.attempts) == ("dead", len(webhook_delivery.PAUSES) + 1)
    receiver.status = 200
    client.force_login(Person.objects.create_superuser("root", password=None))
    action = {"action": "try_again", "_selected_action": [str(delivery.id)]}
    response = client.post("/admin/audit/webhookdelivery/", action, follow=True)
    assert "1 events are sent again" in response.content.decode()
    assert webhook_delivery.deliver_due() == 1


def test_an_endpoint_that_is_gone_is_disabled(endpoint: WebhookEndpoint, receiver: Receiver) -> None:
    receiver.status = 410
    write_change()
    sealing.seal_records()
    webhook_delivery.deliver_due()
    endpoint.refresh_from_db()
    assert not endpoint.enabled
    assert WebhookDelivery.objects.get().state == "dead"
    record = OperationRecord.objects.get(operation="webhook-endpoints.update")
    assert (record.owner, record.target_id) == ("(gateway)", endpoint.pk)
    assert record.changes == [{"attribute": "enabled", "before": ["true"], "after": ["false"]}]


def test_a_server_that_is_away(endpoint: WebhookEndpoint, receiver: Receiver) -> None:
    endpoint.url = "http://127.0.0.1:9/"
    endpoint.save()
    write_change()
    sealing.seal_records()
    assert webhook_delivery.deliver_due() == 0
    assert "No connection" in WebhookDelivery.objects.get().error


def test_an_address_that_cannot_be_used_holds_up_no_other(endpoint: WebhookEndpoint, receiver: Receiver) -> None:
    for name, url in (
        ("port", "https://127.0.0.1:99999/"),
        ("long", f"https://{60 * 'ü'}.example.test/"),
        ("path", receiver.url.replace("hook", "für/ada b")),
    ):
        WebhookEndpoint.objects.create(name=name, url=url, events=["changes"])
    write_change()
    sealing.seal_records()
    WebhookDelivery.objects.filter(endpoint=endpoint).update(next_at=timezone.now() - timedelta(seconds=1))
    WebhookDelivery.objects.exclude(endpoint=endpoint).update(next_at=timezone.now() - timedelta(seconds=9))
    assert webhook_delivery.deliver_due() == 2
    assert {got["path"] for got, _ in receiver.received} == {"/hook?for=gateway", "/f%C3%BCr/ada%20b?for=gateway"}
    failed = WebhookDelivery.objects.exclude(state="delivered").order_by("endpoint__name")
    assert [each.error.partition(":")[0] for each in failed] == [
        "The host name " + 60 * "ü" + ".example.test cannot be resolved",
        "No address",
    ]


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "10.1.2.3", "169.254.1.1", "[::]", "0.0.0.1"),
        *("[64:ff9b::127.0.0.1]", "[64:ff9b::a01:203]", "[64:ff9b:1::808:808]", "[2002:7f00:1::]", "[2002:a01:203::1]"),
        *("[::127.0.0.1]", "[::8.8.8.8]", "[fec0::1]", "[fe80::1]", "[fd00::1]", "[2001:0:808:808::80fe:fdfc]"),
        *("[2001:4860::5efe:10.1.2.3]", "[2001:4860::200:5efe:10.1.2.3]", "[ff0e::1]", "[2001:db8::1]", "[100::1]"),
        *("[5f00::1]", "[4000::1]", "224.0.0.1", "100.64.0.1", "192.0.2.1", "198.18.0.1", "240.0.0.1", "2130706433"),
    ],
)
def test_private_addresses_are_refused(host: str) -> None:
    endpoint = WebhookEndpoint.objects.create(name="inside", url=f"https://{host}:1/", events=["changes"])
    write_change()
    sealing.seal_records()
    webhook_delivery.deliver_due()
    assert "not allowed (Webhooks:AllowedNetworks)" in WebhookDelivery.objects.get(endpoint=endpoint).error


@pytest.mark.parametrize(
    ("address", "networks", "allowed"),
    [
        ("8.8.8.8", [], True),
        ("2606:4700::1111", [], True),
        ("::ffff:8.8.8.8", [], True),
        ("64:ff9b::8.8.8.8", [], True),  # what DNS64 makes of a public one, where there is IPv6 alone
        ("10.1.2.3", ["10.0.0.0/8"], True),
        ("64:ff9b::10.1.2.3", ["10.0.0.0/8"], True),
        ("64:ff9b::10.1.2.3", ["192.168.0.0/16"], False),
        ("fd00::1", ["fd00::/8"], True),
        ("fe80::1%2", ["fe80::/10"], True),
        ("64:ff9b:1::a01:203", ["10.0.0.0/8"], False),
    ],
)
def test_addresses_that_may_be_reached(address: str, networks: list[str], allowed: bool) -> None:
    assert may_be_reached(address, map(ip_network, networks)) is allowed


def test_plain_http_is_refused() -> None:
    WebhookEndpoint.objects.create(name="plain", url="http://192.0.2.1/", events=["changes"])
    write_change()
    sealing.seal_records()
    webhook_delivery.deliver_due()
    assert "Only HTTPS" in WebhookDelivery.objects.get().error


def test_certificates_are_verified(
    endpoint: WebhookEndpoint, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = CertificateAuthority(tmp_path)
    authority.create("Webhook test")
    authority.issue(["127.0.0.1"], certificate_file=tmp_path / "server.pem", key_file=tmp_path / "server.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    receiver.socket = context.wrap_socket(receiver.socket, server_side=True)
    endpoint.url = receiver.url.replace("http:", "https:")
    endpoint.save()
    write_change()
    sealing.seal_records()
    assert webhook_delivery.deliver_due() == 0
    assert "certificate verify failed" in WebhookDelivery.objects.get().error
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate_file))
    due_now()
    assert webhook_delivery.deliver_due() == 1


def test_many_workers_send_an_event_once(endpoint: WebhookEndpoint, receiver: Receiver) -> None:
    for _ in range(5):
        write_change()
    sealing.seal_records()
    due = list(WebhookDelivery.objects.all())
    assert all(webhook_delivery._lease(delivery) for delivery in due)
    assert not any(webhook_delivery._lease(delivery) for delivery in due), "another worker has it"
    assert webhook_delivery.deliver_due() == 0


def test_an_endpoint_is_made_in_the_admin(client: Client) -> None:
    client.force_login(Person.objects.create_superuser("root", password=None))
    given = {"name": "siem", "url": "https://siem.example.test/in", "events": ["changes", "reads"], "enabled": "on"}
    given["format"] = "standard"
    page = client.post("/admin/audit/webhookendpoint/add/", given, follow=True).content.decode()
    endpoint = WebhookEndpoint.objects.get()
    assert endpoint.events == ["changes", "reads"]
    assert endpoint.secret in page
    assert endpoint.secret not in client.get(f"/admin/audit/webhookendpoint/{endpoint.pk}/change/").content.decode()
    old = endpoint.secret
    action = {"action": "renew_secret", "_selected_action": [str(endpoint.pk)]}
    page = client.post("/admin/audit/webhookendpoint/", action, follow=True).content.decode()
    endpoint.refresh_from_db()
    assert endpoint.secret in page
    assert endpoint.secret != old
    refused = client.post("/admin/audit/webhookendpoint/add/", {**given, "name": "b", "events": [], "url": "ftp://x"})
    assert {"events", "url"} <= set(refused.context["adminform"].form.errors)


def test_delivered_events_are_forgotten_in_time(endpoint: WebhookEndpoint) -> None:
    for state in ("delivered", "dead"):
        old = WebhookDelivery.objects.create(endpoint=endpoint, event="x", body="{}", state=state)
        WebhookDelivery.objects.filter(id=old.id).update(created_at=timezone.now() - timedelta(days=8))
    assert webhooks.delete_delivered() == 1
    assert WebhookDelivery.objects.get().state == "dead"


@pytest.fixture
def channels(receiver: Receiver, on_loopback: None) -> Iterator[None]:
    for name in ("slack", "teams"):
        WebhookEndpoint.objects.create(name=name, url=receiver.url, events=["change-requests"], format=name)
    approvals = settings.CONFIGURATION.Approvals.model_copy(update={"BaseUrl": "https://gateway.example.test"})
    with override_settings(CONFIGURATION=settings.CONFIGURATION.model_copy(update={"Approvals": approvals})):
        yield


def test_messages_for_people(channels: None, receiver: Receiver) -> None:
    target = Target(id=None, kind="user", distinguished_name="CN=Ada \\<3 & co,DC=corp")
    request = hold(make_call(reason="Ticket\n4711"), target=target)
    link = f"https://gateway.example.test/console/changes/{request.id}"
    assert webhook_delivery.deliver_due() == 2
    slack, teams = sorted((json.loads(body) for _, body in receiver.received), key=lambda body: "type" in body)
    assert slack["text"] == (
        f"<{link}|Waits for a decision: Change e-mail of Ada &lt;3 &amp; co>\n"
        "Risk: security\nAsked by: ada, key crm\nReason: Ticket 4711"
    )
    ((section,),) = [block["elements"] for block in slack["blocks"] if block["type"] == "rich_text"]
    title, *facts = section["elements"]
    assert (title["url"], title["text"]) == (link, "Waits for a decision: Change e-mail of Ada <3 & co")
    assert [fact["text"] for fact in facts] == ["\nRisk: security", "\nAsked by: ada, key crm", "\nReason: Ticket 4711"]
    assert {fact["type"] for fact in facts} == {"text"}, "others are formatted, or become links"
    (attachment,) = teams["attachments"]
    card = attachment["content"]
    assert (teams["type"], attachment["contentType"]) == ("message", "application/vnd.microsoft.card.adaptive")
    blocks = [[run["text"] for run in block["inlines"]] for block in card["body"]]
    assert blocks[0] == ["Waits for a decision: Change e-mail of Ada <3 & co"]
    assert ["Risk: ", "security"] in blocks
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}, "other blocks would render Markdown"
    assert card["actions"] == [{"type": "Action.OpenUrl", "title": "Open", "url": link}]
    assert not any(b"new@example.test" in body for _, body in receiver.received), "no values"


def test_people_hear_once_of_a_batch_and_of_what_becomes_of_it(channels: None) -> None:
    first, second = (hold(make_call(**call_named("batch"))) for _ in range(2))
    WebhookEndpoint.objects.filter(name="teams").delete()
    assert list(WebhookDelivery.objects.values_list("event", flat=True)) == ["change-request.pending"]
    move(second.id, Status.PENDING, Status.APPROVED)
    move(second.id, Status.APPROVED, Status.APPLYING)
    assert WebhookDelivery.objects.count() == 1, "that it is under way nobody waits for"
    move(second.id, Status.APPLYING, Status.APPLIED)
    assert WebhookDelivery.objects.filter(event="change-request.applied").count() == 1
    assert first.status == Status.PENDING


def test_messages_for_people_tell_of_change_requests_alone() -> None:
    endpoint = WebhookEndpoint(name="x", url="https://x.example/", events=["changes"], format="slack")
    with pytest.raises(ValidationError):
        endpoint.full_clean()
    endpoint.events = ["change-requests"]
    endpoint.full_clean()
