"""The Ansible collection, built, installed and run by real playbooks against the running gateway."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection as database
from django.utils import timezone

from approvals.models import ChangeRequest, Status
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.commands import PROJECT
from lab.directory import Directory, random_name
from lab.gateway import LiveGateway
from lab.waiting import wait_until
from tests.clients.terminal import SOURCES
from tests.support.cast import Console, Integration, make_integration, make_person

Play = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the collection is installed from its archive."""
    place = tmp_path_factory.mktemp("ansible")
    ignored = shutil.ignore_patterns("__pycache__")
    sources = shutil.copytree(PROJECT / "clients" / "ansible", place / "sources", ignore=ignored)
    _galaxy(place, "build", str(sources), "--output-path", str(place))
    (archive,) = place.glob("*.tar.gz")
    _galaxy(place, "install", str(archive), "--collections-path", str(place), "--offline")
    return place


def _galaxy(home: Path, *words: str) -> None:
    command = [sys.executable, "-m", "ansible.cli.galaxy", "collection", *words]
    subprocess.run(command, env=_environment(home), check=True, capture_output=True, text=True)


def _environment(home: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(SOURCES),
        "ANSIBLE_COLLECTIONS_PATH": str(home),
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_PIPELINING": "true",
        **more,
    }


@pytest.fixture
def play(transactional_db: None, collections: Path, live_gateway: LiveGateway, tmp_path: Path) -> Play:
    """Runs tasks with a key, and returns each one's result."""

    def run(key: Integration, *tasks: dict[str, Any], check: bool = False) -> list[dict[str, Any]]:
        named = [
            {f"directory_gateway.ad.{module}": arguments, "register": "done", "ignore_errors": True}
            for task in tasks
            for module, arguments in task.items()
        ]
        tell = {"ansible.builtin.debug": {"msg": "RESULT {{ done | to_json }}"}}
        shown = [each for task in named for each in (task, tell)]
        playbook = tmp_path / "playbook.yml"
        playbook.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": shown}]))
        command = [
            sys.executable,
            "-m",
            "ansible.cli.playbook",
            str(playbook),
            "--diff",
            *(["--check"] if check else []),
        ]
        environment = _environment(
            collections,
            GATEWAY_URL=live_gateway.base_url,
            GATEWAY_KEY=key.value,
            ANSIBLE_PYTHON_INTERPRETER=sys.executable,
        )
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        told = re.findall(r'"msg": ("RESULT .*")$', ended.stdout, re.MULTILINE)
        return [json.loads(json.loads(each).removeprefix("RESULT ")) for each in told]

    return run


def test_its_documentation_says_what_the_modules_take(collections: Path) -> None:
    """The check of `ansible-test sanity` that compares them, which would download its own environment."""
    (checks,) = Path(sys.prefix).glob("lib/python*/site-packages/ansible_test/_util/controller/sanity/validate-modules")
    place = collections / "ansible_collections" / "directory_gateway" / "ad"
    modules = sorted(f"plugins/modules/{module.name}" for module in (place / "plugins" / "modules").glob("*.py"))
    assert len(modules) == 6
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    assert json.loads((place / "MANIFEST.json").read_text())["collection_info"]["version"] == project["version"]
    command = [sys.executable, str(checks / "validate.py"), "--collection", "ansible_collections/directory_gateway/ad"]
    paths = os.pathsep.join(map(str, (SOURCES, checks, collections)))
    ended = subprocess.run(
        [*command, "--arg-spec", "--collection-version", "0.0.0", *modules],
        env=_environment(collections, PYTHONPATH=paths),
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in ended.stdout.splitlines() if "missing-gplv3-license" not in line]
    assert (found, ended.stderr) == ([], "")


