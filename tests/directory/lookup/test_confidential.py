"""Attributes that the schema marks confidential: shown to nobody, and matched by nobody, without a permission."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from active_directory import Schema
from active_directory.constants import SearchFlags, is_credential
from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.lookup import connection as connections
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import Console, Integration, all_permissions, make_integration, make_person

READ_CONFIDENTIAL = "directory.read_confidential"
STAMP = "msPKIRoamingTimeStamp"
"""An attribute of users that every domain's schema marks confidential, and that holds no secret."""
Mark = Callable[..., None]


@pytest.fixture
def unprivileged(connection: DirectoryConnection) -> Integration:
    """May do everything but read what is confidential."""
    return make_integration(connection, may=set(all_permissions()) - {READ_CONFIDENTIAL})


@pytest.fixture
def mark(connection: DirectoryConnection, domain: Domain, monkeypatch: pytest.MonkeyPatch) -> Mark:
    """Mark attributes confidential, as a site's administrators do in the schema of their own attributes."""

    def marked(*names: str) -> None:
        schema = get_client(connection.id).schema
        attributes = dict(schema.attributes)
        for name in names:
            known = attributes[name.lower()]
            attributes[name.lower()] = replace(known, search_flags=known.search_flags | SearchFlags.CONFIDENTIAL)
        changed = Schema(attributes, schema.classes)
        monkeypatch.setitem(connections.Client.schemas, domain.ca_pem, changed)  # type: ignore[attr-defined]
        connections._clients.pop(connection.id).client.close()

    return marked


@pytest.fixture
def stamped(directory: Directory, organizational_unit: str) -> UUID:
    stamp: dict[str, Any] = {STAMP: b"sixteen octets.."}
    return directory.add_user(parent=organizational_unit, carLicense="DGK-1815", employeeID="E-77", **stamp)


def ask(integration: Integration, resource: str, **parameters: Any) -> Any:
    return integration.get(f"/api/ad/{resource}?{urlencode(parameters)}")


def test_it_works(integration: Integration, unprivileged: Integration, stamped: UUID) -> None:
    path = f"/api/ad/users/{stamped}"
    assert integration.get(f"{path}?attributes={STAMP}").body["attributes"][STAMP]
    assert STAMP in integration.get(f"{path}?attributes=*").body["attributes"]
    answer = unprivileged.get(f"{path}?attributes={STAMP}")
    assert (answer.status, answer.code) == (400, "AD.Attributes.NotReadable")
    assert answer.body["errors"][0]["parameter"] == "attributes"
    assert STAMP not in unprivileged.get(f"{path}?attributes=*").body["attributes"]


def test_every_confidential_attribute_of_the_schema(
    connection: DirectoryConnection, integration: Integration, unprivileged: Integration, organizational_unit: str
) -> None:
    schema = get_client(connection.id).schema
    names = [known.name for known in schema.attributes.values() if known.is_confidential]
    assert len(names) > 15
    listed = {item["name"] for item in unprivileged.get("/api/ad/schema/attributes").body["items"]}
    assert listed.isdisjoint(names)
    for name in names:
        for resource, parameters in (
            ("objects", {"attributes": f"cn,{name.upper()}"}),
            ("users", {"sort": f"-{name}"}),
            ("users", {"filter": f"(|(cn=x)(!({name}=*)))"}),
            ("deleted-objects", {"filter": f"({name}=x)"}),
            ("accounts", {"state": "enabled", "filter": f"({name}>=1)"}),
            ("service-accounts", {"attributes": name}),
            ("schema/attributes", {"names": name}),
        ):
            answer = ask(unprivileged, resource, **parameters)
            assert (answer.status, answer.code) == (400, "AD.Attributes.NotReadable"), (name, resource)
        saved = unprivileged.post("/api/ad/saved-filters", {"name": name, "filter": f"({name}=*)"})
        assert (saved.status, saved.code) == (400, "AD.Attributes.NotReadable")
        allowed = ask(integration, "users", base=organizational_unit, attributes=name)
        assert allowed.status == (400 if is_credential(name) else 200), name  # a secret stays one


def test_a_filter_shared_by_who_may(integration: Integration, unprivileged: Integration) -> None:
    body = {"name": "stamped", "filter": f"({STAMP}=*)", "attributes": [STAMP], "shared": True}
    saved = integration.post("/api/ad/saved-filters", body).body
    assert integration.get(f"/api/ad/saved-filters/{saved['id']}/run").status == 200
    answer = unprivileged.get(f"/api/ad/saved-filters/{saved['id']}/run")
    assert (answer.status, answer.code) == (400, "AD.Attributes.NotReadable")


