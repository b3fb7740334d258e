"""Evidence from the log: one file verifies it on another machine, and names whatever was changed in it."""

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection
from django.test import override_settings

from audit import log
from audit.chain import sealing
from audit.migrations._append_only import release_records
from audit.models import OperationRecord
from tests.audit.calls import CALL, make_call
from tests.support.cast import Console, make_person

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

ADA = log.TargetRef(UUID(int=1), "user", "CN=Ada Lovelace,OU=Staff,DC=corp,DC=example,DC=test")
CHANGES = [{"attribute": "title", "before": ["Clerk"], "after": ["Countess"]}]
PAGE = "/console/log/evidence"
FILE = f"{PAGE}.json?target={ADA.id}"


@pytest.fixture
def auditor() -> Console:
    return Console(make_person("ida", may=["audit.read_log"]))


def write(count: int = 2, **facts: Any) -> None:
    for number in range(count):
        call = make_call(reason=f"Ticket {number} für Ada")
        intent = log.Intent(operation="users.update", target=ADA, changes=CHANGES, reversible="full", **facts)
        log.complete(log.record_intent(call, intent).id, outcome="succeeded", server="dc1.corp.example.test")
    sealing.seal_records()


@pytest.fixture
def verify(auditor: Console, tmp_path: Path) -> Callable[..., tuple[int, list[str]]]:
    """Verify a file by the program that the console offers, with Python alone, outside of the gateway."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    (place / "verify_evidence.py").write_bytes(auditor.client.get("/console/log/verify_evidence.py").content)

    def run(evidence: Any, keys: str = ",".join(["another", *settings.LOG_KEYS])) -> tuple[int, list[str]]:
        text = evidence if isinstance(evidence, bytes) else json.dumps(evidence).encode()
        (place / "evidence.json").write_bytes(text)
        command = [sys.executable, "-I", "-S", "verify_evidence.py", "evidence.json"]
        environment = {"GATEWAY_LOG_KEYS": keys}
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        assert bool(done.stdout) is (done.returncode == 0)
        return done.returncode, [
            line.removeprefix("evidence.json: ") for line in (done.stdout + done.stderr).splitlines()
        ]

    return run


Verify = Callable[..., tuple[int, list[str]]]


def test_it_works(auditor: Console, verify: Verify) -> None:
    write()
    page = auditor.get(f"{PAGE}?target={ADA.id}").body.decode()
    assert f'href="{PAGE}.json?target={ADA.id}"' in page
    assert 'href="/console/log/verify_evidence.py"' in page
    answer = auditor.client.get(FILE)
    assert "attachment; filename=" in answer.headers["Content-Disposition"]
    evidence = json.loads(answer.content)
    assert [record["reason"] for record in evidence["records"]] == ["Ticket 1 für Ada", "Ticket 0 für Ada"]
    assert evidence["records"][0]["changes"] == CHANGES
    assert (evidence["madeBy"], evidence["isComplete"], evidence["seal"]["seal"]) == ("ida", True, 1)
    whole = f"The evidence made at {evidence['madeAt']} by ida is as it was made. Records: 2."
    assert verify(answer.content) == (0, [whole])
    assert verify(evidence) == (0, [whole]), "written in another way it is the same"
    assert evidence["about"] == f"target={ADA.id}"
    newest = auditor.get(f"/rest/operations/evidence?target={ADA.id}&pageSize=1").body
    status, (sentence,) = verify(newest)
    assert (status, sentence.partition(". ")[2]) == (0, "Records: 1, but not all that match.")
    assert verify(evidence, keys="")[0] == verify(evidence, keys="another")[0] == 1


def tampered(evidence: Any) -> Iterator[tuple[str, Any]]:
    """Each member changed, with what the verifier has to say."""
    for name in evidence:
        if name not in ("records", "codes", "mac", "format"):
            yield f"{name} was changed.", {**evidence, name: "x"}
    for number, record in enumerate(evidence["records"], 1):
        for name, value in record.items():
            for other in ("x", None if value is not None else 1):
                changed = copy.deepcopy(evidence)
                changed["records"][number - 1][name] = other
                yield f"Record {number}: {name} was changed.", changed
            changed = copy.deepcopy(evidence)
            del changed["records"][number - 1][name]
            yield f"Record {number}: {name} was removed.", changed
            code = copy.deepcopy(evidence)
            code["codes"][f"record {number}: {name}"] = "0" * 32
            yield f"Record {number}: {name} was changed.", code
    added = copy.deepcopy(evidence)
    added["records"][0]["more"] = "x"
    yield "Record 1: more was added.", added
    inner = copy.deepcopy(evidence)
    inner["records"][1]["changes"][0]["after"] = ["Clerk"]
    yield "Record 2: changes was changed.", inner


def test_each_change_is_named(auditor: Console, verify: Verify) -> None:
    write()
    evidence = json.loads(auditor.client.get(FILE).content)
    seen = 0
    for sentence, changed in tampered(evidence):
        assert verify(changed) == (1, [sentence])
        seen += 1
    assert seen > 100


def _other_place(place: str) -> str:
    """The place of the same member where three records are in the opposite order."""
    others = {"record 1:": "record 3:", "record 3:": "record 1:"}
    return others.get(place[:9], place[:9]) + place[9:]


def test_what_was_removed_or_exchanged(auditor: Console, verify: Verify) -> None:
    write(3)
    evidence, other = (json.loads(auditor.client.get(path).content) for path in (FILE, f"{FILE}&outcome=succeeded"))
    swapped = {**evidence, "records": evidence["records"][::-1]}
    assert "Record 1: id was changed." in verify(swapped)[1]
    with_codes = {place: evidence["codes"][_other_place(place)] for place in evidence["codes"]}
    assert "Record 1: id was changed." in verify({**swapped, "codes": with_codes})[1]
    shorter = {**evidence, "records": evidence["records"][:2]}
    assert "Record 3: reason was removed." in verify(shorter)[1]
    codes = {place: code for place, code in evidence["codes"].items() if not place.startswith("record 3")}
    from_elsewhere = "Something was removed from it, or comes from other evidence."
    assert verify({**shorter, "codes": codes}) == (1, [from_elsewhere])
    about = {"about": other["about"], "codes": {**evidence["codes"], "about": other["codes"]["about"]}}
    assert verify({**evidence, **about}) == (1, [from_elsewhere])
    assert verify({**evidence, "mac": other["mac"]}) == (1, [from_elsewhere])


def test_what_is_no_evidence(auditor: Console, verify: Verify) -> None:
    write()
    text = auditor.client.get(FILE).content
    none = (1, ["It is cut off, or no evidence of the operations log."])
    twice = text.replace(b'"madeBy": "ida"', b'"madeBy": "eve", "madeBy": "ida"')
    assert twice != text
    evidence = json.loads(text)
    for wrong in (
        *(text[:length] for length in range(0, len(text) - 1, len(text) // 9)),
        twice,
        b"[]",
        b"{}",
        b"[" * 100_000,
        b"\xff",
        {**evidence, "format": "another"},
        {**evidence, "records": 1},
        {**evidence, "records": ["x"]},
        {**evidence, "codes": "x"},
        {**evidence, "record 1: owner": "eve"},
        {**evidence, "records": [*evidence["records"], {}]},
    ):
        assert verify(wrong) == none
    with override_settings(LOG_KEYS=["a key of somebody else"]):
        forged = auditor.client.get(FILE).content
    assert verify(forged) == (1, ["It was changed, or was not made under any of the log keys at hand."])


def test_a_record_that_was_tampered_with_is_said_to_be(auditor: Console, verify: Verify) -> None:
    """Else somebody with the database could have the gateway vouch for what it never wrote."""
    write()
    newest = OperationRecord.objects.filter(operation="users.update").latest("id")
    release_records(apps, connection.schema_editor())
    OperationRecord.objects.filter(id=newest.id).update(reason="Nothing to see")
    evidence = json.loads(auditor.client.get(FILE).content)
    assert ["doubt" in record for record in evidence["records"]] == [True, False]
    status, (sentence,) = verify(evidence)
    assert status == 1
    assert sentence.startswith("Record 1 was doubted when the evidence was made: It was changed")
    doubt = evidence["records"][0].pop("doubt")
    assert verify({**evidence, "record 1: doubt": doubt})[0] == 1, "in another place it is the same to the code"


def test_of_a_request(auditor: Console, verify: Verify) -> None:
    write()
    log.record_refusal(CALL, operation="users.delete", code="X")
    record = OperationRecord.objects.filter(operation="users.update").latest("id")
    page = auditor.get(f"/console/log/{record.id}").body.decode()
    assert f"{PAGE}?callId={record.call_id}" in page
    assert f'<dd class="mono">{record.call_id}</dd>' in auditor.get(f"{PAGE}?callId={record.call_id}").body.decode()
    evidence = json.loads(auditor.client.get(f"{PAGE}.json?callId={record.call_id}").content)
    assert [each["id"] for each in evidence["records"]] == [str(record.id)]
    assert verify(evidence)[0] == 0


def test_who_may(auditor: Console) -> None:
    assert auditor.client.get(f"{PAGE}.json").status_code == 404, "of whom?"
    nobody = Console(make_person())
    assert nobody.client.get(FILE).status_code == 403
    assert nobody.get("/rest/operations/evidence").status == 403
    assert auditor.get(f"/rest/operations/evidence?target={uuid4()}").body["records"] == []
