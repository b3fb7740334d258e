"""What a confined caller guesses of objects outside is neither confirmed nor denied: not by refusals, not by versions.

The right guess and the wrong one are asked for side by side, and answered and recorded alike.
"""

from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from audit.models import OperationRecord
from audit.read_buffer import reads
from core.operation import Operation, operations
from directory.models import DirectoryConnection
from lab.directory import Directory, random_name
from tests.directory.lookup.test_visibility import Company, company, confined, references, search
from tests.support.cast import Answer, Console, Integration, make_confined, make_integration, permissions

__all__ = ["company", "confined"]

BY_DN = [item for item in operations() if item.path.endswith("/by-dn")]


def alike(integration: Integration, *answers: Answer) -> None:
    """The same words, but for what names the request, and the same on record."""
    told = [{**answer.body, "requestId": "", "instance": ""} for answer in answers]
    assert [answer.status for answer in answers] == [answers[0].status] * len(answers)
    assert told == [told[0]] * len(answers)
    reads.flush()
    kept: dict[str, list[object]] = {answer.headers["X-Request-Id"]: [] for answer in answers}
    records = OperationRecord.objects.filter(request_id__in=kept).order_by("id")
    for request_id, *told_of in records.values_list("request_id", "operation", "outcome", "code", "changes"):
        kept[request_id].append(told_of)
    assert all(kept.values())
    assert list(kept.values()) == [next(iter(kept.values()))] * len(answers)


def test_no_value_outside_is_removed_or_found_by_a_guess(
    confined: Integration, integration: Integration, company: Company, directory: Directory
) -> None:
    """Of every attribute with names that can be written."""
    stranger = directory.dn(directory.add_user(parent=company.outside))
    nobody = f"CN={random_name('nobody')},{company.outside}"
    listed = integration.get("/api/ad/schema/attributes").body["items"]
    of_the_schema = {"objectCategory", "defaultObjectCategory"}  # which is nobody's, and open to every caller
    names = {item["name"] for item in listed if item["type"] == "distinguishedName" and item["writable"]}
    writable = sorted(names - of_the_schema)
    assert {"member", "manager", "managedBy", "seeAlso", "secretary"} <= set(writable)
    tried = 0
    for resource, id in (("users", company.led_from_outside), ("groups", company.group_id)):
        for name in writable:
            path = f"/api/ad/{resource}/{id}"
            right, wrong, absent = (
                confined.patch(path, {"remove": {name: dn}}) for dn in (company.boss, stranger, nobody)
            )
            if right.code == "AD.Attributes.NotWritable":
                continue
            assert (right.status, right.code) == (403, "Auth.Forbidden"), name
            alike(integration, right, wrong, absent)
            tried += 1
    assert tried > 20
    path = f"/api/ad/groups/{company.group_id}"
    alike(integration, *(confined.patch(path, {"add": {"member": dn}}) for dn in (company.boss, stranger)))
    alike(
        integration,
        *(
            confined.post(f"{path}/members", {"remove": [str(id)]})
            for id in (company.boss_id, directory.guid(stranger))
        ),
    )


@pytest.mark.parametrize("operation", BY_DN, ids=lambda item: item.name)
def test_a_name_outside_is_refused_whether_or_not_it_is_taken(
    operation: Operation, confined: Integration, integration: Integration, company: Company
) -> None:
    nobody = f"CN={random_name('nobody')},{company.outside}"
    names = (company.boss, nobody, company.group_outside, company.outside)
    answers = [confined.get(f"/api/{operation.path}?dn={quote(dn)}") for dn in names]
    assert answers[0].code == "Auth.Forbidden"
    alike(integration, *answers)


def test_a_base_outside_holds_nothing_whether_or_not_it_is_there(
    confined: Integration, integration: Integration, company: Company
) -> None:
    nowhere = f"OU={random_name('nowhere')},{company.outside}"
    for resource in ("users", "objects", "deleted-objects"):
        answers = [search(confined, resource, base=base) for base in (company.outside, nowhere)]
        assert (answers[0].status, answers[0].body["items"]) == (200, [])
        alike(integration, *answers)


def versions(caller: Integration, company: Company) -> set[str]:
    """The version of the group as every answer gives it."""
    some = ",".join(["*", *references(caller)[:40]])
    paths = ["", "?attributes=description", "?attributes=*", f"?attributes={some}"]
    read = [
        caller.get(f"/api/ad/{kind}/{company.group_id}{query}") for kind in ("groups", "objects") for query in paths
    ]
    found = [
        item
        for resource in ("groups", "objects")
        for query in ({}, {"attributes": "*"}, {"filter": "(description=*)"}, {"sort": "cn"})
        for item in search(caller, resource, base=company.inside, **query).body["items"]
        if item["id"] == str(company.group_id)
    ]
    assert len(found) >= 6
    assert {answer.headers["ETag"] for answer in read} == {f'"{answer.body["version"]}"' for answer in read}
    return {answer.body["version"] for answer in read} | {item["version"] for item in found}


