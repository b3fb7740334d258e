"""Creating objects of every kind, and what is refused."""

from typing import Any
from uuid import UUID

import pytest

from audit.models import OperationRecord
from tests.support.cast import Integration, make_integration
from tests.support.directory import Directory, random_name

PASSWORD = "Correct-Horse-9"


@pytest.fixture
def parent(directory: Directory, organizational_unit: str) -> str:
    return str(directory.guid(organizational_unit))


def test_it_works(integration: Integration, parent: str, directory: Directory, organizational_unit: str) -> None:
    name = random_name("u")
    answer = integration.post(
        "/api/ad/users",
        {
            "name": "Ada Lovelace",
            "parent": parent,
            "samAccountName": name,
            "userPrincipalName": f"{name}@corp.example.test",
            "password": PASSWORD,
            "enabled": True,
            "account": {"passwordNeverExpires": True, "expiresAt": "2031-01-01T00:00:00Z"},
            "replace": {"givenName": "Ada"},
            "add": {"otherTelephone": ["1", "2", "2"]},
        },
    )
    assert answer.status == 201
    record = answer.body
    guid = UUID(record["id"])
    assert answer.headers["Location"] == f"/api/ad/users/{guid}"
    assert directory.dn(guid) == f"CN=Ada Lovelace,{organizational_unit}"
    assert record["account"]["samAccountName"] == name
    assert record["account"]["enabled"] is True
    assert record["account"]["passwordNeverExpires"] is True
    assert record["account"]["expiresAt"] == "2031-01-01T00:00:00Z"
    assert directory.can_sign_in(guid, PASSWORD)
    assert sorted(directory.read(guid, "otherTelephone")["otherTelephone"]) == [b"1", b"2"]
    (logged,) = OperationRecord.objects.filter(operation="users.create")
    assert logged.target_id == guid
    assert PASSWORD not in str(logged.changes)
    assert {"attribute": "unicodePwd", "before": [], "after": ["<secret>"]} in logged.changes


def test_a_user_is_disabled_unless_asked_otherwise(integration: Integration, parent: str) -> None:
    name = random_name("u")
    record = integration.post("/api/ad/users", {"name": name, "parent": parent}).body
    assert record["account"]["samAccountName"] == name
    assert record["account"]["enabled"] is False


def test_must_change_password(integration: Integration, parent: str) -> None:
    body = {"name": random_name("u"), "parent": parent, "password": PASSWORD, "account": {"mustChangePassword": True}}
    assert integration.post("/api/ad/users", body).body["account"]["mustChangePassword"] is True


def test_the_parent_may_be_a_name(integration: Integration, organizational_unit: str) -> None:
    body = {"name": "Workshop", "parent": organizational_unit.upper(), "replace": {"description": "Tools"}}
    record = integration.post("/api/ad/organization-units", body).body
    assert record["distinguishedName"] == f"OU=Workshop,{organizational_unit}"
    assert record["attributes"]["description"] == ["Tools"]


def test_a_computer(integration: Integration, parent: str) -> None:
    name = random_name("pc")
    record = integration.post("/api/ad/computers", {"name": name, "parent": parent}).body
    assert (record["kind"], record["account"]["samAccountName"]) == ("computer", f"{name}$")
    assert record["account"]["enabled"] is False


@pytest.mark.parametrize("scope", ["global", "domainLocal", "universal"])
@pytest.mark.parametrize("category", ["security", "distribution"])
def test_a_group(
    integration: Integration, parent: str, ada: UUID, directory: Directory, scope: str, category: str
) -> None:
    body = {"name": random_name("g"), "parent": parent, "scope": scope, "type": category}
    record = integration.post("/api/ad/groups", {**body, "add": {"member": directory.dn(ada)}}).body
    assert record["group"] == {"scope": scope, "type": category, "memberCount": 1}


@pytest.mark.parametrize(("object_class", "kind"), [("contact", "contact"), ("container", "container")])
def test_an_object_of_another_class(integration: Integration, parent: str, object_class: str, kind: str) -> None:
    body = {"name": random_name("o"), "parent": parent, "objectClass": object_class}
    assert integration.post("/api/ad/objects", body).body["kind"] == kind


