"""Finding records by what people know of them: names, words, values; runs and batches as one; reverts told as such."""

import re
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from celery import current_app
from django.apps import apps
from django.core.cache import cache
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext, override_settings
from django.utils import timezone

from approvals.models import ChangeRequest, Status
from audit import log
from audit.chain import sealing, verifying
from audit.migrations._append_only import release_records
from audit.models import OperationRecord
from keys.models import Person
from tests.approvals.proposals import hold
from tests.audit.calls import CALL, call_named, make_call
from tests.support.cast import Console, Integration, make_person

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

ADA = "CN=Ada Lovelace,OU=Sales,DC=corp,DC=example,DC=test"
EVE = "CN=Müller\\, Eve,OU=Lovelace,DC=corp,DC=example,DC=test"


def change(
    operation: str = "users.update", dn: str = ADA, call: Any = CALL, outcome: str = "succeeded", **facts: Any
) -> OperationRecord:
    intent = {"changes": [{"attribute": "title", "before": ["Clerk"], "after": ["50%_Gräfin"]}], **facts}
    target = intent.pop("target", log.TargetRef(uuid4(), "user", dn))
    record = log.record_intent(call, log.Intent(operation=operation, target=target, **intent))
    log.complete(record.id, outcome=outcome)
    return record


@pytest.fixture
def console() -> Console:
    return Console(make_person(may=["audit.read_log", "directory.read_confidential"]))


def found(console: Console, **query: str) -> list[str]:
    answer = console.client.get("/rest/operations", query)
    assert answer.status_code == 200, answer.content
    return [item["id"] for item in answer.json()["items"]]


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("lovelace", True),
        ("Lovelace, Ada", True),
        ("ADA crm", True),
        ("sales", False),
        ("change", True),
        ("update lovelace", True),
        ("delete lovelace", False),
        ("byron", True),
        ("a.a", False),
        ("%", False),
    ],
)
def test_by_words(console: Console, text: str, is_found: bool) -> None:
    Person.objects.create(username="ada", display_name="Augusta Byron")
    record = change()
    change("groups.delete", dn="CN=Printers,DC=corp", call=make_call(person=CALL.person.__class__(9, "bob", "Bob")))
    assert (str(record.id) in found(console, q=text)) is is_found


@pytest.mark.parametrize(
    ("dn", "text"),
    [
        ("CN=C\\+\\+ Team,DC=corp", "c++ team"),
        ("CN=a\\;b\\<c\\>,DC=corp", "A;B<C>"),
        ("CN=a\\3Bb\\3Dc,DC=corp", "a;b=c"),
        ("CN=a=b,DC=corp", "a=b"),
        ("CN=\\#1,DC=corp", "#1"),
        ('CN=Ada \\"Countess\\" Lovelace,DC=corp', '"countess"'),
        ("CN=back\\\\slash,DC=corp", "k\\s"),
        ("CN=Ünal,DC=corp", "ÜNAL"),
    ],
)
def test_names_are_found_as_people_write_them(dn: str, text: str, console: Console) -> None:
    change()
    named = change(dn=dn)
    assert found(console, q=text) == [str(named.id)]


def test_only_the_objects_own_name_counts(console: Console) -> None:
    eve = change(dn=EVE)
    assert found(console, q="müller eve") == [str(eve.id)]
    assert found(console, q="lovelace") == []


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ({"attribute": "Title"}, True),
        ({"attribute": "mail"}, False),
        ({"value": "gräf"}, True),
        ({"value": "CLERK"}, True),
        ({"value": "%_g"}, True),
        ({"value": "_%"}, False),
        ({"value": "title"}, False),
        ({"attribute": "title", "value": "clerk"}, True),
        ({"attribute": "mail", "value": "clerk"}, False),
    ],
)
def test_by_attribute_and_value(console: Console, query: dict[str, str], is_found: bool) -> None:
    record = change()
    assert found(console, **query) == ([str(record.id)] if is_found else [])


def test_no_value_is_found_that_is_not_shown(integration: Integration) -> None:
    of_directory = make_call(directory=CALL.directory.__class__(integration.key.links.get().connection_id, "c", "c"))
    secret = [{"attribute": "msDS-ExternalDirectoryObjectId", "before": [], "after": ["geheim"]}]
    hidden = [{"attribute": "unixUserPassword", "before": [], "after": ["geheim"]}]
    change(call=of_directory, changes=secret)
    marked = change(call=of_directory, changes=hidden)
    reader = Console(make_person(may=["audit.read_log"]))
    shown = {item["id"]: item["changes"] for item in reader.get("/rest/operations").body["items"]}
    assert ("geheim" in str(shown[str(marked.id)])) is (str(marked.id) in found(reader, value="geheim"))


def test_runs_and_batches_are_one_line_each(console: Console) -> None:
    run = uuid4()
    in_run = [change("users.disable", run_id=run) for _ in range(3)]
    batch = make_call(**call_named("batch-1"))
    in_batch = [change("users.create", call=batch, batch_index=number) for number in range(4)]
    change("users.create", call=batch, batch_index=4, outcome="failed")
    alone = change(call=make_call(**call_named("another request of the job")), batch_index=0)
    items = console.get("/rest/operations?fold=true").body["items"]
    assert [item.get("together") for item in items] == [
        None,
        {"count": 5, "failed": 1, "operations": ["users.create"]},
        {"count": 3, "failed": 0, "operations": ["users.disable"]},
    ]
    assert [items[0]["id"], items[2]["id"]] == [str(alone.id), str(in_run[-1].id)]
    failed = console.get("/rest/operations?fold=true&outcome=succeeded").body["items"]
    assert failed[1]["id"] == str(in_batch[-1].id), "the newest of those that are looked for"
    assert failed[1]["together"]["count"] == 4
    assert len(found(console)) == 9