def test_members_outside_move_nothing_that_is_seen_of_a_group(
    confined: Integration, integration: Integration, company: Company, directory: Directory
) -> None:
    directory.modify(company.group_id, description="staff")
    group, path = company.group_id, f"/api/ad/groups/{company.group_id}"
    (version,), (whole,) = versions(confined, company), versions(integration, company)
    before = confined.get(f"{path}?attributes=*").body
    stranger = directory.add_user(parent=company.outside)
    for change in (directory.add_values, directory.remove_values):
        change(group, member=directory.dn(stranger))
        assert versions(confined, company) == {version}
        assert confined.get(f"{path}?attributes=*").body == before
        assert confined.get(path, **{"If-None-Match": f'"{version}"'}).status == 304
        assert (
            confined.patch(f"{path}?dryRun=true", {"replace": {"info": "x"}}, **{"If-Match": f'"{version}"'}).status
            == 200
        )
    assert integration.get(path).body["version"] != whole
    stamp, number = before["createdAt"][:4] + "0101000000.0Z", "1"
    for condition in (f"(whenChanged>={stamp})", f"(uSNChanged>={number})", f"(!(whenChanged<={stamp}))"):
        found = search(confined, "objects", base=company.inside, filter=f"(&(cn=*){condition})").body["items"]
        groups = {item["kind"] == "group" for item in found if item["kind"] == "group"}
        assert not groups or condition.startswith("(!"), condition
        assert str(company.lead_id) in {item["id"] for item in found}

    # What they see moves it, and guards their writes.
    directory.add_values(group, member=directory.dn(company.alone))
    (moved,) = versions(confined, company)
    assert moved != version
    assert confined.get(path, **{"If-None-Match": f'"{version}"'}).status == 200
    for method, body in (("PATCH", {"replace": {"info": "x"}}), ("DELETE", None)):
        refused = confined.call(method, path, body, **{"If-Match": f'"{version}"'})
        assert refused.code == "AD.Object.VersionMismatch"
    changed = confined.patch(path, {"replace": {"info": "x"}}, **{"If-Match": f'"{moved}"'})
    assert (changed.status, {changed.body["version"]}) == (200, versions(confined, company))


def test_saved_filters_tell_no_names_outside(
    connection: DirectoryConnection, confined: Integration, integration: Integration, company: Company
) -> None:
    def share(**members: Any) -> Answer:
        body = {"name": random_name("filter"), "filter": "(cn=*)", "shared": True, **members}
        return integration.post("/api/ad/saved-filters", body)

    inside = [share(), share(base=company.inside), share(filter=f"(manager={company.lead})")]
    outside = [
        share(base=company.outside),
        share(filter=f"(manager={company.boss})"),
        share(filter=f"(|(cn=x)(!(memberOf:1.2.840.113556.1.4.1941:={company.group_outside})))"),
    ]
    assert {answer.status for answer in (*inside, *outside)} == {201}
    listed = confined.get("/api/ad/saved-filters").body
    assert {item["id"] for item in listed["items"]} == {answer.body["id"] for answer in inside}
    assert (listed["total"], company.marker in str(listed)) == (3, False)
    for answer in outside:
        path = f"/api/ad/saved-filters/{answer.body['id']}"
        absent = confined.get(f"/api/ad/saved-filters/{uuid4()}")
        asked = [
            confined.get(path),
            confined.get(f"{path}/run"),
            confined.patch(path, {"name": "x"}),
            confined.delete(path),
        ]
        assert {each.status for each in asked} == {absent.status} == {404}
    nowhere = f"OU={random_name('nowhere')},{company.outside}"
    for base in (company.outside, nowhere):
        answer = confined.post("/api/ad/saved-filters", {"name": random_name("f"), "filter": "(cn=*)", "base": base})
        assert (answer.status, answer.code) == (403, "Auth.Forbidden")


def test_templates_tell_no_names_outside(connection: DirectoryConnection, company: Company) -> None:
    made, chief = make_confined("token", connection, company.unit_id), make_integration(connection)
    for who in (made.key.owner, chief.key.owner):
        who.user_permissions.add(*permissions(["directory.manage_changetemplate"]))
    person, maker = Console(made.key.owner), Console(chief.key.owner)

    def keep(**members: Any) -> Answer:
        body = {"name": random_name("template"), "occasion": "leaver", **members}
        return maker.post("/rest/ad/change-templates", body)

    inside = [keep(attributes={"manager": [company.lead]}), keep(attributes={"manager": ["{manager}"], "title": ["x"]})]
    groups = keep(parent=company.outside, joins=[str(company.group_outside_id)])
    outside = [keep(attributes={"manager": [company.boss]}), keep(attributes={"seeAlso": [company.lead, company.boss]})]
    assert {answer.status for answer in (*inside, groups, *outside)} == {201}
    listed = person.get("/rest/ad/change-templates").body
    assert {item["id"] for item in listed["items"]} == {answer.body["id"] for answer in (*inside, groups)}
    assert company.marker not in str(listed)
    for answer in outside:
        assert person.get(f"/rest/ad/change-templates/{answer.body['id']}").status == 404
    body = {"name": random_name("template"), "occasion": "leaver", "attributes": {"manager": [company.boss]}}
    assert person.post("/rest/ad/change-templates", body).status == 403