def test_names_that_need_escaping(integration: Integration, parent: str, directory: Directory) -> None:
    name = 'Ω, "数" #1 + =;<>\\ é'
    record = integration.post("/api/ad/organization-units", {"name": name, "parent": parent}).body
    assert record["name"] == name
    assert directory.read(UUID(record["id"]), "ou")["ou"] == [name.encode()]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"name": ""}, 400, "Request.Invalid"),
        ({"name": "x" * 65}, 400, "Request.Invalid"),
        ({"name": "a\0b"}, 400, "Request.Malformed"),
        ({"name": None}, 400, "Request.Invalid"),
        ({"parent": "nowhere"}, 400, "Request.Invalid"),
        ({"parent": "OU=nowhere,DC=corp,DC=example,DC=test"}, 404, "AD.Object.NotFound"),
        ({"parent": "00000000-0000-0000-0000-000000000001"}, 404, "AD.Object.NotFound"),
        ({"samAccountName": "a" * 21}, 400, "Request.Invalid"),
        ({"samAccountName": "a@b"}, 400, "Request.Invalid"),
        ({"samAccountName": "Administrator"}, 409, "AD.Object.AlreadyExists"),
        ({"enabled": True}, 422, "AD.Password.Required"),
        ({"enabled": True, "password": "x"}, 422, "AD.Password.PolicyViolation"),
        ({"password": ""}, 400, "Request.Invalid"),
        ({"remove": {"mail": "a"}}, 400, "Request.Invalid"),
        ({"clear": ["mail"]}, 400, "Request.Invalid"),
        ({"replace": {"userAccountControl": "512"}}, 422, "AD.Password.Required"),
        ({"replace": {"userAccountControl": "512"}, "enabled": True}, 400, "AD.Attributes.Conflict"),
        ({"replace": {"sAMAccountName": "ada"}, "samAccountName": "ada"}, 400, "AD.Attributes.Conflict"),
        ({"replace": {"title": "a"}, "add": {"title": "a"}}, 400, "AD.Attributes.Conflict"),
        ({"replace": {"nosuch": "a"}}, 400, "AD.Attributes.Unknown"),
        ({"scope": "global"}, 400, "Request.UnknownMember"),
    ],
)
def test_what_is_refused(
    integration: Integration,
    parent: str,
    directory: Directory,
    organizational_unit: str,
    change: Any,
    status: int,
    code: str,
) -> None:
    body = {"name": "Ada", "parent": parent, "samAccountName": random_name("u"), **change}
    answer = integration.post("/api/ad/users", body)
    assert (answer.status, answer.code) == (status, code)
    assert len(directory.search("(objectClass=*)", base=organizational_unit)) == 1


@pytest.mark.parametrize("object_class", ["top", "securityPrincipal", "nosuch", ""])
def test_only_structural_classes(integration: Integration, parent: str, object_class: str) -> None:
    answer = integration.post("/api/ad/objects", {"name": "x", "parent": parent, "objectClass": object_class})
    assert (answer.status, answer.code) == (400, "Request.Invalid")


def test_a_name_is_taken_once(integration: Integration, parent: str, ada: UUID) -> None:
    answer = integration.post("/api/ad/users", {"name": "ada lovelace", "parent": parent, "samAccountName": "x"})
    assert (answer.status, answer.code) == (409, "AD.Object.AlreadyExists")


def test_the_dry_run_sees_it_too(integration: Integration, parent: str, ada: UUID) -> None:
    body = {"name": "ada lovelace", "parent": parent, "samAccountName": "x"}
    assert integration.post("/api/ad/users?dryRun=true", body).status == 409


def test_permission_follows_the_class(connection: Any, parent: str) -> None:
    body = {"name": random_name("o"), "parent": parent, "objectClass": "organizationalUnit"}
    assert make_integration(connection, may=["directory.create_object"]).post("/api/ad/objects", body).status == 403
    allowed = make_integration(connection, may=["directory.create_organizationalunit"])
    assert allowed.post("/api/ad/objects", body).status == 201
