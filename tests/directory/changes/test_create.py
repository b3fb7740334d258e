"""Creating objects of every kind, and what is refused."""

import json
from typing import Any
from uuid import UUID

import pytest

from audit.models import OperationRecord
from core.call import SupervisionLevel
from lab.directory import Directory, random_name
from tests.support.cast import Integration, make_integration

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


def test_the_account_name_of_a_group(integration: Integration, parent: str, directory: Directory) -> None:
    name = random_name("g")
    body = {"name": "Staff of " + name, "parent": parent, "samAccountName": name}
    record = integration.post("/api/ad/groups", body).body
    assert directory.text(UUID(record["id"]), "sAMAccountName") == name
    assert integration.post("/api/ad/groups", {**body, "name": "Another"}).code == "AD.Object.AlreadyExists"
    refused = integration.post("/api/ad/groups", {**body, "name": "Another", "samAccountName": "a@b"})
    assert (refused.status, refused.body["errors"][0]["pointer"]) == (400, "#/samAccountName")


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
        ({"replace": {"userAccountControl": "544"}}, 422, "AD.Password.Required"),
        ({"replace": {"userAccountControl": []}, "enabled": True}, 422, "AD.Password.Required"),
        ({"account": {"expiresAt": "1601-01-01T00:00:00Z"}}, 400, "Request.Invalid"),
        ({"account": {"expiresAt": "1500-01-01T00:00:00Z"}}, 400, "Request.Invalid"),
        ({"replace": {"dnsRoot": "x"}}, 422, "AD.Directory.Rejected"),
        ({"replace": {"primaryGroupID": "513"}}, 422, "AD.Directory.Rejected"),
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
    dry = integration.post("/api/ad/users?dryRun=true", body)
    assert (dry.status, dry.code) == (status, code)
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


@pytest.mark.parametrize("update", ["replace", "add"])
@pytest.mark.parametrize("resource", ["users", "computers"])
def test_an_empty_list_gives_nothing(
    integration: Integration, parent: str, directory: Directory, resource: str, update: str
) -> None:
    name = random_name("e")
    empty: dict[str, list[str]] = {"userAccountControl": [], "sAMAccountName": [], "title": []}
    body = {"name": name, "parent": parent, update: empty}
    assert integration.post(f"/api/ad/{resource}?dryRun=true", body).status == 200
    guid = UUID(integration.post(f"/api/ad/{resource}", body).body["id"])
    assert directory.text(guid, "sAMAccountName") == name + ("$" if resource == "computers" else "")
    assert not directory.is_enabled(guid)


def test_an_empty_list_is_no_conflict(integration: Integration, parent: str, directory: Directory) -> None:
    name = random_name("e")
    body = {"name": "Ada", "parent": parent, "samAccountName": name, "replace": {"sAMAccountName": []}}
    assert integration.post("/api/ad/users", body).body["account"]["samAccountName"] == name


@pytest.mark.parametrize(
    ("object_class", "control"), [("user", "512"), ("inetOrgPerson", "544"), ("computer", "4096"), ("computer", "4128")]
)
def test_an_enabled_account_needs_a_password_whichever_path(
    integration: Integration,
    parent: str,
    directory: Directory,
    organizational_unit: str,
    object_class: str,
    control: str,
) -> None:
    body = {"name": random_name("o"), "parent": parent, "objectClass": object_class}
    answer = integration.post("/api/ad/objects", {**body, "replace": {"userAccountControl": control}})
    assert (answer.status, answer.code) == (422, "AD.Password.Required")
    assert answer.body["errors"][0]["pointer"] == "#/replace/userAccountControl"
    assert len(directory.search("(objectClass=*)", base=organizational_unit)) == 1
    created = integration.post("/api/ad/objects", body)
    assert not directory.is_enabled(UUID(created.body["id"]))


@pytest.fixture
def taken(directory: Directory, ada: UUID) -> dict[str, str]:
    """The identifiers that ada has."""
    directory.modify(ada, userPrincipalName=f"{random_name('u')}@corp.example.test", servicePrincipalName="HTTP/ada")
    names = ("sAMAccountName", "userPrincipalName", "servicePrincipalName")
    return {name: directory.text(ada, name) or "" for name in names}