def test_a_playbook_changes_what_it_says_and_the_second_run_nothing(
    play: Play, connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    key = make_integration(connection)
    last, group = random_name("Lovelace"), random_name("engine")
    unit = f"OU=Visitors,{organizational_unit}"
    ada = directory.add_user(f"Ada {last}", parent=organizational_unit, title="Analyst", department="Sales")
    grace = {"name": f"Grace, {last}", "parent": unit}
    tasks: list[dict[str, Any]] = [
        {"organizational_unit": {"name": "Visitors", "parent": organizational_unit}},
        {
            "user": {
                **grace,
                "sam_account_name": last.lower(),
                "password": "Long-enough-1!",
                "enabled": True,
                "attributes": {"title": "Admiral"},
            }
        },
        {
            "user": {
                "identity": str(ada),
                "name": f"Ada King {last}",
                "parent": unit,
                "enabled": False,
                "attributes": {"title": "Countess", "department": None},
            }
        },
        {"group": {"name": group, "parent": unit, "scope": "universal"}},
        {"membership": {"group": group, "members": [last.lower(), str(ada)], "for": "8h"}},
        {"computer": {"name": last[:15], "parent": unit}},
    ]
    shown = play(key, *tasks[:1], tasks[2], check=True)
    assert [each["changed"] for each in shown] == [True, True]
    assert shown[1]["diff"]["before"]["title"] == ["Analyst"]
    assert shown[1]["diff"]["after"]["department"] == []
    assert directory.text(ada, "title") == "Analyst"
    done = play(key, *tasks)
    assert [each.get("msg") for each in done if each.get("failed")] == []
    assert all(each["changed"] for each in done)
    assert (directory.text(ada, "title"), directory.text(ada, "department")) == ("Countess", None)
    assert directory.dn(ada).startswith(f"CN=Ada King {last},OU=Visitors,")
    assert done[1]["object"]["account"]["enabled"]
    assert len(done[4]["added"]) == 2
    assert ChangeRequest.objects.get(status="scheduled").due_at > timezone.now() + timedelta(hours=7)
    again = play(
        key,
        *tasks,
        {"membership": {"group": group, "members": [str(ada)], "state": "exact"}},
        {"user": {**grace, "state": "absent"}},
        {"user": {**grace, "state": "absent"}},
        {"user": {"identity": str(ada), "attributes": {"noSuchAttribute": "1"}}},
    )
    assert [each["changed"] for each in again] == [False] * 6 + [True, True, False, False]
    assert again[-1]["failed"]
    assert again[-1]["code"] == "AD.Attributes.Unknown"
    assert again[-1]["msg"].startswith("AD.Attributes.Unknown: ")


def test_a_held_change_is_reported_once_or_waited_for(
    play: Play, connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    ada = directory.add_user(parent=organizational_unit, title="Analyst")
    task: dict[str, Any] = {"user": {"identity": str(ada), "attributes": {"title": "Countess"}, "reason": "Größe"}}
    (held,) = play(careful, task)
    request = ChangeRequest.objects.get()
    assert (held["changed"], held["pending_request"], request.reason) == (True, str(request.id), "Größe")
    (again,) = play(careful, task)  # the next run of the playbook asks nobody a second time
    assert again["pending_request"] == str(request.id)
    assert ChangeRequest.objects.count() == 1

    approver = Console(make_person(may=["approvals.decide_change", "directory.read_object"]))
    path = f"/rest/change-requests/{request.id}/reject"
    assert approver.post(path, {"comment": "Not now"}).status == 200
    (rejected,) = play(careful, {"request_wait": {"id": str(request.id)}})
    assert rejected["failed"]
    assert rejected["msg"].endswith("is rejected: Not now")

    def approve() -> None:
        wait_until(lambda: ChangeRequest.objects.filter(status=Status.PENDING).exists())
        waiting = ChangeRequest.objects.get(status=Status.PENDING)
        approver.post(f"/rest/change-requests/{waiting.id}/approve", {"digest": waiting.digest})
        database.close()

    thread = threading.Thread(target=approve)
    thread.start()
    task["user"] |= {"wait": True, "wait_timeout": 300}
    (applied,) = play(careful, task)
    thread.join()
    assert "pending_request" not in applied
    assert directory.text(ada, "title") == "Countess"
