"""What a sign-in costs does not tell which names exist: the same is asked of the directory, the same is hashed."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.hashers import ScryptPasswordHasher, make_password
from django.test import Client

from active_directory import Client as LdapClient
from directory.models import DirectoryConnection
from keys.models import Person
from lab.directory import PASSWORD, Directory
from lab.domain import Domain
from tests.keys.sign_in.locking import locking_policy
from tests.support.cast import make_connection, make_person, send

ASKED = ["search", "read", "read", "read", "authenticate"]
WRONG = "wrong"
NAMES = ("ada.lovelace", "CORP\\ada.lovelace", "nobody", "nobody@corp.example.test", "Ada Lovelace")


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain, name="corp")


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user(parent=organizational_unit, password=PASSWORD, sAMAccountName="ada.lovelace")


@pytest.fixture
def own_policy(directory: Directory, ada: UUID) -> Iterator[None]:
    """A fine-grained policy of Ada's, which locks at the fifth failure where the domain never does."""
    with locking_policy(directory, ada):
        yield


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the directory is asked, by kind."""
    kinds: list[str] = []

    def counting(kind: str) -> Callable[..., Any]:
        original = getattr(LdapClient, kind)

        def ask(self: LdapClient, *arguments: Any, **more: Any) -> Any:
            kinds.append(kind)
            return original(self, *arguments, **more)

        return ask

    for kind in ("search", "read", "authenticate"):  # `find` reads
        monkeypatch.setattr(LdapClient, kind, counting(kind))
    return kinds


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords hashed."""
    passwords: list[str] = []
    encode = ScryptPasswordHasher.encode

    def count(self: ScryptPasswordHasher, password: str, *arguments: Any, **more: Any) -> str:
        passwords.append(password)
        return encode(self, password, *arguments, **more)

    monkeypatch.setattr(ScryptPasswordHasher, "encode", count)
    return passwords


def try_to_sign_in(username: str, password: str = WRONG, directory: str | None = "corp") -> None:
    body = {"username": username, "password": password, **({"directory": directory} if directory else {})}
    assert send(Client(), "POST", "/rest/session", body).status == 401


def work_of(asked: list[str], username: str, password: str = WRONG) -> list[str]:
    asked.clear()
    try_to_sign_in(username, password)
    return list(asked)


def test_a_wrong_password_costs_what_an_unknown_name_costs(
    connection: DirectoryConnection, ada: UUID, asked: list[str]
) -> None:
    try_to_sign_in("warms.up")
    assert {name: work_of(asked, name) for name in NAMES} == dict.fromkeys(NAMES, ASKED)


def test_so_it_does_when_the_account_has_a_policy_of_its_own(
    connection: DirectoryConnection, ada: UUID, own_policy: None, asked: list[str]
) -> None:
    try_to_sign_in("warms.up")
    unknown = work_of(asked, "nobody")
    for _ in range(5):  # from the fourth on it is spared the domain's count
        assert sorted(work_of(asked, "ada.lovelace")) == sorted(unknown)


def test_so_it_does_when_the_account_cannot_sign_in(
    connection: DirectoryConnection, directory: Directory, ada: UUID, asked: list[str]
) -> None:
    try_to_sign_in("warms.up")
    unknown = work_of(asked, "nobody")
    directory.modify(ada, userAccountControl="514")
    assert work_of(asked, "ada.lovelace", PASSWORD) == unknown


LOCAL: dict[str, Callable[[], object]] = {
    "with a password": lambda: make_person("known"),
    "inactive": lambda: Person.objects.create(username="known", password=make_password(PASSWORD), is_active=False),
    "without a password": lambda: Person.objects.create(username="known", password=make_password(None)),
    "unknown": lambda: None,
}


@pytest.mark.parametrize("kind", LOCAL)
def test_one_hash_for_every_local_name(kind: str, db: None, hashed: list[str]) -> None:
    LOCAL[kind]()
    hashed.clear()
    try_to_sign_in("known", "wrong", None)
    assert len(hashed) == 1


def test_a_person_of_a_directory_is_no_local_name(
    connection: DirectoryConnection, ada: UUID, hashed: list[str]
) -> None:
    Person.objects.create(username="corp\\ada", connection=connection, object_guid=ada, password=make_password(None))
    hashed.clear()
    try_to_sign_in("ada", "wrong", None)
    assert len(hashed) == 1
