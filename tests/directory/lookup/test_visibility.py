"""What a role with scopes may see of values that name objects outside of them: nothing, on any way to them."""

import csv
import io
import json
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

import pytest

from audit.models import OperationRecord
from core.call import SupervisionLevel
from lab.directory import Directory, random_name
from tests.support.cast import Answer, Integration, as_scopes, make_integration

IN_CHAIN = "1.2.840.113556.1.4.1941"
POLICY = "CN={31B2F340-016D-11D2-945F-00C04FB984F9},CN=Policies,CN=System,DC=corp,DC=example,DC=test"


class Company:
    """A unit that a role is confined to, and what its objects refer to inside and outside."""

    def __init__(self, directory: Directory, unit: str) -> None:
        self.inside = directory.add_unit("Inside", parent=unit)
        self.outside = directory.add_unit(random_name("hidden"), parent=unit)
        self.marker = self.outside.partition(",")[0].removeprefix("OU=")
        self.boss_id = directory.add_user(parent=self.outside)
        self.lead_id = directory.add_user(parent=self.inside)
        self.boss, self.lead = directory.dn(self.boss_id), directory.dn(self.lead_id)
        self.led_from_outside = directory.add_user(
            parent=self.inside, manager=self.boss, seeAlso=[self.boss, self.lead], secretary=self.boss
        )
        self.led_from_inside = directory.add_user(parent=self.inside, manager=self.lead)
        self.report_outside = directory.add_user(parent=self.outside, manager=self.lead)
        self.alone = directory.add_user(parent=self.inside)
        self.group_id = directory.add_group(parent=self.inside, members=[self.boss_id, self.lead_id])
        self.group_outside_id = directory.add_group(parent=self.outside, members=[self.led_from_outside, self.boss_id])
        self.group, self.group_outside = directory.dn(self.group_id), directory.dn(self.group_outside_id)
        directory.modify(self.group_id, managedBy=self.boss)
        directory.modify(self.inside, managedBy=self.boss, gPLink=f"[LDAP://{POLICY};0]")
        self.unit_id = directory.guid(self.inside)


@pytest.fixture
def company(directory: Directory, organizational_unit: str) -> Company:
    return Company(directory, organizational_unit)


@pytest.fixture
def confined(connection: Any, company: Company) -> Integration:
    """May do everything, inside one unit."""
    return make_integration(connection, scopes=[company.unit_id])


def fetch(integration: Integration, path: str, accept: str) -> str:
    """An answer as text, read to its end where it is streamed."""
    response = integration.client.get(f"/api/ad/{path}", headers={"X-API-Key": integration.value, "Accept": accept})
    assert response.status_code == 200, path
    content = b"".join(response.streaming_content) if response.streaming else response.content  # type: ignore[attr-defined]
    return content.decode()


def found(answer: Answer) -> set[UUID]:
    assert answer.status == 200, answer.body
    return {UUID(item["id"]) for item in answer.body["items"]}


def search(integration: Integration, resource: str = "users", **parameters: Any) -> Answer:
    return integration.get(f"/api/ad/{resource}?{urlencode(parameters)}")


def references(integration: Integration) -> list[str]:
    """Every attribute of the schema whose values are names, as the gateway tells it."""
    answer = integration.get("/api/ad/schema/attributes")
    names = [item["name"] for item in answer.body["items"] if item["type"] == "distinguishedName"]
    assert {"member", "memberOf", "manager", "directReports", "managedBy", "managedObjects", "seeAlso"} <= set(names)
    return names


def test_it_works(confined: Integration, integration: Integration, company: Company) -> None:
    path = f"/api/ad/users/{company.led_from_outside}?attributes=manager,memberOf,seeAlso"
    whole, seen = integration.get(path).body["attributes"], confined.get(path).body["attributes"]
    assert whole == {
        "manager": [company.boss], "memberOf": [company.group_outside], "seeAlso": sorted_as(whole, company)
    }  # fmt: skip
    assert seen == {"manager": [], "memberOf": [], "seeAlso": [company.lead]}
    group = confined.get(f"/api/ad/groups/{company.group_id}?attributes=member,managedBy").body
    assert group["attributes"] == {"member": [company.lead], "managedBy": []}
    assert group["group"]["memberCount"] == 1
    assert integration.get(f"/api/ad/groups/{company.group_id}").body["group"]["memberCount"] == 2


def sorted_as(attributes: Any, company: Company) -> list[str]:
    assert set(attributes["seeAlso"]) == {company.boss, company.lead}
    return list(attributes["seeAlso"])


