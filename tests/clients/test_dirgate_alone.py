"""`dirgate` without a gateway: its commands, wrong words, a server that fails, what it needs, its documentation."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from uuid import UUID

import mypy.api
import pytest

from lab.commands import PROJECT
from tests.clients.terminal import SOURCES, Terminal

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


# --- credentials


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
    page = (PROJECT / "docs" / "everyday-tasks.md").read_text("utf-8")
    requests, page = page.split("## In the console and at a terminal")
    task = re.compile(r"^\| (.+?) \| (?!Gateway|Console)", re.MULTILINE)
    assert {*task.findall(requests)} - {*task.findall(page)} == {"`New-ADServiceAccount`"}
    catalogue = (PROJECT / "locale" / "de" / "LC_MESSAGES" / "django.po").read_text("utf-8")
    labels = {label for label in re.findall(r"\*([^*]+)\*", page) if f'msgid "{label}"\n' not in catalogue}
    assert labels == set()
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
