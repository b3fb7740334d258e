"""What the gateway's account may do beside what it needs: the lines that are proposed are run, and looked at again."""

import shlex
import subprocess
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from active_directory import Client
from console.directory.objects.form import fields_of
from directory.lookup import connection as connections
from directory.models import DirectoryConnection
from directory.security.grants import DISPLAY_NAMES, dsacls_lines, one_right_per_attribute
from directory.security.needed_rights import (
    NEEDED,
    NEEDED_RIGHTS,
    REANIMATION,
    USUAL_ATTRIBUTES,
    Access,
)
from directory.shapes import kinds
from keys.models import Person
from lab.directory import Directory, random_name
from lab.domain import Domain
from lab.samba.database import set_descriptor
from tests.audit.every_change import CHANGES, KINDS, World, attempt
from tests.support.cast import Answer, Console, make_connection, make_integration, make_person
from tests.support.delegated import delegated_account
from tests.support.descriptors import add_entries, pack

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


def ask(console: Console, connection: DirectoryConnection, base: str = "") -> Answer:
    answer = console.get(f"/rest/directories/{connection.id}/rights{f'?base={base}' if base else ''}")
    assert answer.status == 200, answer
    return answer


def run(lines: list[str], domain: Domain) -> None:
    """Run the lines for samba-tool on the domain controller."""
    on_the_controller = f"--configfile={domain.controller.directory}/etc/smb.conf"
    for line in lines:
        if not line.startswith("#"):
            command = [*shlex.split(line), on_the_controller]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


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
    run(before["grants"]["sambaTool"], domain)
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


ATTRIBUTES: dict[str, Any] = {
    "mail": "ada@corp.example.test",
    "proxyAddresses": ["smtp:ada@corp.example.test"],
    "userPrincipalName": "someone.else@corp.example.test",
    "dNSHostName": "host.corp.example.test",
    "servicePrincipalName": ["HTTP/host.corp.example.test"],
    "initials": "AL",
    "groupType": "-2147483640",  # universal
}
"""Values that are not just any text, by attribute."""


