"""Conditions as parameters of lists: named as attributes or members of records, read as values of filters."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from lab.directory import Directory
from tests.directory.queries.searches.asking import found, search
from tests.support.cast import Integration, make_integration

EXPIRY = {"expiresAt": "2026-08-01T00:00:00Z", "accountExpires": "134300160000000000"}


@pytest.fixture
def people(directory: Directory, organizational_unit: str) -> dict[str, UUID]:
    """Ada, who is Bea's manager in Sales; Bea is disabled, and Cem, elsewhere, must change his password."""
    ada = directory.add_user("Ada", parent=organizational_unit, department="Sales", pwdLastSet="-1")
    boss = {"manager": f"CN=Ada,{organizational_unit}", "pwdLastSet": "-1"}
    return {
        "Ada": ada,
        "Bea": directory.add_user("Bea", parent=organizational_unit, department="Sales", enabled=False, **boss),
        "Cem": directory.add_user("Cem", parent=organizational_unit, accountExpires=EXPIRY["accountExpires"]),
    }


def test_it_works(
    integration: Integration, people: dict[str, UUID], organizational_unit: str, connection: Any, directory: Directory
) -> None:
    for parameters, expected in (
        ({"department": "sales"}, {"Ada", "Bea"}),
        ({"Department": "Sales", "enabled": "true"}, {"Ada"}),
        ({"enabled": "false"}, {"Bea"}),
        ({"filter": "(cn=B*)", "department": "Sales", "q": "Bea"}, {"Bea"}),
        ({"manager": f"cn=ada,{organizational_unit}"}, {"Bea"}),
        ({"mustChangePassword": "true"}, {"Cem"}),
        ({"mustChangePassword": "false", "passwordNeverExpires": "false"}, {"Ada", "Bea"}),
        ({"expiresAt": EXPIRY["expiresAt"]}, {"Cem"}),
        ({"accountExpires": "never", "changedSince": "2020-01-01T00:00:00+02:00"}, {"Ada", "Bea"}),
        ({"changedSince": "2120-01-01T00:00:00Z"}, set()),
        ({"userAccountControl": "514"}, set()),
        ({"description": "(cn=Ada)"}, set()),
    ):
        assert found(search(integration, base=organizational_unit, **parameters)) == expected, parameters
    query = urlencode({"base": organizational_unit, "department": "Sales"})
    headers = {"X-API-Key": integration.value, "Accept": "application/x-ndjson"}
    stream: Any = integration.client.get(f"/api/ad/users?{query}", headers=headers)
    assert len(b"".join(stream.streaming_content).splitlines()) == 2
    inner = directory.add_unit("Inner", parent=organizational_unit)
    assert found(search(make_integration(connection, scopes=[directory.guid(inner)]), department="Sales")) == set()


def test_lists_of_every_kind_take_them(
    integration: Integration, people: dict[str, UUID], directory: Directory, organizational_unit: str
) -> None:
    members = [f"CN={name},{organizational_unit}" for name in people]
    group = directory.add_group("Band", parent=organizational_unit, member=members)
    for resource in ("objects", f"groups/{group}/members", "accounts"):
        given = {"state": "enabled"} if resource == "accounts" else {}
        found_there = found(search(integration, resource, base=organizational_unit, enabled="true", **given))
        assert found_there == {"Ada", "Cem"}, resource
    first = search(integration, base=organizational_unit, department="Sales", pageSize=1).body
    following = {"pageSize": 1, "cursor": first["nextCursor"], "base": organizational_unit}
    assert search(integration, **following, department="Sales").body["total"] == 2
    assert search(integration, **following, department="Legal").code == "Search.CursorInvalid"


def test_a_record_is_found_by_its_members(integration: Integration, people: dict[str, UUID]) -> None:
    for id in people.values():
        record = integration.get(f"/api/ad/users/{id}").body
        members = {**record, **record["account"]}
        for name in ("id", "name", "distinguishedName", "createdAt", "changedAt", "samAccountName", "sid"):
            assert members[name], name
            assert found(search(integration, **{name: members[name]}, base=record["distinguishedName"])), name
        for name in ("passwordLastSetAt", "enabled", "mustChangePassword", "passwordNeverExpires"):
            text = "never" if members[name] is None else str(members[name])
            value = text.lower() if isinstance(members[name], bool) else text
            assert found(search(integration, **{name: value}, base=record["distinguishedName"])), name


@pytest.mark.parametrize(
    ("parameters", "code", "said"),
    [
        ({"departmnet": "Sales"}, "Request.UnknownParameter", "department"),
        ({"pagesize": "5"}, "Request.UnknownParameter", "pageSize"),
        ({"page_size": "5"}, "Request.UnknownParameter", "pageSize"),
        ({"Enabled": "TRUE"}, "Request.Invalid", "true or false"),
        ({"lockedOut": "true"}, "Request.UnknownParameter", "lockoutTime"),
        ({"department;binary": "x"}, "Request.UnknownParameter", "department"),
        ({"colour": "red"}, "Request.UnknownParameter", "not known"),
        ({"enabled": "1"}, "Request.Invalid", "true or false"),
        ({"department": ""}, "Search.FilterInvalid", "empty"),
        ({"mail": "a*"}, "Search.FilterInvalid", "filter"),
        ({"manager": "Ada"}, "Search.FilterInvalid", "distinguished name"),
        ({"objectGUID": r"\01"}, "Search.FilterInvalid", "UUID"),
        ({"changedSince": "yesterday"}, "Search.FilterInvalid", "RFC 3339"),
        ({"changedSince": "2026-11-01"}, "Search.FilterInvalid", "RFC 3339"),
        ({"unicodePwd": "x"}, "AD.Attributes.NotReadable", "never shown"),
        ({"tokenGroups": "S-1-5-18"}, "AD.Filter.Unsupported", "computed"),
    ],
)
def test_what_is_refused(integration: Integration, parameters: dict[str, str], code: str, said: str) -> None:
    answer = search(integration, **parameters)
    assert (answer.status, answer.code) == (400, code), answer.body
    (error,) = answer.body["errors"]
    assert error["parameter"] == next(iter(parameters))
    assert said in answer.body["detail"]
    assert "position" not in answer.body
