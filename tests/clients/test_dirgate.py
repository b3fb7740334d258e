"""`dirgate` as people and scripts use it: a process of its own, against the running gateway or a server that fails."""

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from django.utils import timezone

from approvals.models import ChangeRequest, Status
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.gateway import LiveGateway
from lab.waiting import wait_until
from tests.clients.terminal import Terminal, terminal
from tests.support.cast import Console, make_integration, make_person


@pytest.fixture
def shell(
    tmp_path: Path, transactional_db: None, live_gateway: LiveGateway, connection: DirectoryConnection
) -> Terminal:
    key = make_integration(connection)
    return terminal(tmp_path, GATEWAY_URL=live_gateway.base_url, GATEWAY_KEY=key.value)


@pytest.fixture
def supervised(shell: Terminal, connection: DirectoryConnection) -> Terminal:
    key = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    return Terminal(shell.home, shell.environment | {"GATEWAY_KEY": key.value})


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Ada of dirgate", parent=organizational_unit, sAMAccountName="ada-of-dirgate")


# --- reading


def test_a_search_is_a_table_for_people_and_json_for_programs(
    shell: Terminal, ada: UUID, organizational_unit: str
) -> None:
    table = shell.run("users", "search", "--base", organizational_unit, "--attributes", "title")
    assert table.status == 0, table.errors
    heads, *rows = table.output.splitlines()
    assert heads.split() == ["NAME", "ACCOUNT", "STATE", "title", "DISTINGUISHED", "NAME"]
    assert len(rows) == 1
    assert "ada-of-dirgate" in rows[0]
    assert "\x1b" not in table.output  # it is no terminal
    found = shell.run("users", "search", "--base", organizational_unit, "--json").document
    assert [item["id"] for item in found["items"]] == [str(ada)]
    listed = shell.run("users", "search", "--base", organizational_unit, "--csv")
    assert str(ada) in listed.output


def test_pages_follow_until_the_limit(shell: Terminal, directory: Directory, organizational_unit: str) -> None:
    for number in range(5):
        directory.add_user(f"page-of-dirgate-{number}", parent=organizational_unit)
    some = shell.run("users", "search", "--base", organizational_unit, "--limit", "2", "--columns", "name")
    assert len(some.output.splitlines()) == 3
    assert "--all" in some.errors
    everyone = shell.run("users", "search", "--base", organizational_unit, "--all", "--json").document
    assert len(everyone["items"]) == 5
    assert everyone["nextCursor"] is None


@pytest.mark.parametrize("given", ["id", "account", "name", "dn"])
def test_an_object_is_found_by_what_people_call_it(
    shell: Terminal, directory: Directory, ada: UUID, given: str
) -> None:
    names = {"id": str(ada), "account": "ada-of-dirgate", "name": "Ada of dirgate", "dn": directory.dn(ada)}
    read = shell.run("users", "read", names[given], "--json")
    assert read.status == 0, read.errors
    assert read.document["id"] == str(ada)
    shown = shell.run("users", "read", names[given])
    assert re.search(r"^account\.enabled +(yes|no)$", shown.output, re.MULTILINE)


def test_a_name_of_several_objects_is_nobody(shell: Terminal, directory: Directory, organizational_unit: str) -> None:
    for unit in ("east", "west"):
        inner = directory.add_unit(unit, parent=organizational_unit)
        directory.add_unit("Twice of dirgate", parent=inner)
    ended = shell.run("units", "read", "Twice of dirgate")
    assert ended.status == 2
    assert "OU=Twice of dirgate,OU=west" in ended.errors
    assert shell.run("users", "read", "nobody of dirgate").status == 2


def test_a_person_chooses_among_several_at_a_terminal(
    shell: Terminal, directory: Directory, organizational_unit: str
) -> None:
    for unit in ("east", "west"):
        inner = directory.add_unit(unit, parent=organizational_unit)
        directory.add_unit("Chosen of dirgate", parent=inner)
    ours, theirs = pty.openpty()
    process = shell.start("units", "read", "Chosen of dirgate", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    answered = False
    for part in _parts(ours):
        shown += part
        if not answered and b"Which one?" in shown:
            second = next(line for line in shown.decode().splitlines() if re.match(r" +2 ", line))
            os.write(ours, b"2\n")
            answered = True
    assert process.wait(60) == 0
    assert second.split("OU=Chosen of dirgate,", 1)[1] in shown.decode().split("Which one?", 1)[1]
    assert b"\x1b[1m" in shown  # it is one: names are bold


def _parts(terminal: int) -> Iterator[bytes]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 1)
        if not ready:
            continue
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the other side has ended
            return
        if not part:
            return
        yield part


# --- changing