def test_no_answer_names_what_is_outside(confined: Integration, company: Company) -> None:
    names = ",".join(["*", *sorted({"memberOf", "directReports", "managedObjects", "parentGUID"})])
    base = quote(company.inside)
    paths = [
        *(f"users/{id}?attributes={names}" for id in (company.led_from_outside, company.lead_id)),
        f"objects/{company.group_id}?attributes={names}",
        f"organization-units/{company.unit_id}?attributes={names}",
        f"users/by-dn?dn={quote(company.lead)}&attributes={names}",
        f"objects?base={base}&attributes={names}",
        f"users?base={base}",
        f"users?base={base}&sort=manager",
        f"groups/{company.group_id}/members?nested=true&attributes={names}",
        f"users/{company.led_from_outside}/groups?nested=true",
        f"accounts?state=enabled&base={base}&attributes={names}",
        f"objects/{company.lead_id}/access-control",
        f"organization-units/{company.unit_id}/delegations?inherited=true",
    ]
    for path in paths:
        for accept in ("application/json", "application/x-ndjson"):
            text = fetch(confined, path, accept)
            assert company.marker not in text, (path, accept)
            assert "CN=Policies" not in text, path
    table = fetch(confined, f"objects?base={base}&attributes=manager,member,seeAlso", "text/csv")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert len(rows) == 6
    assert company.marker not in table
    assert {row["manager"] for row in rows} == {"", company.lead}


def test_every_attribute_that_names_others_is_confined(
    confined: Integration, integration: Integration, company: Company
) -> None:
    """Whatever the schema holds now or later."""
    names = references(integration)
    for start in range(0, len(names), 60):
        some = ",".join(names[start : start + 60])
        for id in (company.led_from_outside, company.lead_id, company.group_id, company.unit_id):
            answer = confined.get(f"/api/ad/objects/{id}?attributes={some}")
            assert answer.status == 200, answer.body
            assert company.marker not in json.dumps(answer.body), some


def test_the_parent_of_the_scope_is_not_told(
    confined: Integration, integration: Integration, company: Company, directory: Directory
) -> None:
    path = f"/api/ad/organization-units/{company.unit_id}?attributes=parentGUID"
    assert integration.get(path).body["parentId"] is not None
    assert (confined.get(path).body["parentId"], confined.get(path).body["attributes"]) == (None, {"parentGUID": []})
    assert confined.get(f"/api/ad/users/{company.lead_id}").body["parentId"] == str(company.unit_id)
    items = search(confined, "objects").body["items"]
    assert {item["parentId"] for item in items} == {None, str(company.unit_id)}


OUTSIDE = [
    ("(manager={boss})", set()),
    ("(!(manager={boss}))", set()),
    ("(!(!(manager={boss})))", set()),
    ("(manager~={boss})", set()),
    ("(manager:{chain}:={boss})", set()),
    ("(!(manager:{chain}:={boss}))", set()),
    ("(memberOf={group_outside})", set()),
    ("(!(memberOf={group_outside}))", set()),
    ("(memberOf:{chain}:={group_outside})", set()),
    ("(seeAlso={boss})", set()),
    ("(directReports={report_outside_dn})", set()),
    ("(|(manager={boss})(manager={lead}))", {"led_from_inside"}),
    ("(|(!(manager={boss}))(manager={lead}))", {"led_from_inside"}),
    ("(&(objectClass=user)(!(|(manager={boss})(manager={lead}))))", set()),
    ("(manager={lead})", {"led_from_inside"}),
    ("(!(manager={lead}))", {"led_from_outside", "lead_id", "alone"}),
    ("(manager=*)", {"led_from_inside"}),
    ("(!(manager=*))", {"led_from_outside", "lead_id", "alone"}),
    ("(&(objectClass=user)(!(manager=*))(seeAlso=*))", {"led_from_outside"}),
    ("(&(manager=*)(!(manager=*)))", set()),
    ("(memberOf=*)", {"lead_id"}),
    ("(!(memberOf=*))", {"led_from_outside", "led_from_inside", "alone"}),
    ("(secretary=*)", set()),
]


@pytest.mark.parametrize(("text", "expected"), OUTSIDE, ids=[text for text, _ in OUTSIDE])
@pytest.mark.parametrize("parameters", [{}, {"pageSize": 1}], ids=["whole", "pages"])
def test_nothing_is_found_by_what_is_outside(
    confined: Integration,
    company: Company,
    directory: Directory,
    text: str,
    expected: set[str],
    parameters: dict[str, Any],
) -> None:
    filter = text.format(
        boss=company.boss,
        lead=company.lead,
        group_outside=company.group_outside,
        marker=company.marker,
        report_outside_dn=directory.dn(company.report_outside),
        chain=IN_CHAIN,
    )
    answer = search(confined, filter=filter, **parameters)
    ids = found(answer)
    while cursor := answer.body["nextCursor"]:
        answer = search(confined, filter=filter, cursor=cursor, **parameters)
        ids |= found(answer)
    assert ids == {getattr(company, name) for name in expected}


def test_the_class_of_an_object_is_compared_as_ever(confined: Integration, company: Company) -> None:
    people = {company.lead_id, company.led_from_inside, company.led_from_outside, company.alone}
    for text in ("(objectCategory=person)", "(&(objectCategory=person)(distinguishedName=*))"):
        assert found(search(confined, filter=text)) == people
    assert found(search(confined, "objects", filter=f"(distinguishedName={company.lead})")) == {company.lead_id}


