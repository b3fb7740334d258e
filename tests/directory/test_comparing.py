"""Names and values that differ to the directory are never taken for one: not by a scope, a move or an update."""

from typing import Any
from uuid import UUID

import pytest

from lab.directory import Directory
from tests.support.cast import Integration, make_integration

SIDE_BY_SIDE = [
    ("Massen", "Maßen"),
    ("Fisch", "Fısch"),
    ("Koks", "\N{KELVIN SIGN}oks"),
    ("a b", "a\N{NO-BREAK SPACE}b"),
    ("Ș", "ș"),
]


@pytest.fixture(params=SIDE_BY_SIDE, ids=ascii)
def units(request: pytest.FixtureRequest, directory: Directory, organizational_unit: str) -> tuple[str, str]:
    one, other = (directory.add_unit(name, parent=organizational_unit) for name in request.param)
    return one, other


def held(directory: Directory, guid: UUID, attribute: str) -> list[str]:
    return sorted(value.decode() for value in directory.read(guid, attribute).get(attribute, []))


def test_a_scope_holds_nothing_of_the_other(
    connection: Any, integration: Integration, directory: Directory, units: tuple[str, str]
) -> None:
    for mine, theirs in (units, units[::-1]):
        confined = make_integration(connection, scopes=[directory.guid(mine)])
        inside, outside = (directory.add_user(parent=unit, title="Analyst") for unit in (mine, theirs))
        group = directory.add_group(parent=mine)
        assert confined.get(f"/api/ad/users/{inside}").status == 200
        path = f"/api/ad/users/{outside}"
        for answer in (
            confined.get(path),
            confined.patch(path, {"replace": {"title": "Countess"}}),
            confined.post(f"{path}/disable"),
            confined.delete(path),
            confined.patch(f"/api/ad/groups/{group}", {"add": {"member": directory.dn(outside)}}),
            confined.post(f"/api/ad/users/{inside}/move", {"parent": theirs}),
        ):
            assert (answer.status, answer.code) == (403, "Auth.Forbidden")
        assert directory.text(outside, "title") == "Analyst"
        assert directory.members(group) == set()
        # Nor does the log tell of it.
        for user, title in ((inside, "Countess"), (outside, "Baroness")):
            integration.patch(f"/api/ad/users/{user}", {"replace": {"title": title}})
        told = confined.get("/api/operations?operation=users.update&outcome=succeeded").body["items"]
        assert str(inside) in {item["target"]["id"] for item in told}
        assert str(outside) not in {item["target"]["id"] for item in told}


def test_one_moves_into_the_other(integration: Integration, directory: Directory, units: tuple[str, str]) -> None:
    one, other = units
    guid = directory.guid(one)
    answer = integration.post(f"/api/ad/organization-units/{guid}/move", {"parent": other})
    assert answer.status == 200, answer.body
    assert directory.dn(guid).endswith(f",{other}")


@pytest.mark.parametrize(
    ("before", "updates", "after"),
    [
        (["strasse"], {"add": ["straße"]}, ["strasse", "straße"]),
        (["1"], {"replace": ["strasse", "straße"]}, ["strasse", "straße"]),
        (["1"], {"replace": ["A", "a"]}, ["A", "a"]),
        (["1"], {"add": ["A", "a"]}, ["1", "A", "a"]),
        (["Maße", "1"], {"remove": ["MASSE"]}, ["1", "Maße"]),
        (["Maße", "Masse"], {"remove": ["masse"]}, ["Maße"]),
        (["ΣΊΣΥΦΟΣ", "1"], {"remove": ["σίσυφος"]}, ["1"]),
        (["one"], {"add": ["ONE"]}, ["one"]),
        (["a  b"], {"add": ["a b"]}, ["a  b", "a b"]),
        (["a b", "1"], {"remove": ["a\u00a0b"]}, ["1", "a b"]),
        # Samba removes the first that is like the one named.
        (["A", "a", "1"], {"remove": ["a"]}, ["1", "A"]),
        (["a", "A", "1"], {"remove": ["a"]}, ["1", "A"]),
        (["a  b", "a b", "A B"], {"remove": ["a b"]}, ["A B", "a  b"]),
        (["A", "a"], {"replace": ["a", "b"]}, ["a", "b"]),
        (["A", "a"], {"remove": ["a"], "add": ["b"]}, ["A", "b"]),
    ],
    ids=ascii,
)
def test_no_value_is_lost(
    integration: Integration,
    ada: UUID,
    directory: Directory,
    before: list[str],
    updates: dict[str, list[str]],
    after: list[str],
) -> None:
    directory.add_values(ada, otherTelephone=before)
    path, body = f"/api/ad/users/{ada}", {update: {"otherTelephone": values} for update, values in updates.items()}
    promised = integration.patch(f"{path}?dryRun=true", body).body["changes"]
    answer = integration.patch(path, body)
    assert answer.status == 200, answer.body
    assert held(directory, ada, "otherTelephone") == sorted(after)
    assert [sorted(change["after"]) for change in promised] == ([sorted(after)] if set(before) != set(after) else [])


def test_a_new_object_has_every_value(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    values = ["strasse", "straße", "A", "a"]
    body = {"name": "Grace", "parent": organizational_unit, "add": {"otherTelephone": values}}
    answer = integration.post("/api/ad/users", body)
    assert answer.status == 201, answer.body
    assert held(directory, UUID(answer.body["id"]), "otherTelephone") == sorted(values)


def test_links_to_one_are_none_to_the_other(
    integration: Integration, ada: UUID, directory: Directory, organizational_unit: str, units: tuple[str, str]
) -> None:
    mine, theirs = (directory.dn(directory.add_user("Grace", parent=unit)) for unit in units)
    group = directory.add_group(parent=organizational_unit)

    def members(**updates: list[str]) -> set[str]:
        answer = integration.patch(
            f"/api/ad/groups/{group}", {update: {"member": names} for update, names in updates.items()}
        )
        assert answer.status == 200, answer.body
        return directory.members(group)

    assert members(add=[mine]) == {mine}
    assert members(remove=[theirs]) == {mine}
    assert members(add=[theirs]) == {mine, theirs}
    assert members(remove=[mine]) == {theirs}
    assert members(replace=[mine, theirs, mine.lower()]) == {mine, theirs}
    for manager in (mine, theirs):
        assert integration.patch(f"/api/ad/users/{ada}", {"replace": {"manager": manager}}).status == 200
        assert directory.text(ada, "manager") == manager
