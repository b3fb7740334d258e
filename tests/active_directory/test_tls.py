"""Servers that must not be trusted with a password, each refused with the reason."""

import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from active_directory import Client, ServerSettings, TlsError
from active_directory.connections.inspection import check_server
from lab.samba.certificates import CertificateAuthority

Serve = Callable[[list[str], datetime.timedelta], str]


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    """An authority of the test's own."""
    authority = CertificateAuthority(tmp_path)
    authority.create("Authority of the tests")
    return authority


@pytest.fixture
def serve(authority: CertificateAuthority, tmp_path: Path) -> Iterator[Serve]:
    """Starts TLS servers with certificates of that authority; none of them ever gets a password."""
    listeners: list[socket.socket] = []
    received: list[bytes] = []

    def start(names: list[str], valid_for: datetime.timedelta) -> str:
        certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
        authority.issue(names, certificate_file=certificate, key_file=key, valid_for=valid_for)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        listener = socket.create_server(("127.0.31.1", 0))
        listeners.append(listener)
        threading.Thread(target=answer, args=(listener, context), daemon=True).start()
        return f"ldaps://127.0.31.1:{listener.getsockname()[1]}"

    def answer(listener: socket.socket, context: ssl.SSLContext) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), client, context.wrap_socket(client, server_side=True) as secured:
                received.append(secured.recv(4096))

    yield start
    for listener in listeners:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    assert not any(received)


YEAR = datetime.timedelta(days=365)


@pytest.mark.parametrize(
    ("names", "valid_for", "trusted", "reason"),
    [
        (["127.0.31.1"], YEAR, False, "not issued by a trusted authority"),
        (["dc1.corp.example.test"], YEAR, True, "for another address"),
        (["127.0.31.1"], -YEAR, True, "expired"),
    ],
)
def test_an_untrusted_server_is_refused_with_the_reason(
    server_settings: ServerSettings,
    authority: CertificateAuthority,
    serve: Serve,
    *,
    names: list[str],
    valid_for: datetime.timedelta,
    trusted: bool,
    reason: str,
) -> None:
    url = serve(names, valid_for)
    pem = authority.certificate_file.read_text() if trusted else server_settings.ca_certificate
    client = Client(replace(server_settings, urls=(url,), ca_certificate=pem))
    for attempt in (client.root_dse, lambda: check_server(client), lambda: client.authenticate("CN=a", "b")):
        with pytest.raises(TlsError, match=reason):
            attempt()


def test_the_systems_authorities_do_not_know_the_domain(server_settings: ServerSettings) -> None:
    with pytest.raises(TlsError, match=r"not issued by a trusted authority|self-signed"):
        Client(replace(server_settings, ca_certificate=None)).root_dse()


@pytest.mark.parametrize("pem", ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_an_unreadable_authority(server_settings: ServerSettings, pem: str) -> None:
    with pytest.raises(TlsError, match="cannot be read"):
        Client(replace(server_settings, ca_certificate=pem)).root_dse()


def test_start_tls(server_settings: ServerSettings) -> None:
    plain = tuple(url.replace("ldaps", "ldap") for url in server_settings.urls)
    client = Client(replace(server_settings, urls=plain, start_tls=True))
    assert client.root_dse()
    assert check_server(client).tls_version.startswith("TLS")
    client.close()
    with pytest.raises(TlsError, match=r"not issued by a trusted authority|self-signed"):
        Client(replace(client.settings, ca_certificate=None)).root_dse()


def test_a_password_is_not_sent_in_clear(server_settings: ServerSettings) -> None:
    for url in ("ldap://127.0.31.1", "ldapi:///", "http://127.0.31.1", "nonsense", ""):
        with pytest.raises(TlsError):
            Client(replace(server_settings, urls=(url,))).root_dse()


def test_no_file_is_left_behind(
    server_settings: ServerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    client = Client(server_settings)
    assert client.root_dse()
    client.close()
    assert list(tmp_path.iterdir()) == []
