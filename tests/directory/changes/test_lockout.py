"""No route lets wrong passwords lock an account of the domain: those of all routes are counted together."""

import ast
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.db import connections
from django.test import Client

from audit.models import OperationRecord
from core.configuration_sections import RateLimit
from directory.models import DirectoryConnection
from lab.commands import PROJECT
from lab.directory import PASSWORD, Directory
from lab.domain import Domain
from tests.keys.sign_in.locking import locking_policy
from tests.support.cast import Console, Integration, make_connection, make_integration, make_person, send
from tests.support.house import sources

WRONG = {"currentPassword": "Not-Hers-1", "newPassword": "Engine-Number-2"}


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> Iterator[UUID]:
    """Her own policy locks her account at the fifth wrong password within half an hour."""
    guid = directory.add_user(parent=organizational_unit, password=PASSWORD, sAMAccountName="ada.locked")
    with locking_policy(directory, guid):
        yield guid


def path(guid: UUID, root: str = "/api") -> str:
    return f"{root}/ad/users/{guid}/change-password"


def counted(directory: Directory, account: UUID) -> int:
    return int(directory.text(account, "badPwdCount") or 0)


def test_all_routes_together_stay_below_the_threshold(
    connection: DirectoryConnection, integration: Integration, directory: Directory, ada: UUID
) -> None:
    console = Console(make_person(may=["directory.change_password"]))
    body = {"username": "ada.locked", "password": "wrong", "directory": connection.name}
    assert send(Client(), "POST", "/rest/session", body).status == 401
    assert integration.post(path(ada), WRONG).code == "AD.Password.CurrentWrong"
    assert console.post(path(ada, "/rest"), WRONG).code == "AD.Password.CurrentWrong"
    for answer in (
        integration.post(path(ada), WRONG),
        make_integration(connection).post(path(ada), WRONG),
        console.post(path(ada, "/rest"), WRONG),
        integration.post(f"{path(ada)}?dryRun=true", WRONG),
    ):
        assert (answer.status, answer.code) == (429, "AD.Password.TooManyWrong")
        assert 1 <= int(answer.headers["Retry-After"]) <= 1801
    assert send(Client(), "POST", "/rest/session", {**body, "password": PASSWORD}).status == 401
    assert counted(directory, ada) == 3
    assert directory.can_sign_in(ada, PASSWORD)
    refused = OperationRecord.objects.filter(operation="users.change-password", code="AD.Password.TooManyWrong")
    assert refused.count() >= 3


def test_wrong_passwords_elsewhere_count(integration: Integration, directory: Directory, ada: UUID) -> None:
    for _ in range(3):
        assert not directory.can_sign_in(ada, "of an old telephone")
    assert integration.post(path(ada), WRONG).code == "AD.Password.TooManyWrong"
    assert counted(directory, ada) == 3


def test_a_right_password_begins_anew(integration: Integration, directory: Directory, ada: UUID) -> None:
    for _ in range(2):
        assert integration.post(path(ada), WRONG).code == "AD.Password.CurrentWrong"
    assert integration.post(path(ada), {**WRONG, "currentPassword": PASSWORD}).status == 204
    assert directory.can_sign_in(ada, WRONG["newPassword"])


def test_many_at_once_do_not_lock_the_account(
    transactional_db: None, domain: Domain, directory: Directory, ada: UUID
) -> None:
    integration = make_integration(make_connection(domain))

    def try_one(_: int) -> int:
        try:
            return integration.post(path(ada), WRONG).status
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(try_one, range(12))) <= {422, 429}
    assert counted(directory, ada) == 3
    assert directory.can_sign_in(ada, PASSWORD)


def test_nothing_else_tries_a_password() -> None:
    """Binds as somebody, and the one primitive for writes, stay where attempts are counted."""
    places: dict[str, set[str]] = {name: set() for name in ("authenticate", "open_connection", "write_many", "write")}
    for file in sources():
        name = file.relative_to(PROJECT).as_posix()
        if name.startswith("active_directory/"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and any(name.name == "open_connection" for name in node.names):
                places["open_connection"].add(name)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in places:
                of = ast.unparse(node.func.value)
                if node.func.attr == "authenticate" or of in ("client", "here", "self._client", "self.client"):
                    places[node.func.attr].add(name)
    assert places == {
        # The rotation finds out which of the gateway's own two passwords its account has, by `bind_attempts`.
        "authenticate": {
            "keys/sign_in/credentials.py",
            "directory/changes/bind_password_rotation.py",
            "directory/queries/bind_attempts.py",
        },
        # `use_opener` exchanges it as the process starts.
        "open_connection": {"directory/lookup/connection.py", "directory/queries/bind_attempts.py"},
        "write_many": {"directory/outcomes/writer.py"},
        "write": {"directory/outcomes/writer.py"},
    }


def test_one_credential_tries_few_accounts(
    connection: DirectoryConnection,
    integration: Integration,
    directory: Directory,
    organizational_unit: str,
    configure: Any,
    limited: None,
) -> None:
    few = RateLimit(Requests=2, WindowSeconds=3600)
    many = RateLimit(Requests=1000, WindowSeconds=60)
    configure("RateLimiting", Enabled=True, WrongPasswordTargets=few, Global=many, PasswordChange=many)
    accounts = [directory.add_user(parent=organizational_unit, password=PASSWORD) for _ in range(3)]
    for account in accounts[:2]:
        assert integration.post(path(account), WRONG).code == "AD.Password.CurrentWrong"
    refused = integration.post(path(accounts[2]), WRONG)
    assert (refused.status, refused.code) == (429, "RateLimit.Exceeded")
    assert 3500 < int(refused.headers["Retry-After"]) <= 3601
    assert counted(directory, accounts[2]) == 0
    assert integration.post(path(accounts[0]), WRONG).code == "AD.Password.CurrentWrong"
    assert make_integration(connection).post(path(accounts[2]), WRONG).code == "AD.Password.CurrentWrong"
