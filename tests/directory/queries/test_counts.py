"""Counting objects: all, by the values of an attribute, by unit and by state; scopes and hidden values hold."""

from typing import Any
from urllib.parse import urlencode

import pytest

from audit.models import OperationRecord
from audit.read_buffer import reads
from directory.models import DirectoryConnection
from directory.queries import counts
from lab.directory import Directory
from tests.support.agent_tools import call_tool
from tests.support.agents import make_agent
from tests.support.cast import Integration, make_integration


def counted(integration: Integration, **parameters: str) -> dict[str, Any]:
    answer = integration.get(f"/api/ad/objects/count?{urlencode({'kind': 'users', **parameters})}")
    assert answer.status == 200, answer
    body: dict[str, Any] = answer.body
    return body


@pytest.fixture
def staff(directory: Directory, organizational_unit: str) -> str:
    sales = directory.add_unit("Sales", parent=organizational_unit)
    directory.add_user(parent=organizational_unit, department="Research", enabled=False)
    directory.add_user(parent=sales, department="Sales")
    directory.add_user(parent=sales, department="sales")
    directory.add_user(parent=sales)
    return organizational_unit


def test_it_works(integration: Integration, staff: str) -> None:
    assert counted(integration, base=staff) == {"total": 4, "values": [], "moreValues": 0}
    by_department = counted(integration, base=staff, by="department")
    found = [((item["value"] or "").lower(), item["count"]) for item in by_department["values"]]
    assert found == [("sales", 2), ("research", 1), ("", 1)]
    assert (by_department["total"], by_department["moreValues"]) == (4, 0)
    assert counted(integration, base=staff, filter="(department=sales)")["total"] == 2
    assert counted(integration, base=staff, scope="one-level")["total"] == 1
    reads.flush()
    assert {item.operation for item in OperationRecord.objects.all()} == {"objects.count"}


def test_by_unit_and_by_state(integration: Integration, staff: str) -> None:
    assert counted(integration, base=staff, by="unit")["values"] == [
        {"value": f"OU=Sales,{staff}", "count": 3},
        {"value": staff, "count": 1},
    ]
    states = {item["value"]: item["count"] for item in counted(integration, base=staff, by="state")["values"]}
    assert (states["enabled"], states["disabled"], states["locked-out"], len(states)) == (3, 1, 0, 12)


def test_a_confined_caller_learns_nothing_of_elsewhere(
    connection: DirectoryConnection, directory: Directory, staff: str
) -> None:
    sales = f"OU=Sales,{staff}"
    outside = directory.add_user(parent=staff)
    inside = directory.add_user(parent=sales, manager=directory.dn(outside))
    confined = make_integration(connection, scopes=[directory.guid(sales)])
    assert counted(confined)["total"] == 4
    assert counted(confined, by="manager")["values"] == [{"value": None, "count": 4}]
    units = counted(confined, kind="organization-units", by="unit")
    assert units["values"] == [{"value": None, "count": 1}], "its own place is outside"
    directory.delete(inside)


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"by": "shoeSize"}, "AD.Attributes.Unknown"),
        ({"by": "unicodePwd"}, "AD.Attributes.NotReadable"),
        ({"by": "tokenGroups"}, "AD.Attributes.NotReadable"),
        ({"by": "thumbnailPhoto"}, "Request.Invalid"),
        ({"by": "state", "kind": "groups"}, "Request.Invalid"),
    ],
)
def test_what_cannot_be_counted_by_is_named(parameters: dict[str, str], code: str, integration: Integration) -> None:
    refused = integration.get(f"/api/ad/objects/count?{urlencode({'kind': 'users', **parameters})}")
    assert (refused.status, refused.body["code"]) == (400, code)
    assert refused.body["errors"][0]["parameter"] == "by"


def test_the_most_frequent_come_first(integration: Integration, staff: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MAX_VALUES", 1)
    answer = counted(integration, base=staff, by="department")
    assert (len(answer["values"]), answer["values"][0]["count"], answer["moreValues"]) == (1, 2, 2)


def test_agents_count_too(connection: DirectoryConnection, staff: str) -> None:
    counted = call_tool(make_agent(connection), "count_objects", kind="users", base=staff, by="department")
    assert counted.structured["total"] == 4
    assert {"count": 1} in counted.structured["values"]
