"""The declarations of kinds: every path does what the others do, and the texts about kinds are complete."""

from uuid import UUID, uuid4

from core.operation import operations
from directory.models import DirectoryConnection
from directory.models.connections import DirectoryPermission
from directory.shapes.kinds import KINDS, PERMISSION_SUFFIXES, RESOURCES, Kind, kind_of, resource_of
from lab.directory import Directory, random_name
from tests.support.cast import Integration, make_integration

ACTIONS = {"search", "read-by-dn", "read", "create", "update", "delete", "move", "rename", "who-can"}


def test_every_path_offers_what_all_kinds_have() -> None:
    offered = {resource: {item.action for item in operations() if item.resource == resource} for resource in RESOURCES}
    assert all(actions >= ACTIONS for actions in offered.values()), offered
    for resource, declared in RESOURCES.items():
        accounts = {"enable", "disable", "unlock", "list-groups"}
        assert (offered[resource] >= accounts) is declared.has_account


def test_the_declarations_agree() -> None:
    assert set(KINDS) == set(Kind)
    for kind, declared in KINDS.items():
        assert resource_of(kind) == (declared.resource or "objects")
        for name in declared.classes:
            assert kind_of(["top", name]) is kind
    codenames = {codename for codename, _ in DirectoryPermission._meta.permissions}
    wanted = {f"{action}_{suffix}" for action in ("create", "update", "delete") for suffix in PERMISSION_SUFFIXES}
    assert wanted <= codenames


def test_a_contact_from_its_creation_to_its_end(
    integration: Integration, organizational_unit: str, directory: Directory
) -> None:
    name = random_name("contact")
    body = {"name": name, "parent": organizational_unit, "replace": {"mail": "mary@example.org", "sn": "Somerville"}}
    created = integration.post("/api/ad/contacts", body)
    assert (created.status, created.body["kind"], created.body["account"]) == (201, "contact", None)
    guid = UUID(created.body["id"])
    assert created.headers["Location"] == f"/api/ad/contacts/{guid}"
    assert directory.text(guid, "mail") == "mary@example.org"
    assert created.body["attributes"]["mail"] == ["mary@example.org"]

    path = f"/api/ad/contacts/{guid}"
    assert integration.patch(path, {"replace": {"company": "Royal Society"}, "clear": ["mail"]}).status == 200
    there = directory.add_unit("Partners", parent=organizational_unit)
    assert integration.post(f"{path}/rename", {"name": f"{name} 2"}).status == 200
    assert integration.post(f"{path}/move", {"parent": there}).status == 200
    dn = f"CN={name} 2,{there}"
    assert directory.dn(guid) == dn
    for read in (path, f"/api/ad/contacts/by-dn?dn={dn}", f"/api/ad/objects/{guid}"):
        record = integration.get(read).body
        assert (record["id"], record["attributes"]["company"]) == (str(guid), ["Royal Society"])
    found = integration.get(f"/api/ad/contacts?base={organizational_unit}&filter=(company=Royal*)").body["items"]
    assert [item["id"] for item in found] == [str(guid)]
    assert integration.get(f"/api/ad/users/{guid}").status == 404

    assert integration.delete(path).status == 204
    assert not directory.exists(guid)


def test_a_path_holds_only_its_own_kind(
    integration: Integration, organizational_unit: str, directory: Directory
) -> None:
    user = directory.add_user(parent=organizational_unit)
    answer = integration.get(f"/api/ad/contacts/{user}")
    assert (answer.status, answer.code) == (404, "AD.Object.NotFound")
    assert integration.delete(f"/api/ad/contacts/{user}").status == 404
    assert directory.exists(user)


def test_contacts_take_the_permissions_of_other_objects(
    connection: DirectoryConnection, organizational_unit: str, directory: Directory
) -> None:
    body = {"name": random_name("contact"), "parent": organizational_unit}
    of_users = make_integration(connection, may={"directory.read_object", "directory.create_user"})
    assert of_users.post("/api/ad/contacts", body).status == 403
    assert of_users.delete(f"/api/ad/contacts/{uuid4()}").status == 403
    others = make_integration(connection, may={"directory.read_object", "directory.create_object"})
    assert others.post("/api/ad/contacts", body).status == 201
    assert directory.exists(f"CN={body['name']},{organizational_unit}")
