"""The bind password goes nowhere else: who does not know it does not decide where it is sent."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection as database
from django.db.models import Field
from django.test import Client
from django.urls import reverse

from active_directory import LdapError
from audit.model_changes.recording import call_of_command
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.models.connections import DESTINATION_FIELDS
from directory.queries.connection_test import try_connection
from lab.domain import Domain
from tests.support.cast import Answer, Console, make_person

EDITOR = ["directory.view_directoryconnection", "directory.change_directoryconnection"]
OTHERWISE = {
    "id": "which it is",
    "name": "what people call it",
    "base_dn": "where searches begin, after the sign-in",
    "bind_password": "the password itself",
    "bind_seal": "the seal itself",
    "pending_bind_password": "a password too, which the gateway makes",
    "pending_since": "when it made it",
    "previous_bind_password": "a password too, which the gateway replaced",
    "rotated_at": "when it did",
    "bind_account": "whom the bind name stands for",
    "bind_account_learnt_for": "for which bind name that was learnt",
    "protection_changes": "how often the gateway changed who is protected",
    "identity_questions": "what the help desk asks callers",
    "enabled": "whether it is used, not where it leads",
    "client_id": "what tools call it",
    "revision": "how often it was changed",
    "created_at": "when it was made",
    "changed_at": "when it was changed",
}
"""Every other field, and what it decides instead."""


@pytest.fixture
def editor(db: None) -> Console:
    """May edit connections, and does not know their passwords."""
    return Console(make_person(may=EDITOR))


@pytest.fixture
def elsewhere() -> Iterator["Listener"]:
    listener = Listener()
    yield listener
    listener.close()


class Listener:
    """A server of the attacker's, which keeps what it is sent."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"ldaps://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                accepted, _ = self._socket.accept()
            except OSError:
                return
            with accepted:
                accepted.settimeout(5)
                try:
                    self.received.append(accepted.recv(4096))
                except OSError:
                    self.received.append(b"")

    def close(self) -> None:
        self._socket.close()


def changes_of(domain: Domain, url: str) -> dict[str, tuple[str, Any]]:
    """By the model's field: the member of the body that says it, and another value."""
    return {
        "urls": ("urls", [url]),
        "start_tls": ("startTls", True),
        "ca_certificate": ("caCertificate", domain.ca_pem * 2),
        "bind_dn": ("bindDn", "CN=Other,DC=corp,DC=example,DC=test"),
    }


def body_of(domain: Domain, url: str, field: str) -> dict[str, Any]:
    member, value = changes_of(domain, url)[field]
    host = domain.url.replace("ldaps", "ldap")
    return {member: value} | ({"urls": [host]} if field == "start_tls" else {})


def by_form(body: dict[str, Any], row: DirectoryConnection) -> dict[str, str]:
    """The same as the form of the console's page sends it."""
    shown = {
        "name": row.name,
        "urls": row.urls,
        "baseDn": row.base_dn,
        "bindDn": row.bind_dn,
        "caCertificate": row.ca_certificate,
        "startTls": row.start_tls,
        "enabled": row.enabled,
        **body,
    }
    texts = {name: "\r\n".join(value) if isinstance(value, list) else value for name, value in shown.items()}
    return {name: "on" if value is True else value for name, value in texts.items() if value is not False}


def ask(editor: Console, way: str, row: DirectoryConnection, body: dict[str, Any]) -> tuple[bool, str]:
    """Whether a way in took it, and what it said."""
    if way == "rest":
        answer: Answer = editor.patch(f"/rest/directories/{row.id}", body)
        return answer.status == 200, str(answer.body)
    if way == "console":
        answer = editor.submit(f"/console/connections/{row.id}/edit", **by_form(body, row))
        return answer.status == 302, answer.body.decode()
    admin = Client()
    person = editor.person
    person.is_staff = True
    person.save()
    admin.force_login(person)
    page = admin.post(reverse("admin:directory_directoryconnection_change", args=[row.pk]), by_form(body, row))
    return page.status_code == 302, page.content.decode()