def test_a_change_and_its_dry_run(shell: Terminal, directory: Directory, ada: UUID) -> None:
    dry = shell.run("users", "update", "ada-of-dirgate", "--replace", "title=Countess", "--dry-run")
    assert dry.status == 0, dry.errors
    assert dry.output == "title: (none) → Countess\n"
    assert "Nothing was changed" in dry.errors
    assert directory.text(ada, "title") is None
    words = ["--replace", "title=Gräfin", "--replace", "otherTelephone=1", "--replace", "otherTelephone=2"]
    done = shell.run("users", "update", "ada-of-dirgate", *words, "--reason", "Befördert – Zürich")
    assert done.status == 0, done.errors
    assert directory.text(ada, "title") == "Gräfin"
    assert sorted(directory.read(ada, "otherTelephone")["otherTelephone"]) == [b"1", b"2"]
    [record] = shell.run("operations", "search", "--target", str(ada), "--only-changes", "--json").document["items"]
    assert record["reason"] == "Befördert – Zürich"
    stale = shell.run("users", "update", "ada-of-dirgate", "--clear", "title", "--if-match", "other")
    assert stale.status == 3
    assert "Read the object again" in stale.errors


def test_members_are_named_as_people_name_them(
    shell: Terminal, directory: Directory, ada: UUID, organizational_unit: str
) -> None:
    group = directory.add_group("Analysts of dirgate", parent=organizational_unit)
    added = shell.run("groups", "add-members", "Analysts of dirgate", "--member", "ada-of-dirgate")
    assert added.status == 0, added.errors
    assert directory.read(group, "member")["member"] == [directory.dn(ada).encode()]
    listed = shell.run("groups", "list-members", "Analysts of dirgate")
    assert "ada-of-dirgate" in listed.output
    assert shell.run("groups", "remove-members", "Analysts of dirgate", "--member", str(ada)).status == 0
    assert "member" not in directory.read(group, "member")


def test_a_password_is_never_an_argument(shell: Terminal, ada: UUID) -> None:
    typed = shell.run("users", "reset-password", "ada-of-dirgate", "--new-password", typed="Analytical-Engine-1843\n")
    assert typed.status == 0, typed.errors
    given = shell.run("users", "reset-password", "ada-of-dirgate", "--new-password", "Analytical-Engine-1843")
    assert given.status == 2
    made = shell.run("users", "reset-password", "ada-of-dirgate", "--generate", "--json")
    assert len(made.document["generatedPassword"]) >= 12


def test_a_refusal_is_one_line_with_its_code(shell: Terminal, ada: UUID) -> None:
    refused = shell.run("users", "update", "ada-of-dirgate", "--replace", f"title={'x' * 5000}")
    assert refused.status == 3
    assert refused.output == ""
    assert re.fullmatch(r"dirgate: [A-Za-z.]+: .+\n", refused.errors)
    unknown = shell.run("users", "read", "00000000-0000-4000-8000-000000000000")
    assert unknown.errors.startswith("dirgate: AD.Object.NotFound: ")
    wrong = shell.run("users", "search", GATEWAY_KEY="dgk_wrong")
    assert wrong.status == 3
    assert "dirgate login" in wrong.errors


def test_a_held_change_waits(supervised: Terminal, directory: Directory, ada: UUID) -> None:
    held = supervised.run("users", "update", "ada-of-dirgate", "--replace", "title=Countess")
    assert held.status == 4
    assert "Waits for approval" in held.output
    approver = Console(make_person(may=["approvals.decide_change", "directory.read_object"]))
    [first] = ChangeRequest.objects.filter(status=Status.PENDING)
    assert str(first.id) in held.output
    assert approver.post(f"/rest/change-requests/{first.id}/reject", {"comment": "No."}).status == 200
    assert supervised.run("requests", "wait", str(first.id)).status == 3
    waiting = supervised.start(
        "users", "update", "ada-of-dirgate", "--replace", "title=Lady", "--wait", stdout=subprocess.PIPE
    )
    wait_until(lambda: ChangeRequest.objects.filter(status=Status.PENDING).exists())
    second = ChangeRequest.objects.get(status=Status.PENDING)
    assert approver.post(f"/rest/change-requests/{second.id}/approve", {"digest": second.digest}).status == 200
    output, _ = waiting.communicate(timeout=300)
    assert waiting.returncode == 0
    assert b"is applied by" in output
    assert directory.text(ada, "title") == "Lady"


def test_many_at_once_from_a_file(shell: Terminal, directory: Directory, organizational_unit: str) -> None:
    file = shell.home / "people.csv"
    parent = f'"{organizational_unit}"'
    rows = [f"Grace {number},grace-{number},{parent},Sales,true" for number in range(3)]
    file.write_text("\n".join(["name;samAccountName;parent;department;generatePassword".replace(";", ","), *rows]))
    dry = shell.run("users", "batch-create", "people.csv", "--dry-run", "--json")
    assert (dry.status, dry.document["succeeded"]) == (0, 3), dry
    done = shell.run("users", "batch-create", "people.csv")
    assert done.status == 0, done
    assert "3 done" in done.errors
    assert done.output.count("\n") == 4  # a table of passwords
    assert directory.text(f"CN=Grace 1,{organizational_unit}", "department") == "Sales"
    again = shell.run("users", "batch-create", "people.csv")
    assert again.status == 3
    assert "AD.Object.AlreadyExists" in again.output
    file.write_text(f'[{{"name": "Grace 1", "parent": "{organizational_unit}"}}, '
                    f'{{"name": "Grace 9", "parent": "{organizational_unit}"}}]')  # fmt: skip
    partly = shell.run("users", "batch-create", "people.csv", "--json")
    assert partly.status == 5
    assert [each["index"] for each in partly.document["results"]] == [0, 1]