def test_a_revert_and_what_it_reverted_know_each_other(console: Console) -> None:
    target = log.TargetRef(UUID(int=5), "user", ADA)
    changed = change(target=target)
    failed = change(target=target, call=make_call(reason=f"Reverts {changed.id}"), outcome="failed")
    assert "revertedBy" not in console.get(f"/rest/operations/{changed.id}").body
    revert = change(target=target, call=make_call(reason=f"Reverts {changed.id}: Ticket"))
    assert console.get(f"/rest/operations/{changed.id}").body["revertedBy"] == str(revert.id)
    listed = {item["id"]: item.get("revertedBy") for item in console.get("/rest/operations").body["items"]}
    assert listed == {str(changed.id): str(revert.id), str(failed.id): None, str(revert.id): None}
    for record in (failed, revert):
        assert console.get(f"/rest/operations/{record.id}").body["reverts"] == str(changed.id)


def test_what_is_over_does_not_count_as_queued(console: Console) -> None:
    states = (Status.PENDING, Status.STALE, Status.EXPIRED, Status.REJECTED, Status.APPLIED)
    for state in states:
        request = hold()
        ChangeRequest.objects.filter(pk=request.pk).update(status=state)
        log.record_queued(
            make_call(change_request_id=request.pk),
            operation="users.delete",
            target=log.TargetRef(uuid4(), "user", ADA),
            changes=[],
            change_request_id=request.pk,
        )
    today = console.get("/rest/operations/statistics?days=1").body["days"][0]
    assert today["queued"] == 1
    items = console.get("/rest/operations?outcome=queued").body["items"]
    assert sorted(item["changeRequestStatus"] for item in items) == sorted(states)
    ChangeRequest.objects.filter(status=Status.PENDING).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert console.get("/rest/operations/statistics?days=1").body["days"][0]["queued"] == 0


def test_a_record_that_was_changed_is_doubted_and_not_reverted(integration: Integration) -> None:
    console = Console(make_person(superuser=True))
    record, forged = change(reversible="full"), change(reversible="full")
    sealing.seal_records()
    assert "doubt" not in console.get(f"/rest/operations/{record.id}").body
    release_records(apps, connection.schema_editor())
    OperationRecord.objects.filter(pk=record.pk).update(outcome="failed")
    OperationRecord.objects.filter(pk=forged.pk).update(operation="users.delete")
    assert "after it had been sealed" in console.get(f"/rest/operations/{record.id}").body["doubt"]
    assert "changed after it was written" in console.get(f"/rest/operations/{forged.id}").body["doubt"]
    refused = console.post(f"/rest/operations/{forged.id}/revert")
    assert (refused.status, refused.code) == (409, "Operations.NotRevertible")
    assert "not to be trusted" in refused.body["detail"]


def test_only_a_record_that_no_key_proves_has_all_seals_searched(console: Console) -> None:
    with override_settings(LOG_KEYS=["old"]):
        unproved = change()
        sealing.seal_records()
    with override_settings(LOG_KEYS=["new"]):
        proved = change()
        sealing.seal_records()
        with CaptureQueriesContext(connection) as queries:
            assert "doubt" not in console.get(f"/rest/operations/{proved.id}").body
        assert not [query for query in queries if "GROUP BY" in query["sql"]]
        assert "log key 1 (" in console.get(f"/rest/operations/{unproved.id}").body["doubt"]


def test_a_page_asks_for_reverts_by_their_index(console: Console) -> None:
    target = log.TargetRef(UUID(int=5), "user", ADA)
    changed = [change(target=target) for _ in range(3)]
    reverted = {str(item.id): str(change(call=make_call(reason=f"Reverts {item.id}")).id) for item in changed[:2]}
    with CaptureQueriesContext(connection) as queries:
        items = console.get("/rest/operations").body["items"]
    assert {item["id"]: item["revertedBy"] for item in items if "revertedBy" in item} == reverted
    (asked,) = [query["sql"] for query in queries if "LIKE 'Reverts" in query["sql"]]
    explain = "EXPLAIN QUERY PLAN"
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # which would read so few rows as a whole, or by their key
            cursor.execute("SET LOCAL enable_seqscan = off")
            explain, asked = "EXPLAIN", re.sub(r'AND \S+"id" > \S+ ', "", asked)
        cursor.execute(f"{explain} {asked}")
        assert "audit_by_reverted" in str(cursor.fetchall())


def test_verifying_now(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, **_: sent.append(name))
    cache.delete(verifying._UNDER_WAY)
    change()
    sealing.seal_records()
    assert console.post("/rest/operations/verify").body == {"began": True}
    assert console.post("/rest/operations/verify").body == {"began": False}, "one at a time"
    assert sent == ["gateway.tasks.verify_log"]
    assert console.get("/rest/operations/chain").body["verifying"]
    verifying.verify()
    chain = console.get("/rest/operations/chain").body
    assert (chain["verifying"], chain["lastVerification"]["finding"]) == (False, None)
    assert chain["lastVerification"]["records"] == 1
