"""Reading the operations log through its operations."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from audit import log
from audit.identifiers import identifier_bounds, new_identifier
from audit.models import OperationRecord
from core.errors import GatewayError, NotFound
from core.shapes import load_query
from directory.lookup import access
from operations.log import operations as operations_log
from tests.audit.calls import CALL, DIRECTORY, make_call

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

MEMBERS = """
    id at completedAt surface operation owner keyName credentialId clientAddress requestId directory target changes
    outcome code changeRequestId approvedBy runId batchIndex reason server reversible
"""


def found(call: Any = CALL, **parameters: str) -> list[str]:
    query = load_query(operations_log.SearchOperations, parameters)
    return [item["operation"] for item in operations_log.search_operations(call, query=query)["items"]]


def target(dn: str, id: UUID | None = None) -> log.TargetRef:
    return log.TargetRef(id=id, kind="user", distinguished_name=dn)


def test_the_record_has_exactly_the_documented_members() -> None:
    guid = uuid4()
    record = log.record_intent(CALL, log.Intent(operation="users.update", target=target("CN=Ada,DC=corp", guid)))
    shown = operations_log.read_operation(CALL, id=record.id)
    assert list(shown) == [*MEMBERS.split(), "callId"]
    assert shown["callId"] == str(CALL.call_id)
    assert shown["target"] == {"id": str(guid), "kind": "user", "distinguishedName": "CN=Ada,DC=corp"}
    assert shown["at"].endswith("Z")
    assert shown["completedAt"] is None
    assert (
        operations_log.read_operation(CALL, id=log.record_intent(CALL, log.Intent(operation="x.y")).id)["target"]
        is None
    )


def test_an_unknown_record_is_not_found() -> None:
    with pytest.raises(NotFound):
        operations_log.read_operation(CALL, id=uuid4())


def test_newest_first_in_pages() -> None:
    for index in range(5):
        log.record_intent(CALL, log.Intent(operation=f"n.{index}"))
    seen, cursor = [], None
    while True:
        parameters = {"pageSize": "2"} | ({"cursor": cursor} if cursor else {})
        query = load_query(operations_log.SearchOperations, parameters)
        page = operations_log.search_operations(CALL, query=query)
        seen += [item["operation"] for item in page["items"]]
        log.record_intent(CALL, log.Intent(operation="n.later"))
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert seen == ["n.4", "n.3", "n.2", "n.1", "n.0"]


def test_filters() -> None:
    guid, run = uuid4(), uuid4()
    log.record_refusal(CALL, operation="a.refused", code="X", target=target("CN=A", guid))
    other = make_call(
        person=CALL.person.__class__(id=8_000_008, username="bob", display_name="Bob"),
        credential=CALL.credential.__class__(kind=CALL.credential.kind, id="k", name="hr"),
        request_id="request-2",
    )
    log.record_intents(other, [log.Intent(operation="b.run", run_id=run, batch_index=0)])
    assert found(owner="bob") == ["b.run"]
    assert found(keyName="crm") == ["a.refused"]
    assert found(operation="b.run") == ["b.run"]
    assert found(target=str(guid).upper()) == ["a.refused"]
    assert found(outcome="pending") == ["b.run"]
    assert found(requestId="request-2") == ["b.run"]
    assert found(runId=str(run)) == ["b.run"]
    assert found(owner="bob", keyName="crm") == []
    assert found() == ["b.run", "a.refused"]


def test_a_time_range_includes_its_ends() -> None:
    records = [log.record_intent(CALL, log.Intent(operation=f"n.{index}")) for index in range(3)]
    middle = records[1].at.isoformat()
    assert found(**{"from": middle, "to": middle}) == ["n.1"]
    assert found(**{"from": middle}) == ["n.2", "n.1"]
    assert found(to=middle) == ["n.1", "n.0"]
    assert found(to=(records[0].at - timedelta(microseconds=1)).isoformat()) == []


def test_a_time_range_may_reach_beyond_all_records() -> None:
    log.record_intent(CALL, log.Intent(operation="n.0"))
    for moment, before, after in (("0001-01-01T00:00:00Z", 0, 1), ("9999-12-31T23:59:59Z", 1, 0)):
        assert (len(found(to=moment)), len(found(**{"from": moment}))) == (before, after)


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"outcome": "nonsense"}, "Request.Invalid"),
        ({"from": "yesterday"}, "Request.Invalid"),
        ({"from": "2026-W01-1T00:00:00+00:00"}, "Request.Invalid"),
        ({"to": "9999-12-31T23:59:59-23:59"}, "Request.Invalid"),
        ({"target": "42"}, "Request.Invalid"),
        ({"pageSize": "0"}, "Request.Invalid"),
        ({"key_name": "crm"}, "Request.UnknownParameter"),
        ({"from_": "2026-01-01T00:00:00Z"}, "Request.UnknownParameter"),
    ],
)
def test_bad_parameters(parameters: dict[str, str], code: str) -> None:
    with pytest.raises(GatewayError) as refusal:
        found(**parameters)
    assert refusal.value.code == code
    assert refusal.value.errors[0].parameter == next(iter(parameters))


def test_a_role_with_scopes_sees_targets_inside_them_only(monkeypatch: pytest.MonkeyPatch) -> None:
    base = "OU=Sales (Île),DC=corp"
    inside = [base, "CN=Ada,ou=sales (île),dc=CORP"]
    inside += [f"CN={name},OU=Below,{base}" for name in ("a\\,b", "c\nd", "ß")] + [f"CN=e\\\\,{base}"]
    outside = ["OU=Presales (Île),DC=corp", f"CN=y,{base},DC=other", "CN=z,DC=corp", "CN=w,OU=Sales Île,DC=corp"]
    outside += [f"CN=x\\,{base}", f"CN=x\\\\\\,{base}", f"CN=v,{base}\n", f"CN=t{base}", "OU=ſales (Île),DC=corp"]
    for name in inside + outside:
        log.record_intent(CALL, log.Intent(operation=name, target=target(name)))
    log.record_intent(CALL, log.Intent(operation="without target"))
    elsewhere = make_call(directory=DIRECTORY.__class__(id=uuid4(), name="lab", client_id="c2"))
    log.record_intent(elsewhere, log.Intent(operation="in another directory", target=target(inside[1])))
    confined = make_call(scopes=((uuid4(),),))

    monkeypatch.setattr(access, "scope_bases", lambda _: (base,))
    assert sorted(found(confined)) == sorted(inside)
    hidden = OperationRecord.objects.get(operation="CN=z,DC=corp")
    with pytest.raises(NotFound):
        operations_log.read_operation(confined, id=hidden.id)

    monkeypatch.setattr(access, "scope_bases", lambda _: ())
    assert found(confined) == [], "a scope whose object is gone holds nothing"
    assert found(make_call(scopes=((uuid4(),),), directory=None)) == []


def test_identifiers_sort_by_time() -> None:
    made = [new_identifier() for _ in range(10_000)]
    assert [identifier for identifier, _ in made] == sorted(identifier for identifier, _ in made)
    for identifier, at in made[::1000]:
        assert (identifier.version, identifier.variant) == (7, "specified in RFC 4122")
        first, last = identifier_bounds(at)
        assert first <= identifier <= last