def test_a_batch_waits_for_the_decisions_on_its_items(
    supervised: Terminal, directory: Directory, organizational_unit: str
) -> None:
    (supervised.home / "people.csv").write_text(
        f'name,parent\nEve,"{organizational_unit}"\nMae,"{organizational_unit}"'
    )
    waiting = supervised.start(
        "users", "batch-create", "people.csv", "--wait", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_until(lambda: ChangeRequest.objects.filter(status=Status.PENDING).count() == 2)
    approver = Console(make_person(may=["approvals.decide_change", "directory.read_object"]))
    first, second = ChangeRequest.objects.filter(status=Status.PENDING).order_by("id")
    assert approver.post(f"/rest/change-requests/{first.id}/approve", {"digest": first.digest}).status == 200
    assert approver.post(f"/rest/change-requests/{second.id}/reject", {"comment": "Not her."}).status == 200
    output, errors = waiting.communicate(timeout=300)
    assert waiting.returncode == 5, errors
    assert b"Not her." in output
    assert b"1 done, 0 wait for approval, 1 failed" in errors
    assert directory.exists(f"CN=Eve,{organizational_unit}")


# --- changes for a while


def test_a_membership_is_lent(shell: Terminal, directory: Directory, ada: UUID, organizational_unit: str) -> None:
    group = str(directory.add_group(parent=organizational_unit))
    lent = shell.run("groups", "add-members", group, "--member", "ada-of-dirgate", "--for", "8h", "--json")
    assert lent.status == 0, lent.errors
    end = lent.document["scheduledEnd"]
    assert f"change request {end}" in lent.errors
    listed = shell.run("requests", "list", "--status", "scheduled", "--json").document["items"]
    assert [item["id"] for item in listed] == [end]
    ChangeRequest.objects.filter(id=end).update(made_at=timezone.now())  # as a worker notes it a few seconds later
    assert shell.run("requests", "extend", end, "--until", "2027-01-31 18:00", "--json", TZ="UTC").status == 0
    due = {each.status: each.due_at for each in ChangeRequest.objects.filter(due_at__isnull=False)}
    assert f"{due[Status.SCHEDULED]:%Y-%m-%d %H:%M}" == "2027-01-31 18:00"
    current = str(ChangeRequest.objects.get(status=Status.SCHEDULED).id)
    ChangeRequest.objects.filter(id=current).update(made_at=timezone.now())
    assert shell.run("requests", "revert-now", current).status == 0
    assert directory.members(UUID(group)) == set()

    later = shell.run("users", "update", str(ada), "--replace", "title=Lady", "--at", "2027-01-31")
    assert (later.status, "is scheduled, for 2027-01-31" in later.output) == (0, True), later.errors
    assert shell.run("users", "update", str(ada), "--clear", "title", "--for", "long").status == 2


# --- what goes wrong


def test_whoever_stops_reading_hears_no_complaint(shell: Terminal, ada: UUID) -> None:
    process = shell.start("users", "search", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    process.stdout.close()
    assert process.wait(120) in (0, 1)
    assert process.stderr
    assert process.stderr.read() == b""


def test_a_full_disk_is_told(shell: Terminal, directory: Directory, ada: UUID) -> None:
    with Path("/dev/full").open("w") as full:
        process = shell.start(
            "users", "update", str(ada), "--replace", "title=Lady", "--json", stdout=full, stderr=subprocess.PIPE
        )
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert b"cannot be written" in errors
    assert directory.text(ada, "title") == "Lady"


# --- credentials


def test_signing_in_once(shell: Terminal, live_gateway: LiveGateway) -> None:
    key = shell.environment["GATEWAY_KEY"]
    later = Terminal(shell.home, {name: value for name, value in shell.environment.items() if "GATEWAY" not in name})
    assert later.run("me").status == 2
    refused = later.run("login", typed="dgk_wrong\n", GATEWAY_URL=live_gateway.base_url)
    assert refused.status == 3
    done = later.run("login", typed=f"{key}\n", GATEWAY_URL=live_gateway.base_url)
    assert done.status == 0, done.errors
    kept = shell.home / ".config" / "dirgate" / "settings.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert later.run("me").status == 0
    elsewhere = later.run("me", GATEWAY_URL="https://elsewhere.example")
    assert elsewhere.status == 2  # the key is not sent to another address
    kept.chmod(0o644)
    assert "Others may read" in later.run("me").errors


def test_a_key_in_a_file(shell: Terminal) -> None:
    file = shell.home / "key"
    file.write_text(shell.environment["GATEWAY_KEY"])
    file.chmod(0o600)
    assert shell.run("me", GATEWAY_KEY="", GATEWAY_KEY_FILE=str(file)).status == 0
    assert shell.run("me", GATEWAY_KEY="", GATEWAY_KEY_FILE="absent").status == 2
