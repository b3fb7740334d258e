"""Directory connections: their administration over `/rest` and in Django admin, and the test of one."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection as database
from django.test import Client
from django.urls import reverse

from audit.models import OperationRecord
from audit.read_buffer import reads
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from lab.domain import Domain
from tests.support.cast import Console, Integration, make_connection, make_integration, make_person


@pytest.fixture
def console(db: None) -> Console:
    return Console(make_person(superuser=True))


@pytest.fixture
def admin(db: None) -> Client:
    client = Client()
    client.force_login(make_person(superuser=True))
    return client


def body_for(domain: Domain, **changes: Any) -> dict[str, Any]:
    return {
        "name": "Corp",
        "urls": [domain.url],
        "baseDn": domain.base_dn,
        "bindDn": domain.bind_dn,
        "bindPassword": domain.bind_password,
        "caCertificate": domain.ca_pem,
        **changes,
    }


def test_it_works(console: Console, domain: Domain) -> None:
    answer = console.post("/rest/directories", body_for(domain))
    assert answer.status == 201
    path = f"/rest/directories/{answer.body['id']}"
    assert domain.bind_password not in str(answer.body)
    report = console.post(f"{path}/test").body
    assert report["ok"] is True
    assert report["servers"][0]["tls"].startswith("TLS")
    assert report["schema"]["attributes"] > 1000
    assert "user" in report["rights"]["creatableClasses"]
    assert console.patch(path, {"enabled": False}).body["enabled"] is False
    assert console.get("/rest/directories").body["items"][0]["name"] == "Corp"
    assert console.delete(path).status == 204
    assert console.get(path).status == 404


def test_whoever_tries_a_connection_is_on_record(
    console: Console, domain: Domain, connection: DirectoryConnection
) -> None:
    assert console.post(f"/rest/directories/{connection.id}/test").body["ok"]
    elsewhere = body_for(domain, name="Elsewhere", urls=["ldaps://127.0.0.1:1"])
    assert not console.post("/rest/directories/test", elsewhere).body["ok"]
    reads.flush()
    saved, new = OperationRecord.objects.filter(operation__startswith="directories.test").order_by("id")
    assert (saved.operation, saved.outcome, saved.owner) == ("directories.test", "succeeded", console.person.username)
    assert (saved.target_id, saved.target_dn) == (connection.id, connection.name)
    assert (new.operation, new.outcome) == ("directories.test-new", "failed")
    assert (new.target_id, new.target_dn) == (None, "Elsewhere (ldaps://127.0.0.1:1)")


def test_the_password_is_encrypted_at_rest(connection: DirectoryConnection, domain: Domain) -> None:
    with database.cursor() as cursor:
        cursor.execute("SELECT bind_password FROM directory_directoryconnection")
        (stored,) = cursor.fetchone()
    assert domain.bind_password not in stored
    assert DirectoryConnection.objects.get().bind_password == domain.bind_password


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"urls": []}, "#/urls"),
        ({"urls": ["ldap://dc1.corp.example.test"]}, "#/urls"),
        ({"urls": ["ldaps://dc1.corp.example.test"], "startTls": True}, "#/urls"),
        ({"urls": ["https://dc1.corp.example.test"]}, "#/urls"),
        ({"urls": ["ldaps://dc1.corp.example.test/DC=corp"]}, "#/urls"),
        ({"urls": ["ldaps://user@dc1.corp.example.test"]}, "#/urls"),
        ({"urls": ["ldaps://dc1.corp.example.test:0"]}, "#/urls"),
        ({"urls": ["ldaps://dc1 ldap://other"]}, "#/urls"),
        ({"urls": ["ldaps://a.example", "ldaps://a.example"]}, "#/urls"),
        ({"caCertificate": "no certificate"}, "#/caCertificate"),
        ({"baseDn": "corp.example.test"}, "#/baseDn"),
        ({"bindPassword": ""}, "#/bindPassword"),
    ],
)
def test_what_is_refused(console: Console, domain: Domain, change: Any, pointer: str) -> None:
    answer = console.post("/rest/directories", body_for(domain, **change))
    assert (answer.status, answer.code) == (400, "Request.Invalid")
    assert answer.body["errors"][0]["pointer"] == pointer
    assert not DirectoryConnection.objects.exists()


def test_a_name_is_taken_once(console: Console, connection: DirectoryConnection, domain: Domain) -> None:
    assert console.post("/rest/directories", body_for(domain, name=connection.name)).status == 409


def test_one_in_use_stays(console: Console, connection: DirectoryConnection) -> None:
    make_integration(connection)
    assert console.delete(f"/rest/directories/{connection.id}").status == 409
    assert DirectoryConnection.objects.exists()


def test_it_is_the_consoles_alone(integration: Integration, connection: DirectoryConnection) -> None:
    assert integration.get("/api/directories").status == 404
    nobody = Console(make_person())
    for method, path in (
        ("GET", "/rest/directories"),
        ("GET", f"/rest/directories/{connection.id}"),
        ("PATCH", f"/rest/directories/{connection.id}"),
        ("DELETE", f"/rest/directories/{connection.id}"),
        ("POST", f"/rest/directories/{connection.id}/test"),
        ("POST", "/rest/directories"),
    ):
        assert nobody.call(method, path, {}).status == 403


def test_a_changed_connection_is_used_by_the_next_request(
    connection: DirectoryConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("directory.lookup.connection.REVISION_SECONDS", 0)
    first = get_client(connection.id)
    assert get_client(connection.id) is first
    connection.bind_password = "another"
    connection.save()
    assert get_client(connection.id) is not first
    assert get_client(connection.id).settings.bind_password == "another"
    with pytest.raises(DirectoryConnection.DoesNotExist):
        get_client(uuid4())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"bind_password": "wrong"}, "refuses the bind name or the password"),
        ({"ca_certificate": ""}, "not issued by a trusted authority"),
        ({"urls": ["ldaps://127.0.33.250"]}, "cannot be reached"),
        ({"base_dn": "OU=nowhere,DC=corp,DC=example,DC=test"}, "does not exist or cannot be read"),
    ],
)
def test_the_test_says_what_stands_in_the_way(admin: Client, domain: Domain, change: Any, problem: str) -> None:
    row = make_connection(domain, **change)
    page = admin.post(f"/console/connections/{row.pk}/test")
    assert page.status_code == 200
    assert problem in page.content.decode()
    assert "does not work" in page.content.decode()


def test_in_admin(admin: Client, domain: Domain) -> None:
    form = {
        "name": "Corp",
        "enabled": "on",
        "urls": f"{domain.url}\n",
        "caCertificate": domain.ca_pem,
        "baseDn": domain.base_dn,
        "bindDn": domain.bind_dn,
        "bindPassword": "",
    }
    add = reverse("admin:directory_directoryconnection_add")
    refused = admin.post(add, form)
    assert (refused.status_code, DirectoryConnection.objects.count()) == (400, 0)
    assert admin.post(add, {**form, "bindPassword": domain.bind_password}).status_code == 302
    row = DirectoryConnection.objects.get()
    change = reverse("admin:directory_directoryconnection_change", args=[row.pk])
    page = admin.get(change).content.decode()
    assert domain.bind_password not in page
    assert domain.url in page
    assert f"/console/connections/{row.pk}" in page
    assert admin.post(change, {**form, "name": "Renamed"}).status_code == 302  # an empty password keeps the old one
    row.refresh_from_db()
    assert (row.name, row.bind_password, row.urls) == ("Renamed", domain.bind_password, [domain.url])
    assert "Renamed" in admin.get(reverse("admin:directory_directoryconnection_changelist")).content.decode()


def test_admin_without_permission(connection: DirectoryConnection) -> None:
    person = make_person(may=["directory.view_directoryconnection"])
    person.is_staff = True
    person.save()
    client = Client()
    client.force_login(person)
    change = reverse("admin:directory_directoryconnection_change", args=[connection.pk])
    page = client.get(change)
    assert page.status_code == 200
    assert 'name="urls"' not in page.content.decode()
    assert connection.bind_password not in page.content.decode()
    assert client.post(change, {"name": "x"}).status_code == 403
