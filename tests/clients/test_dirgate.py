"""`dirgate` as people and scripts use it: a process of its own, against the running gateway or a server that fails."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import mypy.api
import pytest

from approvals.models import ChangeRequest, Status
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.commands import PROJECT
from lab.directory import Directory
from lab.gateway import LiveGateway
from lab.waiting import wait_until
from tests.support.cast import Console, make_integration, make_person

SOURCES = PROJECT / "clients" / "command_line"
COMMAND = [sys.executable, "-m", "dirgate"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    output: str
    errors: str

    @property
    def document(self) -> Any:
        return json.loads(self.output)


@dataclass(frozen=True)
class Terminal:
    """Runs `dirgate` with a key, in a home of its own."""

    home: Path
    environment: dict[str, str]

    def run(self, *words: str, typed: str = "", **environment: str) -> Ended:
        ended = subprocess.run(
            [*COMMAND, *words],
            input=typed,
            env=self.environment | environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in ended.stderr, ended.stderr
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *words: str, **how: Any) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([*COMMAND, *words], env=self.environment, cwd=self.home, **how)


def terminal(home: Path, **environment: str) -> Terminal:
    return Terminal(home, {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCES), "HOME": str(home), **environment})


@pytest.fixture
def offline(tmp_path: Path) -> Terminal:
    return terminal(tmp_path)


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


# --- the commands themselves


def test_help_needs_little(offline: Terminal) -> None:
    ended = offline.run("--help", PYTHONPROFILEIMPORTTIME="1")
    assert ended.status == 0
    assert "reset-password" in ended.output
    imported = {line.rpartition("|")[2].strip() for line in ended.errors.splitlines()}
    assert "json" in imported
    assert imported.isdisjoint({"argparse", "http.client", "ssl", "urllib.request", "django", "ldap", "httpx"})


def test_every_operation_is_a_command(offline: Terminal) -> None:
    document = json.loads((PROJECT / "docs" / "openapi" / "api.json").read_text("utf-8"))
    operations = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    program = (
        "import sys; from dirgate.arguments import make_parser; from dirgate.document import find_command\n"
        "for name in sys.stdin.read().split():\n"
        "    print(name, bool(make_parser(find_command(*name.split('.'))).format_help()))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        input="\n".join(operations),
        env=offline.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.split("\n")[:-1] == [f"{name} True" for name in operations]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["user"], "Did you mean users?"),
        (["users", "finds"], "There are: "),
        (["users", "read"], "ID"),
        (["users", "update", "ada", "--replace", "title"], "write it as attribute=value"),
        (["users", "create", "--name", "Ada"], "--parent must be given"),
        (["users", "search", "--limit", "0"], "must be 1 or more"),
        (["groups", "create", "--name", "a", "--parent", "b", "--scope", "wide"], "invalid choice"),
        (["users", "batch-create", "missing.csv"], "cannot be read"),
        (["completion", "fish"], "bash|zsh|powershell"),
    ],
)
def test_wrong_words_are_named(offline: Terminal, words: list[str], said: str) -> None:
    ended = offline.run(*words, GATEWAY_URL="http://127.0.0.1:9", GATEWAY_KEY="dgk_x")
    assert ended.status == 2
    assert said in ended.errors


def test_completion(offline: Terminal) -> None:
    def completed(*words: str) -> list[str]:
        return offline.run("__complete", *words).output.split()

    assert completed("sc") == ["schema"]
    assert completed("users", "res") == ["reset-password"]
    assert completed("groups", "create", "--sco") == ["--scope"]
    assert completed("groups", "create", "--scope", "un") == ["universal"]
    script = offline.run("completion", "bash").output + (
        'COMP_WORDS=(dirgate users unl); COMP_CWORD=2; _dirgate; echo "${COMPREPLY[@]}"\n'
    )
    shown = subprocess.run(
        ["bash", "-c", f'dirgate() {{ "{sys.executable}" -m dirgate "$@"; }}\n{script}'],
        env=offline.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "unlock\n"


def test_the_manual_page_is_roff(offline: Terminal) -> None:
    page = offline.run("man").output
    assert page.startswith(".TH DIRGATE 1")
    assert ".B users reset-password" in page
    if groff := next((path for path in ("/usr/bin/groff", "/usr/bin/mandoc") if Path(path).exists()), None):
        checked = subprocess.run([groff, *(["-man", "-ww", "-z"] if groff.endswith("groff") else ["-Tlint"])],
                                 input=page, capture_output=True, text=True, check=True)  # fmt: skip
        assert checked.stderr == ""


def test_its_types_are_whole() -> None:
    said, complaints, status = mypy.api.run(["--strict", "--config-file=", str(SOURCES / "dirgate")])
    assert (status, complaints) == (0, ""), said


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


def test_every_column_is_a_member(offline: Terminal) -> None:
    program = (
        "from dirgate.document import _resolved, document, find_command; from dirgate.output import _COLUMNS\n"
        "for resource, columns in _COLUMNS.items():\n"
        "    command = find_command(resource, 'list-attributes' if resource == 'schema' else 'list')\n"
        "    answers = document()['paths'][command.path]['get']['responses']['200']['content']['application/json']\n"
        "    for column in columns:\n"
        "        schema = _resolved(_resolved(answers['schema'])['properties']['items']['items'])\n"
        "        for name in column.split('.'):\n"
        "            schema = _resolved(schema['properties'][name])\n"
        "        print(resource, column)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], env=offline.environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "operations target.distinguishedName" in ended.stdout


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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no items"),
        ("name,parent\nAda", "line 2: it has not as many cells as the header line"),
        ('[{"name": }]', "is no JSON"),
        ('{"name": "a"}\n{"name"}', "line 2 is no JSON"),
        ("[1]", "item 1 is no object"),
    ],
)
def test_a_file_that_cannot_be_understood(offline: Terminal, content: str, said: str) -> None:
    (offline.home / "items").write_text(content)
    ended = offline.run("users", "batch-create", "items", GATEWAY_URL="http://127.0.0.1:9", GATEWAY_KEY="dgk_x")
    assert ended.status == 2
    assert said in ended.errors


# --- what goes wrong


def test_an_answer_that_is_lost_is_asked_for_with_the_same_key(offline: Terminal, failing: Any) -> None:
    script, url = failing([0, 503, 299], retry_after="0")
    ended = offline.run("objects", "delete", str(UUID(int=1)), GATEWAY_URL=url, GATEWAY_KEY="dgk_x")
    assert ended.status == 0, ended
    assert len(set(script.keys)) == 1
    assert script.keys[0]


def test_who_cannot_be_reached_is_told_how_to_go_on(offline: Terminal, failing: Any) -> None:
    script, url = failing([0, 0, 0, 0, 0])
    ended = offline.run("objects", "delete", str(UUID(int=1)), GATEWAY_URL=url, GATEWAY_KEY="dgk_x")
    assert ended.status == 6
    assert f"--idempotency-key {script.keys[0]}" in ended.errors


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


@pytest.mark.parametrize("address", ["http://gateway.example", "ftp://gateway.example", "gateway", "https://a/?b=1"])
def test_no_key_goes_to_an_address_that_is_none(offline: Terminal, address: str) -> None:
    ended = offline.run("me", GATEWAY_URL=address, GATEWAY_KEY="dgk_x")
    assert ended.status == 2
    assert address in ended.errors


def test_it_installs_alone(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), str(SOURCES)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = tmp_path.glob("dirgate-*.whl")
    place = tmp_path / "place"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--target", str(place), str(wheel)]
    subprocess.run(install, check=True)
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from dirgate.main import main; main()"
    shown = subprocess.run(
        [sys.executable, "-S", "-I", "-c", program, str(place), "users"], capture_output=True, text=True, check=True
    )
    assert "reset-password" in shown.stdout


# --- the documentation


def test_the_reference_is_made_from_the_commands(offline: Terminal) -> None:
    made = subprocess.run(
        [sys.executable, "-c", "from dirgate.reference import tables; print(tables(), end='')"],
        env=offline.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    page = (PROJECT / "docs" / "command-line.md").read_text("utf-8")
    assert page.partition("## Reference\n\n")[2] == made.stdout


def test_every_everyday_task_is_a_command(offline: Terminal) -> None:
    tasks = re.compile(r"^\| (.+?) \| (?!Gateway|dirgate \|)", re.MULTILINE)
    page = (PROJECT / "docs" / "command-line.md").read_text("utf-8")
    page = page.partition("## Everyday tasks")[2].partition("## Reference")[0]
    told = set(tasks.findall(page)) - {"PowerShell"}
    with_curl = set(tasks.findall((PROJECT / "docs" / "everyday-tasks.md").read_text("utf-8")))
    assert with_curl - told <= {"`New-ADServiceAccount`", "PowerShell"}
    program = (
        "import shlex, sys; from dirgate.arguments import make_parser; from dirgate.document import find_command\n"
        "for line in sys.stdin:\n"
        "    _, resource, action, *words = shlex.split(line)\n"
        "    make_parser(find_command(resource, action)).parse_args(words)\n"
    )
    commands = [found for found in re.findall(r"`(dirgate [^`]+)`", page) if found.count(" ") > 1]
    checked = subprocess.run(
        [sys.executable, "-c", program],
        input="\n".join(commands),
        env=offline.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_it_is_of_the_gateways_release(offline: Terminal) -> None:
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert offline.run("--version").output == f"dirgate {version}\n"