def test_what_a_site_marks_is_left_out_of_every_answer(
    mark: Mark, integration: Integration, unprivileged: Integration, stamped: UUID, organizational_unit: str
) -> None:
    mark("employeeID", "carLicense")
    for path in (
        f"users/{stamped}",
        f"users/{stamped}?attributes=*",
        f"users?{urlencode({'base': organizational_unit})}",
        f"objects?{urlencode({'base': organizational_unit, 'attributes': '*'})}",
    ):
        for accept in ("application/json", "application/x-ndjson", "text/csv"):
            if accept == "text/csv" and "attributes" in path:
                continue
            texts = {}
            for who in (integration, unprivileged):
                response = who.client.get(f"/api/ad/{path}", headers={"X-API-Key": who.value, "Accept": accept})
                parts = response.streaming_content if response.streaming else [response.content]  # type: ignore[attr-defined]
                texts[who.value] = b"".join(parts).decode()
            assert "E-77" in texts[integration.value], path
            assert "E-77" not in texts[unprivileged.value], path
            assert "employeeID" not in texts[unprivileged.value], path
            assert "DGK-1815" not in texts[unprivileged.value], path


def test_ambiguous_names_are_not_resolved_by_it(
    mark: Mark, integration: Integration, unprivileged: Integration, directory: Directory, organizational_unit: str
) -> None:
    directory.add_user("Plain", parent=organizational_unit, physicalDeliveryOfficeName="Vault 7")
    mark("physicalDeliveryOfficeName")
    for query in ({"q": "Vault"}, {"filter": "(anr=Vault)"}):
        assert ask(integration, "users", base=organizational_unit, **query).body["total"] == 1
        assert ask(unprivileged, "users", base=organizational_unit, **query).body["total"] == 0
    assert ask(unprivileged, "users", base=organizational_unit, q="Plai").body["total"] == 1
    for text in ("(anr=*)", "(anr=Vault*)", "(!(anr>=Vault))"):
        assert ask(unprivileged, "users", filter=text).code == "AD.Filter.Unsupported"


def test_values_written_are_secrets_to_log_dry_run_and_approver(
    mark: Mark, connection: DirectoryConnection, integration: Integration, stamped: UUID, directory: Directory
) -> None:
    mark("carLicense")
    path, body = f"/api/ad/users/{stamped}", {"replace": {"carLicense": ["DGK-1843"]}}
    dry = integration.patch(f"{path}?dryRun=true", body).body
    assert (dry["risk"], dry["changes"][0]["before"], dry["changes"][0]["after"]) == (
        "security",
        ["<secret>"],
        ["<secret>"],
    )
    careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    held = careful.patch(path, body)
    assert held.status == 202
    shown = careful.get(f"/api/change-requests/{held.body['changeRequest']['id']}").body
    assert "DGK" not in json.dumps(shown)
    assert integration.patch(path, body).status == 200
    assert directory.text(stamped, "carLicense") == "DGK-1843"
    assert integration.delete(path).status == 204
    created = integration.post("/api/ad/users", {"name": "New", "parent": directory_parent(directory, stamped), **body})
    assert created.status == 201, created.body
    records = OperationRecord.objects.exclude(changes=[])
    assert records.count() >= 3
    assert "DGK" not in json.dumps([record.changes for record in records])


def directory_parent(directory: Directory, deleted: UUID) -> str:
    return directory.read(deleted, "lastKnownParent", deleted=True)["lastKnownParent"][0].decode()


def test_what_was_logged_before_it_was_marked(
    mark: Mark, integration: Integration, unprivileged: Integration, stamped: UUID
) -> None:
    assert integration.patch(f"/api/ad/users/{stamped}", {"replace": {"carLicense": ["DGK-1843"]}}).status == 200
    (plain,) = unprivileged.get(f"/api/operations?target={stamped}&operation=users.update").body["items"]
    assert plain["changes"][0]["before"] == ["DGK-1815"]
    mark("carLicense")
    for path in (f"operations?target={stamped}&operation=users.update", f"ad/objects/{stamped}/history"):
        (hidden,) = unprivileged.get(f"/api/{path}").body["items"]
        assert hidden["changes"] == [{"attribute": "carLicense", "before": ["<secret>"], "after": ["<secret>"]}]
        (seen,) = integration.get(f"/api/{path}").body["items"]
        assert seen["changes"] == plain["changes"]
    assert integration.patch(f"/api/ad/users/{stamped}", {"replace": {"carLicense": ["other"]}}).status == 200
    refused = unprivileged.post(f"/api/operations/{plain['id']}/revert")
    assert (refused.status, refused.code) == (409, "Operations.NotRevertible")
    assert "other" not in json.dumps(refused.body)


def test_the_console_shows_the_rest(mark: Mark, stamped: UUID, directory: Directory) -> None:
    mark("employeeID", "telephoneNumber")
    name = directory.text(stamped, "cn")
    for may, is_shown in ((["directory.read_object"], False), (["directory.read_object", READ_CONFIDENTIAL], True)):
        desk = Console(make_person(may=may))
        page = desk.get(f"/console/directory/objects/{stamped}")
        assert page.status == 200
        assert (b"E-77" in page.body) is is_shown
        assert str(stamped).encode() in desk.get(f"/console/find?q={name}&now=yes").body
        assert (str(stamped).encode() in desk.get("/console/find?q=E-77&all=yes").body) is is_shown
