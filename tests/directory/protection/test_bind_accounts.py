"""The gateway's own accounts are protected: of every connection, enabled or not, however they are called."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from active_directory import Client
from directory.lookup import connection as connections
from directory.models import DirectoryConnection
from directory.protection import bind_accounts
from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from tests.support.cast import Answer, Integration, all_permissions, make_connection, make_integration
from tests.support.delegated import Delegated


@pytest.fixture
def bind(delegated: Delegated) -> dict[str, Any]:
    """The gateway's account has its rights by delegation."""
    return {"bind_dn": delegated.bind_dn, "bind_password": delegated.password}


@pytest.fixture
def ordinary(connection: Any) -> Integration:
    """May do everything but write protected objects."""
    return make_integration(connection, may=set(all_permissions()) - {"directory.manage_protected"})


@pytest.fixture
def service(directory: Directory, organizational_unit: str) -> UUID:
    """An account that another connection signs in with."""
    name = random_name("svc")
    unit = directory.add_unit("Services, own", parent=organizational_unit)
    return directory.add_user(
        name,
        parent=unit,
        password=PASSWORD,
        sAMAccountName=name,
        userPrincipalName=f"{name}@people.example.test",
        displayName=f"Service {name}",
    )


def reset(caller: Integration, account: UUID) -> Answer:
    return caller.post(f"/api/ad/users/{account}/reset-password?dryRun=true", {"generate": True})


def start_anew() -> None:
    """Forget what this process knows, as another one would that begins now."""
    for known in connections._clients.values():
        known.client.close()
    connections._clients.clear()
    connections.forget_known_connections()


def account_name(directory: Directory, account: UUID) -> str:
    return directory.text(account, "sAMAccountName") or ""


