"""What the gateway's account may do beside what it needs: the lines that are proposed are run, and looked at again."""

import shlex
import subprocess
from typing import Any

import pytest

from directory.models import DirectoryConnection
from tests.support.cast import Answer, Console, make_connection, make_integration, make_person
from tests.support.delegated import delegated_account
from tests.support.descriptors import add_entries
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


def part(answer: Answer, name: str) -> dict[str, Any]:
    return next(item for item in answer.body["reading"] if item["part"] == name)


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
    assert {item["part"]: item["held"] for item in before["reading"]} == {
        **dict.fromkeys(("objects", "access-control", "password-policies", "group-policies", "schema"), True),
        # By default nobody but administrators.
        **dict.fromkeys(("deleted-objects", "fine-grained-policies"), False),
    }
    assert any("CA;Reset Password;user" in line for line in before["grants"]["dsacls"])
    assert any("AddAccessRule" in line for line in before["grants"]["powershell"])
    for line in before["grants"]["sambaTool"]:
        on_the_controller = f"--configfile={domain.controller.directory}/etc/smb.conf"
        command = [*shlex.split(line), on_the_controller]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    after = ask(console, narrow, managed)
    assert part(after, "fine-grained-policies")["held"] is True
    assert part(after, "deleted-objects")["usedBy"] == [], "so nothing is proposed"
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


def test_what_it_may_not_read(
    console: Console, narrow: DirectoryConnection, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    managed = directory.add_unit("Managed", parent=organizational_unit)
    ada = directory.add_user("Ada Lovelace", parent=managed)
    holder = make_person(may=["directory.read_deleted", "directory.read_acl"])
    sid = directory.sid(f"CN={narrow.bind_dn.partition('@')[0]},{organizational_unit}")
    # One's own entries go before those inherited, and each new user gets one that lets everybody read its descriptor.
    hidden = f"(OD;;RP;bf967a68-0de6-11d0-a285-00aa003049e2;;{sid})(D;;RC;;;{sid})"  # userAccountControl
    add_entries(directory, ada, hidden, domain_sid=directory.sid(directory.base_dn))
    answer = ask(console, narrow, managed)
    objects, lists, deleted = (part(answer, name) for name in ("objects", "access-control", "deleted-objects"))
    assert (objects["held"], objects["without"], objects["usedBy"]) == (False, ["user: userAccountControl"], None)
    assert (lists["held"], lists["usedBy"]) == (False, [holder.username])
    assert (deleted["held"], deleted["usedBy"]) == (False, [holder.username])
    container = f"CN=Deleted Objects,{domain.base_dn}"
    lines = answer.body["grants"]
    assert lines["dsacls"] == [
        f'dsacls "{managed}" /I:T /G "{narrow.bind_dn}:LCRP"',
        f'dsacls "{managed}" /I:T /G "{narrow.bind_dn}:RC"',
        f'dsacls "{container}" /takeownership',
        f'dsacls "{container}" /G "{narrow.bind_dn}:LCRP"',
    ]
    assert f"# samba-tool does not reach {container}" in lines["sambaTool"]
    assert any("'ListChildren, ReadProperty', 'Allow', 'All'" in line for line in lines["powershell"])


def test_a_delegated_account_may_read_what_is_needed(console: Console, domain: Domain, directory: Directory) -> None:
    directory.delete(directory.add_user(parent=directory.base_dn))
    with delegated_account(domain, directory) as account:
        connection = make_connection(domain, bind_dn=account.bind_dn, bind_password=account.password)
        answer = ask(console, connection, domain.base_dn)
        assert [item for item in answer.body["reading"] if item["held"] is not True] == []


def test_an_administrator_is_too_much(console: Console, connection: DirectoryConnection, directory: Directory) -> None:
    directory.delete(directory.add_user(parent=directory.base_dn))
    answer = ask(console, connection, connection.base_dn)
    assert [item for item in answer.body["permissions"] if item["status"] != "held"] == []
    assert [item for item in answer.body["reading"] if item["held"] is not True] == []
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