def test_every_field_is_known_to_lead_somewhere_or_not() -> None:
    """A new field that decides where the password goes belongs to the seal."""
    fields = {field.name for field in DirectoryConnection._meta.get_fields() if isinstance(field, Field)}
    assert fields == {*DESTINATION_FIELDS, *OTHERWISE}


@pytest.mark.sqlite
@pytest.mark.parametrize("field", DESTINATION_FIELDS)
@pytest.mark.parametrize("way", ["rest", "console", "admin"])
def test_a_new_destination_needs_the_password(
    editor: Console, connection: DirectoryConnection, domain: Domain, elsewhere: Listener, way: str, field: str
) -> None:
    before = DirectoryConnection.objects.values().get()
    body = body_of(domain, elsewhere.url, field)
    taken, told = ask(editor, way, connection, body)
    assert (taken, "Give the password anew" in told) == (False, True)
    if way == "rest":
        assert "'pointer': '#/bindPassword'" in told
    if way == "console":
        assert 'id="bindPassword-error"' in told
    assert DirectoryConnection.objects.values().get() == before

    assert ask(editor, way, connection, {**body, "bindPassword": "what the editor says"})[0]
    row = DirectoryConnection.objects.get()
    assert row.bind_password == "what the editor says"
    assert row.is_bind_password_sealed
    assert ask(editor, way, row, {"name": "Renamed"})[0]


@pytest.mark.parametrize("way", ["rest", "console", "admin"])
def test_the_same_password_anew_will_do(
    editor: Console, connection: DirectoryConnection, domain: Domain, elsewhere: Listener, way: str
) -> None:
    body = {"urls": [domain.url, elsewhere.url], "bindPassword": domain.bind_password}
    assert ask(editor, way, connection, body)[0]
    assert DirectoryConnection.objects.get().is_bind_password_sealed


@pytest.mark.parametrize("way", ["rest", "console", "admin"])
def test_what_leads_nowhere_else_does_not(
    editor: Console, connection: DirectoryConnection, domain: Domain, way: str
) -> None:
    for body in (
        {"enabled": False},
        {"name": "Renamed"},
        {"baseDn": f"OU=Other,{domain.base_dn}"},
        {"urls": [f"{domain.url}/"]},
        {"caCertificate": domain.ca_pem.strip()},
    ):
        row = DirectoryConnection.objects.get()
        taken, told = ask(editor, way, row, body)
        assert taken, (body, told)
    report = try_connection(call_of_command("test"), DirectoryConnection.objects.get())
    assert report["ok"] is False  # the base is another, and was reached
    assert DirectoryConnection.objects.get().is_bind_password_sealed


@pytest.mark.sqlite
@pytest.mark.parametrize("field", DESTINATION_FIELDS)
def test_a_row_changed_in_the_database_sends_nothing(
    editor: Console, connection: DirectoryConnection, domain: Domain, elsewhere: Listener, field: str
) -> None:
    body = body_of(domain, elsewhere.url, field)
    columns = {name: body[member] for name, (member, _) in changes_of(domain, "").items() if member in body}
    DirectoryConnection.objects.update(**{"urls": [elsewhere.url], **columns}, revision=100)
    with pytest.raises(LdapError):
        get_client(connection.id).root_dse()
    report = editor.post(f"/rest/directories/{connection.id}/test").body
    assert report["ok"] is False
    assert "given for other servers" in report["servers"][0]["problem"]
    assert elsewhere.received == []
    with database.cursor() as cursor:  # nor with a seal taken away, whoever saves the row afterwards
        cursor.execute("UPDATE directory_directoryconnection SET bind_seal = ''")
    assert editor.patch(f"/rest/directories/{connection.id}", {"enabled": False}).status == 400
    row = DirectoryConnection.objects.get()
    row.save()
    assert not DirectoryConnection.objects.get().is_bind_password_sealed


def test_the_seal_is_no_way_to_guess_the_password(connection: DirectoryConnection) -> None:
    with database.cursor() as cursor:
        cursor.execute("SELECT bind_seal FROM directory_directoryconnection")
        (stored,) = cursor.fetchone()
    assert connection.bind_seal
    assert connection.bind_seal not in stored