SPELLINGS: dict[str, Callable[[Directory, UUID], str]] = {
    "distinguished name": lambda directory, account: directory.dn(account),
    "in capitals, with spaces": lambda directory, account: directory.dn(account).upper().replace(",DC", ", DC"),
    "with other escapes": lambda directory, account: (
        directory.dn(account).replace(r"\,", r"\2C").replace("svc-", r"sv\63-")
    ),
    "DOMAIN\\name": lambda directory, account: f"CORP\\{account_name(directory, account)}",
    "domain\\NAME": lambda directory, account: f"corp\\{account_name(directory, account).upper()}",
    "userPrincipalName": lambda directory, account: directory.text(account, "userPrincipalName") or "",
    "implied userPrincipalName": lambda directory, account: f"{account_name(directory, account)}@corp.example.test",
    "objectGUID": lambda _, account: f"<GUID={account}>",
    "objectGUID in braces": lambda _, account: f"{{{str(account).upper()}}}",
    "SID": lambda directory, account: directory.sid(account),
    "SID as a reference": lambda directory, account: f"<SID={directory.sid(account)}>",
    "canonical name": lambda directory, account: f"corp.example.test/x/{account_name(directory, account)}",
    "display name": lambda directory, account: directory.text(account, "displayName") or "",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_another_connections_account(
    spelling: str, ordinary: Integration, domain: Domain, directory: Directory, service: UUID
) -> None:
    assert reset(ordinary, service).status == 200
    make_connection(domain, bind_dn=SPELLINGS[spelling](directory, service), url="ldaps://dc9.test", enabled=False)
    assert reset(ordinary, service).status == 403
    assert ordinary.get(f"/api/ad/users/{service}").body["protected"] is True


@pytest.mark.parametrize(
    "spelling", ["in capitals, with spaces", "domain\\NAME", "userPrincipalName", "objectGUID", "SID"]
)
def test_the_own_account(spelling: str, db: None, domain: Domain, directory: Directory, delegated: Delegated) -> None:
    account = directory.guid(delegated.bind_dn)
    bind_dn = SPELLINGS[spelling](directory, account)
    connection = make_connection(domain, bind_dn=bind_dn, bind_password=delegated.password)
    ordinary = make_integration(connection, may=set(all_permissions()) - {"directory.manage_protected"})
    path = f"/api/ad/users/{account}"
    for answer in (
        reset(ordinary, account),
        ordinary.patch(path, {"replace": {"description": "x"}}),
        ordinary.post(f"{path}/rename", {"name": "x"}),
        ordinary.delete(path),
        ordinary.delete(f"/api/ad/organization-units/{directory.guid(delegated.unit)}?recursive=true"),
        ordinary.post(f"/api/ad/organization-units/{directory.guid(delegated.unit)}/rename", {"name": "x"}),
    ):
        assert answer.status == 403
    connection.refresh_from_db()
    assert connection.bind_account == directory.sid(account)


def test_an_account_that_was_renamed_since(
    ordinary: Integration, domain: Domain, directory: Directory, service: UUID, organizational_unit: str
) -> None:
    """Neither its new name nor another account of the old name makes anybody forget it."""
    old = directory.dn(service)
    connection = make_connection(domain, bind_dn=old, enabled=False)
    assert reset(ordinary, service).status == 403
    directory.rename(service, random_name("renamed"))
    assert reset(ordinary, service).status == 403
    start_anew()
    assert reset(ordinary, service).status == 403
    decoy = directory.add_user(old.partition(",")[0].removeprefix("CN="), parent=old.partition(",")[2])
    start_anew()
    assert reset(ordinary, service).status == 403
    assert reset(ordinary, decoy).status == 403
    directory.move(service, parent=organizational_unit)
    assert reset(ordinary, service).status == 403
    unit = f"/api/ad/organization-units/{directory.guid(organizational_unit)}"
    assert ordinary.post(f"{unit}/rename", {"name": "x"}).status == 403
    successor = directory.add_user(parent=organizational_unit)
    connection.bind_dn = directory.dn(successor)
    connection.save()
    start_anew()
    assert reset(ordinary, successor).status == 403  # it is looked up anew
    connection.refresh_from_db()
    assert connection.bind_account == directory.sid(successor)


def test_an_account_of_this_domain_that_signs_in_to_another(
    ordinary: Integration, domain: Domain, directory: Directory, service: UUID
) -> None:
    elsewhere = make_connection(
        domain, url="ldaps://dc1.elsewhere.test", base_dn="DC=elsewhere,DC=test", bind_dn="someone@example.org"
    )
    DirectoryConnection.objects.filter(pk=elsewhere.pk).update(bind_account=directory.sid(service))
    assert reset(ordinary, service).status == 403


def test_the_groups_that_give_it_its_rights(
    ordinary: Integration, domain: Domain, directory: Directory, service: UUID, organizational_unit: str
) -> None:
    colleague = directory.add_user(parent=organizational_unit)
    inner = directory.add_group(parent=organizational_unit, members=[service, colleague])
    outer = directory.add_group(parent=organizational_unit, members=[inner])
    beside = directory.add_group(parent=organizational_unit, members=[colleague])
    make_connection(domain, bind_dn=directory.dn(service))
    body = {"add": [str(directory.add_user(parent=organizational_unit))]}
    for group, status in ((inner, 403), (outer, 403), (beside, 200)):
        assert ordinary.post(f"/api/ad/groups/{group}/members?dryRun=true", body).status == status
        assert ordinary.get(f"/api/ad/groups/{group}").body["protected"] is (status == 403)
    assert reset(ordinary, colleague).status == 200
    assert reset(ordinary, service).status == 403
    directory.remove_values(outer, member=directory.dn(inner))
    assert ordinary.post(f"/api/ad/groups/{outer}/members?dryRun=true", body).status == 200


def test_a_server_that_does_not_say_who_is_signed_in(
    ordinary: Integration, directory: Directory, delegated: Delegated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bind name is looked up then, as another connection's is."""
    read = Client.read

    def reading(client: Client, ref: Any, attributes: Any = None, **named: Any) -> Any:
        return read(client, ref, ("1.1",) if attributes == ("tokenGroups",) else attributes, **named)

    monkeypatch.setattr(Client, "read", reading)
    assert reset(ordinary, directory.guid(delegated.bind_dn)).status == 403


def test_whom_a_name_stands_for_is_looked_up_again(
    ordinary: Integration,
    domain: Domain,
    directory: Directory,
    service: UUID,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An account that is made after the connection, in the place of one that is gone."""
    monkeypatch.setattr(bind_accounts, "IDENTITY_SECONDS", 0.0)
    name, parent = directory.dn(service).partition(",")[::2]
    make_connection(domain, bind_dn=f"{name},{parent}")
    assert reset(ordinary, service).status == 403
    directory.delete(service)
    successor = directory.add_user(name.removeprefix("CN="), parent=parent)
    assert reset(ordinary, successor).status == 403


def test_what_is_learnt_is_not_set_back_by_a_change_of_the_connection(
    ordinary: Integration, domain: Domain, directory: Directory, service: UUID
) -> None:
    """Somebody else may have had the row in hand meanwhile."""
    connection = make_connection(domain, bind_dn=directory.dn(service), enabled=False)
    assert reset(ordinary, service).status == 403
    connections.count_protection_change()
    connection.name = random_name("renamed")
    connection.save()
    connection.refresh_from_db()
    assert (connection.bind_account, connection.protection_changes) == (directory.sid(service), 1)
    assert connection.revision == 2
