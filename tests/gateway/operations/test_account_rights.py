"""What the gateway's account may do beside what it needs: the lines that are proposed are run, and looked at again."""

import shlex
import subprocess
from typing import Any

import pytest

from directory.models import DirectoryConnection
from tests.support.cast import Answer, Console, make_connection, make_integration, make_person
from tests.support.directory import Directory, random_name
from tests.support.domain import Domain

PASSWORD = "Narrow-Service-1"
HELP_DESK = ("directory.read_object", "directory.reset_password", "directory.unlock_account", "directory.create_group")


@pytest.fixture
def console(db: None) -> Console:
    return Console(make_person("grace", may=["directory.change_directoryconnection"]))


@pytest.fixture
def narrow(domain: Domain, directory: Directory, organizational_unit: str) -> DirectoryConnection:
    """A connection with an account that may do nothing but read."""
    name = random_name("svc")
    directory.add_user(name, parent=organizational_unit, password=PASSWORD, sAMAccountName=name)
    return make_connection(domain, bind_dn=f"{name}@corp.example.test", bind_password=PASSWORD)


def ask(console: Console, connection: DirectoryConnection, base: str) -> Answer:
    answer = console.get(f"/rest/directories/{connection.id}/rights?base={base}")
    assert answer.status == 200, answer
    return answer


def of(answer: Answer, permission: str) -> dict[str, Any]:
    return next(item for item in answer.body["permissions"] if item["permission"] == permission)


def test_what_is_missing_is_what_the_lines_grant(
    console: Console, narrow: DirectoryConnection, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    managed = directory.add_unit("Managed", parent=organizational_unit)
    directory.add_user("Ada Lovelace", parent=managed)
    key = make_integration(narrow, may=HELP_DESK)
    before = ask(console, narrow, managed).body
    assert before["base"] == managed
    reset = next(item for item in before["permissions"] if item["permission"] == "directory.reset_password")
    assert (reset["status"], set(reset["usedBy"])) == ("missing", {key.key.role.name, key.key.owner.username})
    assert {(need["right"], need["name"], need["held"]) for need in reset["needs"]} == {
        ("control-access", "User-Force-Change-Password", False),
        ("write-property", "pwdLastSet", False),
        ("write-property", "lockoutTime", False),
    }
    assert before["excess"] == []
    assert any("CA;Reset Password;user" in line for line in before["grants"]["dsacls"])
    assert any("AddAccessRule" in line for line in before["grants"]["powershell"])
    for line in before["grants"]["sambaTool"]:
        on_the_controller = f"--configfile={domain.controller.directory}/etc/smb.conf"
        command = [*shlex.split(line), on_the_controller]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    after = ask(console, narrow, managed)
    for permission in HELP_DESK[1:]:
        assert of(after, permission)["status"] == "held", of(after, permission)
    assert after.body["grants"] == {"powershell": [], "dsacls": [], "sambaTool": []}
    assert after.body["excess"] == []
    # Not one right more, and what nobody needs any longer is too much.
    assert of(after, "directory.update_user")["status"] == "missing"
    assert of(after, "directory.delete_group")["status"] == "missing"
    key.key.delete()
    key.key.owner.delete()
    told = " ".join(ask(console, narrow, managed).body["excess"])
    assert "may reset passwords of users" in told
    assert "create objects that nobody needs to: group" in told
    assert "write attributes of user objects that nobody needs to: lockoutTime, pwdLastSet" in told


def test_an_administrator_is_too_much(console: Console, connection: DirectoryConnection) -> None:
    answer = ask(console, connection, connection.base_dn)
    assert [item for item in answer.body["permissions"] if item["status"] != "held"] == []
    assert "The account is in Domain Admins." in answer.body["excess"]
    assert answer.body["grants"]["dsacls"] == []


def test_refusals(console: Console, connection: DirectoryConnection, domain: Domain) -> None:
    at = f"/rest/directories/{connection.id}/rights"
    assert Console(make_person(may=["directory.view_directoryconnection"])).get(at).status == 403
    assert console.get(f"/rest/directories/{'0' * 8}-0000-0000-0000-{'0' * 12}/rights").status == 404
    for base in (f"OU=Nowhere,{domain.base_dn}", "DC=elsewhere,DC=test"):
        refused = console.get(f"{at}?base={base}")
        assert (refused.status, refused.body["errors"][0]["parameter"]) == (404, "base")
    assert console.get(f"{at}?base=nothing").status == 400
