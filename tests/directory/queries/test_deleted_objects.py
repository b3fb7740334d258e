"""Finding and reading deleted objects, with and without the recycle bin."""

from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest

from audit.models import OperationRecord
from audit.read_buffer import reads
from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.support.cast import Integration, make_connection, make_integration

PATH = "/api/ad/deleted-objects"


@pytest.fixture
def without_recycle_bin(db: None, domain_without_recycle_bin: Domain) -> Integration:
    return make_integration(make_connection(domain_without_recycle_bin))


def found(integration: Integration, unit: str, **parameters: str) -> list[dict[str, Any]]:
    query = "&".join(f"{name}={quote(value)}" for name, value in {"base": unit, **parameters}.items())
    answer = integration.get(f"{PATH}?{query}")
    assert answer.status == 200, answer
    items: list[dict[str, Any]] = answer.body["items"]
    return items


def test_it_works(integration: Integration, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    live = integration.get(f"/api/ad/users/{ada}").body
    directory.delete(ada)
    answer = integration.get(f"{PATH}/{ada}")
    assert answer.status == 200, answer
    assert set(answer.body) == set(live) | {"deletedAt", "lastKnownParent", "lastKnownName", "recyclable"}
    assert (answer.body["kind"], answer.body["id"]) == ("user", str(ada))
    assert answer.body["lastKnownParent"] == organizational_unit
    assert answer.body["lastKnownName"] == "Ada Lovelace"
    assert answer.body["recyclable"] is True
    assert answer.body["deletedAt"].endswith("Z")
    assert answer.body["attributes"]["title"] == ["Analyst"]
    assert answer.body["name"] == "Ada Lovelace"
    assert "DEL:" in answer.body["distinguishedName"]
    assert answer.headers["ETag"]
    (item,) = found(integration, organizational_unit)
    assert item == answer.body
    reads.flush()
    assert OperationRecord.objects.filter(operation="deleted-objects.read", target_id=ada).count() == 1


def test_a_tombstone(without_recycle_bin: Integration, tombstone_directory: Directory) -> None:
    unit = tombstone_directory.add_unit(random_name("unit"))
    user = tombstone_directory.add_user("Lovelace, Ada #1", parent=unit, title="Analyst")
    tombstone_directory.delete(user)
    body = without_recycle_bin.get(f"{PATH}/{user}?attributes=title").body
    assert (body["recyclable"], body["attributes"]["title"]) == (False, [])
    assert (body["lastKnownName"], body["lastKnownParent"]) == ("Lovelace, Ada #1", unit)
    (item,) = found(without_recycle_bin, unit, attributes="title")
    assert item == body


def test_live_here_is_absent_there(integration: Integration, ada: UUID, directory: Directory) -> None:
    assert integration.get(f"{PATH}/{ada}").code == "AD.Object.NotFound"
    directory.delete(ada)
    for resource in ("users", "objects"):
        assert integration.get(f"/api/ad/{resource}/{ada}").code == "AD.Object.NotFound"
    assert integration.get(f"{PATH}/{uuid4()}").code == "AD.Object.NotFound"


def test_the_container_itself_is_no_deleted_object(integration: Integration, directory: Directory) -> None:
    container = directory.read(f"CN=Deleted Objects,{directory.base_dn}", "objectGUID", deleted=True)
    guid = UUID(bytes_le=container["objectGUID"][0])
    assert integration.get(f"{PATH}/{guid}").status == 404
    assert str(guid) not in [item["id"] for item in integration.get(f"{PATH}?pageSize=1000").body["items"]]


def test_search_sort_and_pages(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    names = [random_name(letter) for letter in "bca"]
    for name in names:
        directory.delete(directory.add_user(name, parent=organizational_unit, title=name))
    directory.delete(directory.add_group("zz", parent=organizational_unit))
    everything = found(integration, organizational_unit, sort="name")
    assert [item["lastKnownName"] for item in everything] == [*sorted(names), "zz"]
    assert len(found(integration, organizational_unit, filter="(objectClass=user)")) == 3
    assert [item["lastKnownName"] for item in found(integration, organizational_unit, q=names[0])] == [names[0]]
    base = f"{PATH}?base={quote(organizational_unit)}&sort=-name&pageSize=3"
    first = integration.get(base).body
    assert (first["total"], len(first["items"])) == (4, 3)
    rest = integration.get(f"{base}&cursor={quote(first['nextCursor'])}").body
    assert [item["lastKnownName"] for item in (*first["items"], *rest["items"])] == ["zz", *sorted(names, reverse=True)]


def test_scopes_go_by_the_last_known_parent(
    connection: Any, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    inner = directory.add_unit("Inner", parent=organizational_unit)
    inside = directory.add_user(parent=inner)
    directory.delete(inside)
    directory.delete(ada)
    confined = make_integration(connection, scopes=[directory.guid(inner)])
    assert confined.get(f"{PATH}/{inside}").status == 200
    assert confined.get(f"{PATH}/{ada}").code == "Auth.Forbidden"
    assert [item["id"] for item in confined.get(PATH).body["items"]] == [str(inside)]


def test_a_parent_that_is_deleted_too(
    integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    inner = directory.add_unit("Inner", parent=organizational_unit)
    user = directory.add_user(parent=inner)
    directory.delete(inner, recursive=True)
    parent = integration.get(f"{PATH}/{user}").body["lastKnownParent"]
    assert parent.startswith("OU=Inner\\0ADEL:")


def test_where_a_deleted_parent_was_counts(
    connection: Any, directory: Directory, organizational_unit: str, domain: Domain
) -> None:
    inside = directory.add_unit("In", parent=organizational_unit)
    gone = directory.guid(directory.add_unit("Gone", parent=inside))
    deep = directory.guid(directory.add_unit("Deep", parent=directory.dn(gone)))
    user = directory.add_user(parent=directory.dn(deep))
    elsewhere = directory.add_unit("Gone", parent=organizational_unit)
    stranger = directory.add_user(parent=elsewhere)
    directory.delete(elsewhere, recursive=True)
    directory.delete(gone, recursive=True)
    expected = {str(guid) for guid in (gone, deep, user)}
    whole, confined = (make_integration(connection, scopes=scopes) for scopes in ((), [directory.guid(inside)]))
    for integration in (whole, confined, make_integration(make_connection(domain, base_dn=inside))):
        assert {item["id"] for item in found(integration, inside)} == expected
        assert {item["id"] for item in found(integration, inside, scope="one-level")} == {str(gone)}
        assert integration.get(f"{PATH}/{user}").status == 200
    assert {item["id"] for item in confined.get(PATH).body["items"]} == expected
    assert confined.get(f"{PATH}/{stranger}").code == "Auth.Forbidden"
    # A new unit of the same name is another one: whoever may see into it does not see what was in the old one.
    renewed = directory.add_unit("Gone", parent=inside)
    assert make_integration(connection, scopes=[directory.guid(renewed)]).get(PATH).body["items"] == []
    answer = confined.post(f"{PATH}/{user}/restore", {"parent": inside})
    assert (answer.status, directory.dn(user).endswith(f",{inside}")) == (200, True), answer


def test_permission_and_secrets(connection: Any, ada: UUID, directory: Directory) -> None:
    directory.delete(ada)
    reader = make_integration(connection, may=["directory.read_object"])
    assert reader.get(f"{PATH}/{ada}").code == "Auth.Forbidden"
    assert reader.get(PATH).code == "Auth.Forbidden"
    allowed = make_integration(connection, may=["directory.read_deleted"])
    assert allowed.get(f"{PATH}/{ada}").status == 200
    assert allowed.get(f"{PATH}/{ada}?attributes=unicodePwd").code == "AD.Attributes.NotReadable"
    assert allowed.get(f"{PATH}?sort=unicodePwd").code == "AD.Attributes.NotReadable"
    assert "unicodePwd" not in allowed.get(f"{PATH}/{ada}?attributes=*").body["attributes"]


def test_a_connection_to_a_part_of_the_domain(
    db: None, domain: Domain, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    inner = directory.add_unit("Inner", parent=organizational_unit)
    inside = directory.add_user(parent=inner)
    directory.delete(inside)
    directory.delete(ada)
    part = make_integration(make_connection(domain, base_dn=inner))
    assert part.get(f"{PATH}/{inside}").status == 200
    assert part.get(f"{PATH}/{ada}").status == 404
    assert [item["id"] for item in part.get(PATH).body["items"]] == [str(inside)]