@pytest.mark.parametrize("dry_run", ["true", "false"])
@pytest.mark.parametrize(
    ("resource", "body", "attribute", "where"),
    [
        ("users", {"samAccountName": "{}"}, "sAMAccountName", "#/samAccountName"),
        ("users", {"replace": {"sAMAccountName": "{}"}}, "sAMAccountName", "#/replace/sAMAccountName"),
        ("users", {"userPrincipalName": "{}"}, "userPrincipalName", "#/userPrincipalName"),
        ("users", {"add": {"servicePrincipalName": ["HTTP/x", "{}"]}}, "servicePrincipalName", None),
        ("computers", {"replace": {"sAMAccountName": [], "userPrincipalName": "{}"}}, "userPrincipalName", None),
        ("objects", {"objectClass": "user", "replace": {"userPrincipalName": "{}"}}, "userPrincipalName", None),
        ("objects", {"objectClass": "inetOrgPerson", "add": {"userPrincipalName": "{}"}}, "userPrincipalName", None),
        ("groups", {"replace": {"sAMAccountName": "{}"}}, "sAMAccountName", "#/replace/sAMAccountName"),
    ],
)
def test_an_identifier_in_use_is_named(
    integration: Integration,
    parent: str,
    taken: dict[str, str],
    resource: str,
    body: dict[str, Any],
    attribute: str,
    where: str | None,
    dry_run: str,
) -> None:
    filled = json.loads(json.dumps(body).replace("{}", taken[attribute].upper()))
    body = {"name": random_name("n"), "parent": parent, **filled}
    answer = integration.post(f"/api/ad/{resource}?dryRun={dry_run}", body)
    assert (answer.status, answer.code) == (409, "AD.Object.AlreadyExists")
    assert attribute in answer.body["detail"]
    assert answer.body["errors"][0]["pointer"] == where or where is None


def test_a_name_that_is_in_use_as_an_identifier(integration: Integration, parent: str) -> None:
    answer = integration.post("/api/ad/groups", {"name": "administrator", "parent": parent})
    assert (answer.status, answer.body["errors"][0]["pointer"]) == (409, "#/name")


@pytest.mark.parametrize("dry_run", ["true", "false"])
def test_a_parent_that_holds_no_such_class(integration: Integration, ada: UUID, dry_run: str) -> None:
    answer = integration.post(f"/api/ad/groups?dryRun={dry_run}", {"name": random_name("g"), "parent": str(ada)})
    assert (answer.status, answer.code) == (422, "AD.Directory.Rejected")
    assert answer.body["errors"][0]["pointer"] == "#/parent"


@pytest.mark.parametrize(
    ("sent", "status", "group_type"),
    [({}, 201, "2"), ({"scope": "global"}, 400, "#/scope"), ({"type": "security"}, 400, "#/type")],
)
def test_a_group_type_in_a_bag(
    integration: Integration, parent: str, directory: Directory, sent: dict[str, str], status: int, group_type: str
) -> None:
    body = {"name": random_name("g"), "parent": parent, "replace": {"groupType": "2"}, **sent}
    answer = integration.post("/api/ad/groups", body)
    assert answer.status == status
    if status == 201:
        assert directory.text(UUID(answer.body["id"]), "groupType") == group_type
    else:
        assert answer.body["errors"][0]["pointer"] == group_type


def test_a_parent_that_is_not_there_is_named(integration: Integration, organizational_unit: str) -> None:
    absent = f"OU=nowhere,{organizational_unit}"
    answer = integration.post("/api/ad/groups", {"name": random_name("g"), "parent": absent})
    assert (answer.status, answer.code) == (404, "AD.Object.NotFound")
    assert [(error["pointer"], absent in error["detail"]) for error in answer.body["errors"]] == [("#/parent", True)]


def test_what_a_creation_decides_itself_needs_no_more(connection: Any, parent: str) -> None:
    creator = make_integration(
        connection, may=["directory.create_user"], level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY
    )
    name = random_name("u")
    body = {"name": name, "parent": parent, "password": PASSWORD, "account": {"mustChangePassword": True}}
    assert creator.post("/api/ad/users", body).status == 201
    body = {"name": random_name("u"), "parent": parent, "password": PASSWORD, "replace": {"pwdLastSet": "0"}}
    assert creator.post("/api/ad/users", body).status == 403
