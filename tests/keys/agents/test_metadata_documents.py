"""Clients whose id is the address of their metadata: fetched where that is configured, from a server with TLS."""

import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from audit.models import OperationRecord
from keys.agents.clients import MAX_DOCUMENT_BYTES, is_metadata_url
from keys.models.agents import AgentClient
from lab.samba.certificates import CertificateAuthority
from tests.keys.agents.sign_in import LOOPBACK, Program, answer_in, decide
from tests.support.cast import Console
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db


@dataclass
class Publisher:
    """A web server with the metadata of one client."""

    address: str
    document: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    media_type: str = "application/json"
    asked: int = 0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    authority = CertificateAuthority(folder)
    authority.create("Agents' test")
    authority.issue(["127.0.0.1"], certificate_file=folder / "server.pem", key_file=folder / "server.key")
    return folder


@pytest.fixture
def publisher(certificates: Path, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked += 1
            body = json.dumps(made.document).encode()
            self.send_response(made.status)
            self.send_header("Content-Type", made.media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    made = Publisher(f"https://127.0.0.1:{server.server_port}/agent.json")
    made.document = {"client_id": made.address, "client_name": "Published", "redirect_uris": [LOOPBACK]}
    monkeypatch.setenv("SSL_CERT_FILE", str(CertificateAuthority(certificates).certificate_file))
    configure("Agents", MetadataDocuments=True, MetadataHosts=("127.0.0.1",))
    configure("Webhooks", AllowedNetworks=("127.0.0.0/8",))
    cache.clear()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


def test_it_works(console: Console, publisher: Publisher) -> None:
    program = Program(client_id=publisher.address)
    told = answer_in(decide(console, program.address()))
    assert program.exchange(told["code"]).status == 200
    assert publisher.asked == 1  # what it says counts for a while
    record = OperationRecord.objects.get(operation="agent-clients.create")
    assert (record.owner, record.target_dn) == ("(gateway)", "Published")


def test_what_it_says_later(console: Console, publisher: Publisher) -> None:
    program = Program(client_id=publisher.address)
    assert console.client.get(program.address()).status_code == 200
    AgentClient.objects.update(cimd_expires_at=timezone.now() - timedelta(seconds=1))
    cache.clear()
    publisher.document["redirect_uris"] = ["https://moved.example/callback"]
    assert console.client.get(program.address()).status_code == 400
    record = OperationRecord.objects.get(operation="agent-clients.update")
    assert record.changes == [
        {"attribute": "redirectUris", "before": [LOOPBACK], "after": ["https://moved.example/callback"]}
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"document": {"client_id": "https://127.0.0.1/other.json", "redirect_uris": [LOOPBACK]}},
        {"document": {"redirect_uris": [LOOPBACK]}},
        {"status": 302},
        {"media_type": "text/html"},
        {"more": {"redirect_uris": ["http://evil.example/"]}},
        {"more": {"client_secret": "x"}},
        {"more": {"token_endpoint_auth_method": "client_secret_post"}},
        {"more": {"padding": "x" * MAX_DOCUMENT_BYTES}},
    ],
    ids=str,
)
def test_what_is_not_believed(wrong: Any, console: Console, publisher: Publisher) -> None:
    publisher.document |= wrong.pop("more", {})
    for name, value in wrong.items():
        setattr(publisher, name, value)
    for _ in range(2):
        assert console.client.get(Program(client_id=publisher.address).address()).status_code == 400
    assert publisher.asked == 1  # not with each request
    assert not AgentClient.objects.exists()


def test_no_address_inside(console: Console, publisher: Publisher, configure: Configure) -> None:
    configure("Webhooks", AllowedNetworks=())
    assert console.client.get(Program(client_id=publisher.address).address()).status_code == 400
    assert publisher.asked == 0


def test_only_for_signed_in_people(publisher: Publisher, db: None) -> None:
    program = Program(client_id=publisher.address)
    assert program.http.get(program.address()).status_code == 302
    assert program.exchange("x").status in (400, 401)
    assert publisher.asked == 0


def test_which_addresses(configure: Configure) -> None:
    good = "https://app.example.com/agent.json"
    assert not is_metadata_url(good)
    configure("Agents", MetadataDocuments=True)
    assert not is_metadata_url(good)
    configure("Agents", MetadataHosts=(".example.com",))
    assert is_metadata_url(good)
    for bad in (
        "http://app.example.com/agent.json",
        "https://app.example.com",
        "https://app.example.com/",
        "https://app.example.com/../agent.json",
        "https://app.example.com/agent.json#x",
        "https://app.example.com/agent.json?x",
        "https://user@app.example.com/agent.json",
        "https://app.example.com:99999/agent.json",
        "https://app.example.org/agent.json",
        "https://app.example.com.evil.example/agent.json",
        f"https://app.example.com/{'x' * 64}",
    ):
        assert not is_metadata_url(bad), bad
