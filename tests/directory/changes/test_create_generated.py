"""New accounts whose password the gateway makes: told once, to who asked or to who approved."""

from uuid import UUID

import pytest

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from gateway import pipeline
from lab.directory import Directory
from tests.support.agent_tools import call_tool
from tests.support.agents import make_agent
from tests.support.cast import Console, Integration, make_integration, make_person

PATH = "/api/ad/users"


def body(unit: str, **more: object) -> dict[str, object]:
    return {"name": "Grace Hopper", "parent": unit, "generatePassword": True, "enabled": True, **more}


def test_it_works(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    made = integration.post(PATH, body(organizational_unit))
    assert made.status == 201, made
    assert directory.can_sign_in(UUID(made.body["id"]), made.body["generatedPassword"])
    read = integration.get(f"{PATH}/{made.body['id']}").body
    assert made.body.keys() - read.keys() == {"generatedPassword"}
    (record,) = integration.get("/api/operations?operation=users.create").body["items"]
    assert made.body["generatedPassword"] not in str(record)


def test_a_replay_tells_none(integration: Integration, organizational_unit: str) -> None:
    headers = {"Idempotency-Key": "grace"}
    first = integration.post(PATH, body(organizational_unit), **headers)
    again = integration.post(PATH, body(organizational_unit), **headers)
    assert (first.status, again.status) == (201, 201)
    assert (again.body["id"], again.body.get("generatedPassword")) == (first.body["id"], None)


def test_a_dry_run_tells_none(integration: Integration, organizational_unit: str) -> None:
    shown = integration.post(f"{PATH}?dryRun=true", body(organizational_unit)).body
    assert {"attribute": "unicodePwd", "before": [], "after": ["<secret>"]} in shown["changes"]
    assert "generatedPassword" not in str(shown)


@pytest.mark.parametrize("password", ["Correct-Horse-9", ""])
def test_only_one_password(integration: Integration, organizational_unit: str, password: str) -> None:
    refused = integration.post(PATH, body(organizational_unit, password=password))
    assert refused.code == "Request.Invalid"


def test_a_batch_tells_each_once(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    items = [body(organizational_unit), body(organizational_unit, name="Ada Lovelace", generatePassword=False)]
    items[1]["enabled"] = False
    headers = {"Idempotency-Key": "both"}
    made, plain = integration.post(f"{PATH}/batch/create", {"items": items}, **headers).body["results"]
    assert directory.can_sign_in(UUID(made["id"]), made["generatedPassword"])
    assert "generatedPassword" not in plain
    again, _ = integration.post(f"{PATH}/batch/create", {"items": items}, **headers).body["results"]
    assert (again["id"], again["generatedPassword"]) == (made["id"], None)


def test_a_held_one_is_told_to_the_approver(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    key = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    assert key.post(PATH, body(organizational_unit)).status == 202
    request = ChangeRequest.objects.get()
    approver = Console(make_person(may=["approvals.decide_change"]))
    path = f"/rest/change-requests/{request.id}"
    assert approver.post(f"{path}/approve", {"digest": request.digest}).status == 200
    pipeline.apply_change_request(request.id)
    request.refresh_from_db()
    assert request.status == "applied", request.problem
    told = approver.post(f"{path}/secret").body["generatedPassword"]
    (dn,) = directory.search("(sAMAccountName=Grace Hopper)", base=organizational_unit)
    assert directory.can_sign_in(directory.guid(dn), told)


def test_an_agent_makes_one(connection: DirectoryConnection, directory: Directory, organizational_unit: str) -> None:
    agent = make_agent(connection)
    asked = {**body(organizational_unit), "enabled": False, "kind": "users", "reason": "Begins on Monday."}
    made = call_tool(agent, "create_object", **asked)
    assert not made.is_error, made
    directory.modify(UUID(made.structured["id"]), userAccountControl="512")
    assert directory.can_sign_in(UUID(made.structured["id"]), made.structured["generatedPassword"])
