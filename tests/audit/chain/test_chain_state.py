"""How far the log is sealed and how it was verified last, for the console; nothing is verified for it."""

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from audit import log
from audit.chain import checkpoint, sealing, verifying
from audit.chain.verification import last_verification
from audit.chain.walk import Finding
from audit.management.commands import verify_operations_log
from audit.models import LogVerification, OperationRecord, VerifiedRange
from tests.audit.calls import CALL
from tests.console.pages import text_of
from tests.support.cast import Console, make_integration, make_person

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

PATH = "/rest/operations/chain"


@pytest.fixture(autouse=True)
def nobody_asked_before() -> None:
    """A test before may have had a verification asked for that no worker did."""
    cache.delete(verifying._UNDER_WAY)


@pytest.fixture
def console() -> Console:
    return Console(make_person(may=["audit.read_log"]))


def write() -> OperationRecord:
    return log.record_intent(CALL, log.Intent(operation="users.update"))


def forge() -> None:
    forged = write()
    forged.id = uuid4()
    forged.save(force_insert=True)


def test_an_empty_log(console: Console) -> None:
    assert console.get(PATH).body == {
        "head": None,
        "unsealed": 0,
        "oldestUnsealedAt": None,
        "refused": 0,
        "missing": None,
        "lastVerification": None,
        "verifying": False,
        "progress": None,
        "verifiedRanges": [],
    }


def test_what_is_sealed_and_what_waits(console: Console) -> None:
    for _ in range(3):
        write()
    sealing.seal_records()
    first, _ = write(), write()
    body = console.get(PATH).body
    assert body["head"] == checkpoint.head()
    assert (body["head"]["seal"], body["head"]["records"]) == (1, 3)
    assert body["unsealed"] == 2
    assert body["oldestUnsealedAt"] == first.at.isoformat().replace("+00:00", "Z")


def test_a_record_that_is_not_the_gateways_shows(console: Console) -> None:
    write()
    forge()
    sealing.seal_records()
    body = console.get(PATH).body
    assert (body["unsealed"], body["refused"]) == (0, 1)


def test_the_last_verification(console: Console) -> None:
    write()
    write()
    sealing.seal_records()
    call_command("verify_operations_log", stdout=StringIO())
    kept = console.get(PATH).body["lastVerification"]
    expected = {"at": "", "seals": 1, "records": 0, "finding": None, "firstSeal": 1}
    assert {**kept, "at": ""} == expected, "both are still open"
    forge()
    with pytest.raises(CommandError):
        call_command("verify_operations_log")
    later = console.get(PATH).body["lastVerification"]
    assert later["at"] > kept["at"]
    assert later["finding"].endswith("was inserted or changed")
    assert LogVerification.objects.count() == 1


def test_which_range_was_verified_when(console: Console) -> None:
    write()
    sealing.seal_records()
    call_command("verify_operations_log", stdout=StringIO())
    write()
    sealing.seal_records()
    call_command("verify_operations_log", "--continue", stdout=StringIO())
    body = console.get(PATH).body
    first, second = body["verifiedRanges"]
    assert (first["firstSeal"], first["lastSeal"], second["firstSeal"], second["lastSeal"]) == (1, 1, 2, 2)
    assert first["wholeSince"] == second["wholeSince"] <= first["at"] < second["at"]
    assert (body["lastVerification"]["firstSeal"], body["lastVerification"]["seals"]) == (2, 1)
    page = text_of(console.get("/console/log/"))
    assert "0 new records from seal 2 on as written" in page
    assert "Seals 1 to 1:" in page
    assert "when the whole log is verified: once a week, or now." in page
    VerifiedRange.objects.update(last=7)
    assert console.get(PATH).body["verifiedRanges"] == [], "not the gateway's"


def test_how_far_a_verification_is(console: Console) -> None:
    cache.set(verifying._UNDER_WAY, {"firstSeal": 1, "seal": 300, "lastSeal": 4000}, 60)
    body = console.get(PATH).body
    assert (body["verifying"], body["progress"]) == (True, {"firstSeal": 1, "seal": 300, "lastSeal": 4000})
    assert "The log is being verified: seal 300 of 4000." in text_of(console.get("/console/log/"))


def test_a_verification_cannot_be_claimed() -> None:
    call_command("verify_operations_log", stdout=StringIO())
    assert last_verification() is not None
    LogVerification.objects.update(at=timezone.now() + timedelta(days=1))
    assert last_verification() is None
    LogVerification.objects.all().delete()
    LogVerification.objects.create(seals=1, records=1, mac="0" * 64)
    assert last_verification() is None


def test_the_log_is_verified_where_nothing_can_be_noted() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_logverification RENAME TO elsewhere")
    out, complaint = StringIO(), StringIO()
    try:
        call_command("verify_operations_log", stdout=out, stderr=complaint)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO audit_logverification")
    assert out.getvalue().startswith("The operations log is as it was written")
    assert complaint.getvalue().startswith("That the log was verified cannot be noted: ")


def test_only_in_the_console_and_for_who_may_read_the_log() -> None:
    answer = Console(make_person(may=["directory.read_object"])).get(PATH)
    assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    assert make_integration(None, may=["audit.read_log"]).get("/api/operations/chain").status == 404


def test_what_it_reads_by_is_closed_when_enough_is_found(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    def find_tampering(*_: Any) -> Iterator[Finding]:
        try:
            while True:
                yield Finding(None, "seal 1 is missing")
        finally:
            closed.append(True)

    monkeypatch.setattr(verify_operations_log, "find_tampering", find_tampering)
    with pytest.raises(CommandError) as refused:
        call_command("verify_operations_log")
    assert closed, refused  # whose traceback keeps alive whatever was left open
