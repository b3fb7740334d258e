"""No test of a connection, and no password that a connection keeps, lets wrong passwords lock an account."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db.models import F

from directory.lookup import connection as clients
from directory.models import BindPassword, DirectoryConnection, PasswordAttempt
from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from lab.gateway import LiveGateway
from lab.proxy import FaultyProxy
from tests.keys.sign_in.locking import locking_policy
from tests.operations.directory.test_directories import body_for
from tests.support.cast import Answer, Console, Integration, make_connection, make_integration, make_person
from tests.support.database import gateway_at

NAME = "svc.locked"
WRONG = "wrong"
TOO_MANY = (429, "AD.Password.TooManyWrong")


@pytest.fixture
def account(directory: Directory, organizational_unit: str) -> Iterator[UUID]:
    """One that a connection may sign in with. The fifth wrong password locks it."""
    guid = directory.add_user(
        parent=organizational_unit,
        password=PASSWORD,
        sAMAccountName=NAME,
        userPrincipalName=f"{NAME}@corp.example.test",
    )
    with locking_policy(directory, guid):
        yield guid


@pytest.fixture
def tester(db: None) -> Console:
    return Console(make_person(superuser=True))


@pytest.fixture
def attempt(tester: Console, domain: Domain) -> Callable[..., Answer]:
    """Try a connection that is not saved."""

    def attempt(name: str, password: str = WRONG, /, **changes: Any) -> Answer:
        return tester.post(
            "/rest/directories/test", body_for(domain, name="New", bindDn=name, bindPassword=password, **changes)
        )

    return attempt


def counted(directory: Directory, account: UUID) -> int:
    return int(directory.text(account, "badPwdCount") or 0)


def outcome(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer.code


def test_however_the_account_is_spelled(
    connection: DirectoryConnection,
    integration: Integration,
    directory: Directory,
    account: UUID,
    tester: Console,
    attempt: Callable[..., Answer],
) -> None:
    assert tester.post(f"/rest/directories/{connection.pk}/test").body["ok"]
    spelled = [f"{NAME}@corp.example.test", f"CORP\\{NAME}", directory.dn(account).upper()]
    for name in spelled:
        answer = attempt(name)
        assert (answer.status, answer.body["ok"], answer.body["servers"][0]["fault"]) == (200, False, "bind")
    for name in (*spelled, f"<GUID={account}>"):
        assert outcome(attempt(name)) == TOO_MANY
        assert outcome(attempt(name, PASSWORD)) == TOO_MANY, "which tells nobody that it would be right"
    wrong = {"currentPassword": "Not-Hers-1", "newPassword": "Engine-Number-2"}
    assert outcome(integration.post(f"/api/ad/users/{account}/change-password", wrong)) == TOO_MANY
    assert counted(directory, account) == 3
    assert directory.can_sign_in(account, PASSWORD)


def test_a_name_that_no_connection_knows(directory: Directory, account: UUID, attempt: Callable[..., Answer]) -> None:
    """As in the first hour of an installation: it is not known how many would lock it."""
    assert [attempt(name).status for name in (directory.dn(account), f"CORP\\{NAME}")] == [200, 200]
    for name in (directory.dn(account), f"{NAME}@corp.example.test"):
        assert outcome(attempt(name)) == TOO_MANY
    assert counted(directory, account) == 2


def test_what_was_not_sent_does_not_count(
    domain: Domain, account: UUID, directory: Directory, attempt: Callable[..., Answer], directory_proxy: FaultyProxy
) -> None:
    for urls in (["ldaps://127.0.0.1:1"], ["ldaps://no.such.host.invalid"]):
        for _ in range(4):
            assert attempt(directory.dn(account), urls=urls).status == 200
    for _ in range(4):
        assert attempt(directory.dn(account), PASSWORD).body["ok"], "nor do right ones"
    for _ in range(4):
        assert attempt(directory.dn(account), caCertificate=None).body["servers"][0]["fault"] == "tls"
    assert attempt(directory.dn(account)).status == 200
    assert counted(directory, account) == 1


def test_saved_ones_count_too(
    connection: DirectoryConnection, directory: Directory, domain: Domain, account: UUID, tester: Console
) -> None:
    row = make_connection(domain, bind_dn=directory.dn(account), bind_password="wrong")
    assert tester.post(f"/rest/directories/{connection.pk}/test").body["ok"]
    for _ in range(3):
        told = tester.submit(f"/console/connections/{row.pk}/test").body.decode()
        assert "refuses the bind name or the password" in told
    assert outcome(tester.post(f"/rest/directories/{row.pk}/test")) == TOO_MANY
    assert tester.submit(f"/console/connections/{row.pk}/test").status == 429
    assert counted(directory, account) == 3


def test_a_refused_password_is_tried_once(domain: Domain, directory: Directory, account: UUID, tester: Console) -> None:
    row = make_connection(domain, bind_dn=directory.dn(account), bind_password="wrong")
    for _ in range(3):
        refused = make_integration(row).get("/api/ad/users")
        assert (refused.status, "refuses the gateway's own account" in refused.body["detail"]) == (503, True)
        # As another process, and as this one after a restart.
        DirectoryConnection.objects.filter(pk=row.pk).update(revision=row.revision + 1)
        forget(row)
    assert counted(directory, account) == 1

    set_password(directory, account, "wrong")
    forget(row)
    assert make_integration(row).get("/api/ad/users").status == 503, "nobody has asked for it"
    assert tester.post(f"/rest/directories/{row.pk}/test").body["ok"]
    forget(row)
    assert make_integration(row).get("/api/ad/users").status == 200


def set_password(directory: Directory, account: UUID, password: str) -> None:
    directory.modify(account, unicodePwd=f'"{password}"'.encode("utf-16-le"))


def forget(row: DirectoryConnection) -> None:
    """Close the client of this process, so that the next one begins as another process does."""
    known = clients._clients.pop(row.pk, None)
    if known is not None:
        known.client.close()


def test_a_new_password_is_tried_at_once(domain: Domain, directory: Directory, account: UUID, tester: Console) -> None:
    row = make_connection(domain, bind_dn=directory.dn(account), bind_password="wrong")
    make_integration(row).get("/api/ad/users")
    path = f"/rest/directories/{row.pk}"
    assert tester.patch(path, {"bindPassword": PASSWORD}).status == 200
    assert tester.post(f"{path}/test").body["ok"]
    forget(row)
    assert make_integration(row).get("/api/ad/users").status == 200


def test_many_new_passwords_lock_nothing(
    connection: DirectoryConnection, domain: Domain, directory: Directory, account: UUID, tester: Console
) -> None:
    """Who may change a connection tries passwords by doing so."""
    assert tester.post(f"/rest/directories/{connection.pk}/test").body["ok"]
    row = make_connection(domain, bind_dn=directory.dn(account), bind_password="wrong")
    key = make_integration(row)
    for number in range(8):
        assert tester.patch(f"/rest/directories/{row.pk}", {"bindPassword": f"wrong {number}"}).status == 200
        forget(row)
        assert key.get("/api/ad/users").status == 503
    assert counted(directory, account) == 4
    assert directory.can_sign_in(account, PASSWORD)


def test_nobody_keeps_out_the_password_that_works(
    domain: Domain, directory: Directory, account: UUID, tester: Console, attempt: Callable[..., Answer]
) -> None:
    row = make_connection(domain, bind_dn=directory.dn(account), bind_password=PASSWORD)
    key = make_integration(row)
    assert key.get("/api/ad/users").status == 200
    for _ in range(5):
        last = attempt(directory.dn(account))
    assert outcome(last) == TOO_MANY
    for _ in range(3):
        forget(row)
        assert key.get("/api/ad/users").status == 200
        assert tester.post(f"/rest/directories/{row.pk}/test").body["ok"]


def test_a_refused_password_is_tried_again_after_a_while(
    transactional_db: None, domain: Domain, directory: Directory, account: UUID
) -> None:
    row = make_connection(domain, bind_dn=directory.dn(account), bind_password="wrong")
    key = make_integration(row)
    assert key.get("/api/ad/users").status == 503
    set_password(directory, account, "wrong")
    for passed, status in ((timedelta(hours=5), 503), (timedelta(hours=1), 200)):
        BindPassword.objects.update(refused_at=F("refused_at") - passed)
        PasswordAttempt.objects.update(at=F("at") - passed)
        forget(row)
        assert key.get("/api/ad/users").status == status


@contextmanager
def two_hosts(folder: Path) -> Iterator[list[LiveGateway]]:
    gateways = [gateway_at(folder / str(number), processes=number) for number in (1, 2)]
    try:
        for gateway in gateways:
            gateway.web.start_and_wait()
        yield gateways
    finally:
        for gateway in gateways:
            gateway.stop()


def test_two_hosts_together(
    transactional_db: None,
    redis_server: None,
    domain: Domain,
    directory: Directory,
    organizational_unit: str,
    tmp_path: Path,
) -> None:
    """All routes at once, and a connection with a wrong password for the account besides."""
    working = make_connection(domain)
    key, console = make_integration(working), Console(make_person(superuser=True))
    as_key = {key.header: key.value, "X-Client-Id": key.client_id or ""}
    with two_hosts(tmp_path) as hosts:
        for host in hosts:
            assert host.request("GET", "/api/ad/users?q=nobody", headers=as_key)[0] == 200
        for threshold in (3, 0):
            guid = directory.add_user(parent=organizational_unit, password=PASSWORD, sAMAccountName=random_name("s"))
            asked = routes(domain, directory, guid, working, console, as_key)
            with locking_policy(directory, guid, threshold=threshold) if threshold else nullcontext():
                statuses = flood(hosts, asked)
                if threshold:
                    assert 0 < counted(directory, guid) < threshold
                    assert directory.text(guid, "lockoutTime") in (None, "0")
                    assert 429 in statuses
                assert directory.can_sign_in(guid, PASSWORD)
        for host in hosts:
            assert host.request("GET", "/api/ad/users?q=nobody", headers=as_key)[0] == 200


Asked = tuple[str, str, Any, dict[str, str]]


def routes(
    domain: Domain,
    directory: Directory,
    guid: UUID,
    working: DirectoryConnection,
    console: Console,
    as_key: dict[str, str],
) -> list[Asked]:
    """Every way of trying a password of the account, with a wrong one."""
    dn, name = directory.dn(guid), directory.text(guid, "sAMAccountName")
    broken = make_connection(domain, name=random_name("Broken"), bind_dn=dn, bind_password="stored and wrong")
    key = make_integration(broken)
    cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in console.client.cookies.items())
    rest = {"Cookie": cookies, "X-CSRFToken": console.token}
    wrong = {"currentPassword": "Not-Hers-1", "newPassword": "Engine-Number-2"}
    signing_in = {"username": name, "password": "wrong", "directory": working.name}
    return [
        ("POST", f"/api/ad/users/{guid}/change-password", wrong, as_key),
        ("POST", "/rest/session", signing_in, {}),
        ("POST", "/rest/directories/test", body_for(domain, name="New", bindDn=dn, bindPassword=WRONG), rest),
        ("POST", f"/rest/directories/{broken.pk}/test", None, rest),
        ("GET", "/api/ad/users?q=nobody", None, {key.header: key.value, "X-Client-Id": key.client_id or ""}),
    ]


def flood(hosts: list[LiveGateway], asked: list[Asked]) -> set[int]:
    """The statuses of all of them, four times each over the hosts."""

    def ask(number: int) -> int:
        method, path, body, headers = asked[number % len(asked)]
        return hosts[number // len(asked) % len(hosts)].request(method, path, body=body, headers=headers)[0]

    with ThreadPoolExecutor(6) as pool:
        return set(pool.map(ask, range(4 * len(asked))))