@pytest.mark.parametrize("text", ["(|(manager=*)(cn=x))", "(!(&(manager=*)(cn=x)))", "(!(!(manager=*)))"])
def test_a_presence_that_cannot_be_judged_is_refused(
    confined: Integration, integration: Integration, text: str
) -> None:
    answer = search(confined, filter=text)
    assert (answer.status, answer.code) == (400, "AD.Filter.Unsupported")
    assert answer.body["errors"][0]["parameter"] == "filter"
    assert search(integration, filter=text).status == 200


@pytest.mark.parametrize("text", ["(manager>={})", "(manager<={})", "(manager=*{}*)", "(!(manager=*{}*))"])
def test_names_have_no_order_and_no_parts(confined: Integration, company: Company, text: str) -> None:
    for name in (company.boss, company.lead):
        answer = search(confined, filter=text.format(name))
        assert (answer.status, answer.code) == (400, "AD.Filter.Unsupported")


def test_conditions_as_parameters_find_nothing_by_what_is_outside(confined: Integration, company: Company) -> None:
    assert found(search(confined, manager=company.lead)) == {company.led_from_inside}
    assert found(search(confined, manager=company.boss)) == set()
    for id in (company.lead_id, company.boss_id):
        assert search(confined, manager=f"<GUID={id}>").code == "AD.Filter.Unsupported"


def test_policy_links_are_not_found_by_what_is_outside(confined: Integration, company: Company) -> None:
    for text in (f"(gPLink=*{POLICY}*)", f"(gPLink=[LDAP://{POLICY};0])", "(gPLink=*)"):
        assert found(search(confined, "organization-units", filter=text)) == set()


def test_the_order_tells_nothing(confined: Integration, company: Company) -> None:
    sorted_ids = [item["id"] for item in search(confined, sort="-manager").body["items"]]
    assert sorted_ids[0] == str(company.led_from_inside)  # the only one with a value that may be seen
    rest = [item["id"] for item in search(confined, sort="-manager").body["items"]][1:]
    assert rest == sorted(rest, key=lambda id: UUID(id).bytes_le)


def test_writes_tell_nothing_and_remove_nothing_unseen(
    confined: Integration, company: Company, directory: Directory
) -> None:
    path = f"/api/ad/users/{company.led_from_outside}"
    dry = confined.patch(f"{path}?dryRun=true", {"replace": {"manager": company.lead}})
    assert dry.body["changes"] == [{"attribute": "manager", "before": [], "after": [company.lead]}]
    assert company.marker not in json.dumps(dry.body)
    assert company.marker not in json.dumps(confined.delete(f"{path}?dryRun=true").body)
    refused: list[dict[str, Any]] = [
        {"replace": {"seeAlso": [company.lead]}},
        {"clear": ["seeAlso"]},
        {"replace": {"secretary": []}},
    ]
    for body in refused:
        assert confined.patch(path, body).status == 403
    assert len(directory.read(company.led_from_outside, "seeAlso")["seeAlso"]) == 2
    unit = f"/api/ad/organization-units/{company.unit_id}"
    assert confined.patch(unit, {"clear": ["gPLink"]}).status == 403
    assert confined.patch(unit, {"replace": {"gPLink": f"[LDAP://{POLICY};0] "}}).status == 403
    # Values inside are one's own, and so is a single value as a whole.
    assert confined.patch(path, {"remove": {"seeAlso": [company.lead]}}).status == 200
    answer = confined.patch(path, {"replace": {"manager": company.lead}})
    assert (answer.status, answer.body["attributes"]["manager"]) == (200, [company.lead])
    assert [value.decode() for value in directory.read(company.led_from_outside, "seeAlso")["seeAlso"]] == [
        company.boss
    ]


def test_log_history_and_requests_show_values_inside(
    connection: Any, confined: Integration, integration: Integration, company: Company
) -> None:
    path = f"/api/ad/users/{company.led_from_outside}"
    assert integration.patch(path, {"replace": {"manager": company.lead}}).status == 200
    for answer in (
        confined.get(f"/api/operations?target={company.led_from_outside}&operation=users.update"),
        confined.get(f"/api/ad/objects/{company.led_from_outside}/history"),
    ):
        (record,) = answer.body["items"]
        assert record["changes"] == [{"attribute": "manager", "before": [], "after": [company.lead]}]
        assert confined.get(f"/api/operations/{record['id']}").body["changes"] == record["changes"]
    whole = OperationRecord.objects.get(target_id=company.led_from_outside, operation="users.update")
    assert whole.changes[0]["before"] == [company.boss]  # kept for those who may see it

    asking = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    held = asking.patch(f"/api/ad/users/{company.led_from_inside}", {"replace": {"seeAlso": [company.boss]}})
    assert held.status == 202
    id = held.body["changeRequest"]["id"]
    asking.key.role.scopes = as_scopes([company.unit_id], connection)  # since then
    asking.key.role.save()
    (change,) = asking.get(f"/api/change-requests/{id}").body["changes"]
    assert change == {"attribute": "seeAlso", "current": [], "proposed": []}
    assert company.marker not in json.dumps(asking.get("/api/change-requests").body)