def test_every_operation_works_with_what_the_lines_grant_and_no_more(
    console: Console, narrow: DirectoryConnection, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    managed = directory.add_unit("Managed", parent=organizational_unit)
    key = make_integration(narrow, scopes=[directory.guid(managed)])
    Person.objects.filter(pk=key.key.owner.pk).update(scopes=key.key.role.scopes)
    world = World(key, directory, managed)
    added = {resource: world.add(resource) for resource in KINDS}
    before = ask(console, narrow).body
    assert before["places"] == [managed]
    for line in before["grants"]["dsacls"]:
        if not any(word in line for word in ("LCRP", "/takeownership", DISPLAY_NAMES[REANIMATION.name])):
            assert f'"{managed}"' in line, "what is changed is nowhere else"
        assert "RPWP;;" not in line, "no line grants to write every attribute"
    run(before["grants"]["sambaTool"], domain)
    sid = directory.sid(f"CN={narrow.bind_dn.partition('@')[0]},{organizational_unit}")
    (readable,) = pack(f"O:SYG:SYD:P(A;;CCDCLCSWRPWPSDRCWDWO;;;SY)(A;;LCRP;;;BA)(A;CI;LCRP;;;{sid})")
    set_descriptor(domain, f"CN=Deleted Objects,{directory.base_dn}", readable)  # which samba-tool does not reach
    after = ask(console, narrow)
    assert {item["permission"]: item["status"] for item in after.body["permissions"] if item["status"] != "held"} == {}
    assert after.body["grants"] == {"powershell": [], "dsacls": [], "sambaTool": []}
    for change in CHANGES:
        if change.name == "deleted-objects.restore":
            continue  # Samba asks for writing the deleted object, besides what Windows asks for
        attempted = attempt(change, world)
        answer = attempted.ask(key)
        assert answer.status < 300, (change.name, answer)
        assert attempted.is_done(), change.name
    for resource, guid in [*added.items(), ("organization-units", directory.guid(managed))]:
        for name in USUAL_ATTRIBUTES[KINDS[resource]]:
            if name not in ("name", "cn", "ou"):  # what renaming writes
                value = managed if name in ("manager", "managedBy") else ATTRIBUTES.get(name, random_name("v"))
                if (resource, name) == ("computers", "sAMAccountName"):
                    value = f"{value}$"
                changed = key.patch(f"/api/ad/{resource}/{guid}", {"replace": {name: value}})
                assert changed.status == 200, (resource, name, changed)
    # What nobody writes, and what is elsewhere, the directory itself refuses.
    user = f"/api/ad/users/{added['users']}"
    elsewhere = directory.add_user("Elsewhere", parent=organizational_unit)
    unconfined = make_integration(narrow)
    assert ask(console, narrow).body["places"] == [domain.base_dn]
    for refused in (
        key.patch(user, {"replace": {"scriptPath": "logon.cmd"}}),
        key.patch(user, {"replace": {"servicePrincipalName": "HTTP/evil"}}),
        unconfined.patch(f"/api/ad/users/{elsewhere}", {"replace": {"title": "Countess"}}),
        unconfined.delete(f"/api/ad/users/{elsewhere}"),
    ):
        assert refused.status == 502, refused


def test_the_lines_name_what_the_forms_write_and_never_every_attribute() -> None:
    for kind, declared in kinds.KINDS.items():
        forms = {field.attribute for field in fields_of(kind)} if declared.resource and declared.classes else set()
        assert forms <= set(USUAL_ATTRIBUTES[declared.classes[0]] if forms else ()), kind
    rights = [right for some in NEEDED.values() for right in some]
    assert all(right.name for right in one_right_per_attribute(rights) if right.access is Access.WRITE)
    for task in NEEDED_RIGHTS:
        assert not [line for line in dsacls_lines(task.rights, account="a@b", base_dn="OU=x,DC=y") if "RPWP;;" in line]


def test_attributes_are_in_use_once_they_are_written(
    console: Console, narrow: DirectoryConnection, domain: Domain, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REVISION_SECONDS", 0)
    key = make_integration(narrow, may=["directory.update_user"])

    def without() -> list[str]:
        missing: list[str] = of(ask(console, narrow), "directory.update_user")["needs"][0]["without"]
        return missing

    assert "title" in without()
    assert not {"scriptPath", "homeDirectory"} & set(without())

    def sign_in_as(name: str, password: str) -> None:
        narrow.bind_dn, narrow.bind_password, narrow.bind_password_given = name, password, True
        narrow.save()

    account = (narrow.bind_dn, narrow.bind_password)
    path = f"/api/ad/users/{ada}"
    assert key.patch(path, {"replace": {"homeDirectory": "x"}}).status != 200, "what is refused is not in use"
    sign_in_as(domain.bind_dn, domain.bind_password)
    assert key.patch(path, {"replace": {"scriptPath": "logon.cmd"}}).status == 200
    sign_in_as(*account)
    assert "scriptPath" in without()
    assert "homeDirectory" not in without()


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


def test_what_may_be_done_is_computed_for_few(
    console: Console,
    connection: DirectoryConnection,
    directory: Directory,
    organizational_unit: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Searches identify samples; the domain controller would compute the rights on all users before it sends five."""
    directory.add_user(parent=organizational_unit)
    asked: list[Sequence[str]] = []
    search, find = Client.search, Client.find

    def watched(client: Client, base: Any, scope: Any, filter: Any, attributes: Any = None, **how: Any) -> Any:
        asked.append(attributes)
        assert not how.get("descriptor")
        return search(client, base, scope, filter, attributes, **how)

    read: list[str] = []

    def found(client: Client, ref: Any, attributes: Any = None, **how: Any) -> Any:
        read.extend([str(ref)] if "allowedAttributesEffective" in (attributes or ()) else [])
        return find(client, ref, attributes, **how)

    monkeypatch.setattr(Client, "search", watched)
    monkeypatch.setattr(Client, "find", found)
    assert ask(console, connection, directory.base_dn).body["permissions"]
    assert asked
    assert not any("allowedAttributesEffective" in (names or ()) for names in asked)
    assert 1 <= len(read) <= 25
