"""Who has left the directory has left the gateway: sessions, tokens and keys end, whoever finds it out first."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission
from django.contrib.sessions.models import Session
from django.db import connection as database
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from active_directory import Client as LdapClient
from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from gateway import pipeline, tasks
from keys.models import ApiKey, Person, PersonSession, Role
from keys.people import account_status
from lab.directory import PASSWORD, Directory, filetime, random_name
from lab.domain import Domain
from lab.proxy import FaultyProxy
from lab.samba.database import age_passwords
from tests.directory.supervised import approve_only
from tests.support.cast import Answer, Console, Integration, make_connection, make_integration, make_person, send
from tests.support.configuration import Configure

NEW_PASSWORD = "Another-Horse-10"


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain, name="corp")


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user(
        "Ada Lovelace", parent=organizational_unit, password=PASSWORD, sAMAccountName="ada.lovelace"
    )


@pytest.fixture(autouse=True)
def directories_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds a directory taken for silent because another one's was."""
    monkeypatch.setattr(account_status, "_lookups", {})


class Ada:
    """A person of the directory with all that they can hold: a session, a token of it, and a key."""

    def __init__(self, connection: DirectoryConnection) -> None:
        self.browser = Client()
        signed_in = sign_in(self.browser)
        assert signed_in.status == 200, signed_in
        self.person = Person.objects.get(connection=connection)
        self.person.user_permissions.set(Permission.objects.filter(content_type__app_label__in=("directory", "keys")))
        headers = {"X-CSRFToken": signed_in.body["csrfToken"]}
        self.token = send(self.browser, "POST", "/rest/session/access-token", **headers).body["accessToken"]
        self.integration = make_integration(connection, owner=self.person)

    def holds(self) -> tuple[int, int, int]:
        """What session, token and key are answered with."""
        session = send(self.browser, "GET", "/rest/session")
        token = send(Client(), "GET", "/api/me", Authorization=f"Bearer {self.token}")
        return session.status, token.status, self.integration.get("/api/me").status

    def was_looked_up(self, ago: timedelta) -> None:
        """The last look was so long ago."""
        Person.objects.filter(pk=self.person.pk).update(directory_checked_at=timezone.now() - ago)

    def now(self) -> Person:
        return Person.objects.get(pk=self.person.pk)


def set_password(directory: Directory, account: UUID) -> None:
    """As a help desk does."""
    directory.modify(account, unicodePwd=f'"{NEW_PASSWORD}"'.encode("utf-16-le"))


def sign_in(browser: Client, password: str = PASSWORD, username: str = "ada.lovelace") -> Answer:
    body = {"username": username, "password": password, "directory": "corp"}
    return send(browser, "POST", "/rest/session", body)


def records(person: Person) -> list[tuple[str, str, str]]:
    found = OperationRecord.objects.filter(target_id=person.public_id, surface="worker").order_by("id")
    return [(record.operation, record.owner, record.reason.partition(": ")[2]) for record in found]


@pytest.fixture
def her(connection: DirectoryConnection, ada: UUID) -> Ada:
    return Ada(connection)


MINUTE = timedelta(seconds=61)

LEAVING: dict[str, Callable[[Directory, UUID, str], object]] = {
    "disabled": lambda directory, ada, _: directory.modify(ada, userAccountControl="514"),
    "expired": lambda directory, ada, _: directory.modify(ada, accountExpires=filetime(-60)),
    "does not exist": lambda directory, ada, _: directory.delete(ada),
}


@pytest.mark.parametrize("way", LEAVING)
@pytest.mark.parametrize("found_by", ["key", "session", "token", "sweep"])
def test_who_left_is_out(
    way: str, found_by: str, her: Ada, directory: Directory, ada: UUID, organizational_unit: str
) -> None:
    assert her.holds() == (200, 200, 200)
    LEAVING[way](directory, ada, organizational_unit)
    assert her.holds() == (200, 200, 200)  # the last look is not a minute ago
    her.was_looked_up(MINUTE)
    match found_by:
        case "key":
            assert her.integration.get("/api/me").status == 401
        case "session":
            assert send(her.browser, "GET", "/rest/session").status == 401
        case "token":
            assert send(Client(), "GET", "/api/me", Authorization=f"Bearer {her.token}").status == 401
        case "sweep":
            tasks.check_people()
    assert not her.now().is_active
    ((operation, owner, reason),) = records(her.person)
    assert (operation, owner) == ("people.deactivate", "(gateway)")
    assert way in reason
    assert not PersonSession.objects.filter(person=her.person).exists()
    # Nothing comes back to life with the person.
    Person.objects.filter(pk=her.person.pk).update(is_active=True, directory_checked_at=timezone.now())
    assert her.holds() == (401, 401, 200)


def test_who_has_the_same_name_is_somebody_else(
    her: Ada, directory: Directory, ada: UUID, organizational_unit: str
) -> None:
    directory.delete(ada)
    directory.add_user("Ada Lovelace", parent=organizational_unit, password=PASSWORD, sAMAccountName="ada.lovelace")
    her.was_looked_up(MINUTE)
    assert her.holds() == (401, 401, 401)
    another = Client()
    answer = sign_in(another)
    assert (answer.status, answer.body["user"]["permissions"]) == (200, [])
    assert not her.now().is_active


def test_who_was_moved_out_of_the_base_is_out(
    db: None, domain: Domain, directory: Directory, organizational_unit: str, ada: UUID
) -> None:
    """They could not sign in either."""
    her = Ada(make_connection(domain, name="corp", base_dn=organizational_unit))
    elsewhere = directory.add_unit(random_name("elsewhere"))
    try:
        directory.move(ada, parent=elsewhere)
        her.was_looked_up(MINUTE)
        assert her.holds() == (401, 401, 401)
    finally:
        directory.delete(directory.guid(elsewhere), recursive=True)


STAYING: dict[str, Callable[[Directory, Domain, UUID], object]] = {
    "locked out": lambda directory, _, ada: directory.modify(ada, lockoutTime=filetime(-1)),
    "password expired": lambda directory, domain, ada: age_passwords(domain, directory, {ada: 1000}),
    "renamed": lambda directory, _, ada: directory.modify(ada, sAMAccountName="ada.king"),
    "expires later": lambda directory, _, ada: directory.modify(ada, accountExpires=filetime(3600)),
}


@pytest.mark.parametrize("way", STAYING)
def test_who_stays_is_not_out(way: str, her: Ada, domain: Domain, directory: Directory, ada: UUID) -> None:
    STAYING[way](directory, domain, ada)
    her.was_looked_up(MINUTE)
    assert her.holds() == (200, 200, 200)
    assert timezone.now() - her.now().directory_checked_at < MINUTE
    assert not records(her.person)


CHANGED: dict[str, Callable[[Directory, UUID], object]] = {
    "reset": set_password,
    "must be changed": lambda directory, ada: directory.modify(ada, pwdLastSet="0"),
}


@pytest.mark.parametrize("way", CHANGED)
@pytest.mark.parametrize("found_by", ["request", "sweep"])
def test_a_new_password_ends_sessions_and_tokens_but_no_keys(
    way: str, found_by: str, her: Ada, directory: Directory, ada: UUID
) -> None:
    CHANGED[way](directory, ada)
    her.was_looked_up(MINUTE)
    if found_by == "sweep":
        tasks.check_people()
    assert her.integration.get("/api/me").status == 200
    assert her.holds() == (401, 401, 200)
    assert her.now().is_active
    assert [record[0] for record in records(her.person)] == ["people.end-sessions"]


def test_signing_in_with_a_new_password_ends_the_sessions_of_the_old_one(
    her: Ada, directory: Directory, ada: UUID
) -> None:
    set_password(directory, ada)
    browser = Client()
    assert sign_in(browser, NEW_PASSWORD).status == 200
    assert her.holds() == (401, 401, 200)
    assert send(browser, "GET", "/rest/session").status == 200
    her.was_looked_up(MINUTE)
    assert send(browser, "GET", "/rest/session").status == 200


def test_one_look_in_a_minute(her: Ada, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    read_many = LdapClient.read_many

    def count(self: LdapClient, *arguments: Any, **more: Any) -> Any:
        looks.append(arguments)
        return read_many(self, *arguments, **more)

    monkeypatch.setattr(LdapClient, "read_many", count)
    assert her.holds() == (200, 200, 200)
    assert looks == []
    her.was_looked_up(MINUTE)
    for _ in range(3):
        assert her.holds() == (200, 200, 200)
    assert len(looks) == 1
    tasks.check_people()
    assert her.holds() == (200, 200, 200)
    assert len(looks) == 2


@pytest.mark.django_db(transaction=True)  # within a transaction nothing is kept
def test_after_a_look_a_key_is_used_without_another_question(her: Ada) -> None:
    """A process that keeps facts of a key from before the look reads them anew, once."""
    her.was_looked_up(MINUTE)
    Role.objects.update(name=random_name("role"))  # so that what is kept is read now, and tells of the old look
    for _ in range(2):
        assert her.integration.get("/api/me").status == 200
    with CaptureQueriesContext(database) as queries:
        assert her.integration.get("/api/me").status == 200
    assert [query["sql"] for query in queries if "directory_checked_at" in query["sql"]] == []


def test_many_are_looked_up_together(
    her: Ada, connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    people = []
    for number in range(3):
        account = directory.add_user(parent=organizational_unit, password=PASSWORD, enabled=number > 0)
        person = Person.objects.create(username=f"corp\\{number}", connection=connection, object_guid=account)
        make_integration(connection, owner=person)
        people.append(person.pk)
    tasks.check_people()
    assert set(Person.objects.filter(is_active=False).values_list("pk", flat=True)) == {people[0]}


# Coming back


def test_who_can_sign_in_again_is_active_again(her: Ada, directory: Directory, ada: UUID) -> None:
    directory.modify(ada, userAccountControl="514")
    tasks.check_people()
    assert her.holds() == (401, 401, 401)
    assert sign_in(Client()).status == 401
    directory.modify(ada, userAccountControl="512")
    assert her.holds() == (401, 401, 401)  # not before they sign in
    assert sign_in(Client(), "wrong").status == 401
    assert not her.now().is_active
    assert sign_in(Client()).status == 200
    assert her.holds() == (401, 401, 200)
    assert [record[0] for record in records(her.person)] == ["people.deactivate", "people.activate"]


@pytest.mark.parametrize("left_before", [True, False])
def test_whom_an_administrator_deactivated_stays_out(
    her: Ada, directory: Directory, ada: UUID, left_before: bool
) -> None:
    if left_before:
        directory.modify(ada, userAccountControl="514")
        tasks.check_people()
        directory.modify(ada, userAccountControl="512")
    administrator = Console(make_person(superuser=True))
    answer = administrator.patch(f"/rest/users/{her.person.public_id}", {"active": False})
    assert answer.status == 200
    assert sign_in(Client()).status == 401
    assert not her.now().is_active


def through_rest(administrator: Console, person: Person, active: bool) -> None:
    assert administrator.patch(f"/rest/users/{person.public_id}", {"active": active}).status == 200


def by_hand(_: Console, person: Person, active: bool) -> None:
    person = Person.objects.get(pk=person.pk)
    person.is_active = active
    person.save()


@pytest.mark.parametrize("way", [through_rest, by_hand])
@pytest.mark.parametrize("kind", ["local", "of a directory"])
def test_no_session_comes_back_with_its_person(
    way: Callable[[Console, Person, bool], None], kind: str, request: pytest.FixtureRequest, db: None
) -> None:
    administrator = Console(make_person(superuser=True))
    if kind == "local":
        theirs = Console(make_person())
        person, browser = theirs.person, theirs.client
        token = theirs.post("/rest/session/access-token").body["accessToken"]
    else:
        her: Ada = request.getfixturevalue("her")
        person, browser, token = her.person, her.browser, her.token
    way(administrator, person, False)
    way(administrator, person, True)
    assert Person.objects.get(pk=person.pk).is_active
    assert send(browser, "GET", "/rest/session").status == 401
    assert send(Client(), "GET", "/api/me", Authorization=f"Bearer {token}").status == 401


def test_a_second_step_does_not_outlive_a_deactivation(her: Ada) -> None:
    """The password was right before the person was deactivated and activated again."""
    step = her.now().get_session_auth_hash()
    by_hand(Console(make_person(superuser=True)), her.person, False)
    by_hand(Console(make_person(superuser=True)), her.person, True)
    assert her.now().get_session_auth_hash() != step


# Keys


def test_no_key_for_who_left(her: Ada, directory: Directory, ada: UUID) -> None:
    administrator = Console(make_person(superuser=True))
    role = Role.objects.create(name=random_name("role"))
    body = {"name": "new", "owner": her.person.username, "role": str(role.id)}
    rotate = f"/rest/api-keys/{her.integration.key.id}/rotate"
    assert administrator.post("/rest/api-keys", body).status == 201
    assert administrator.post(rotate, {}).status == 200
    keys, digest = ApiKey.objects.count(), ApiKey.objects.get(pk=her.integration.key.pk).digest
    directory.modify(ada, userAccountControl="514")  # looked up now, not within a minute
    for answer in (administrator.post("/rest/api-keys", body), administrator.post(rotate, {})):
        assert answer.status == 409, answer
        assert "disabled in the directory" in answer.body["detail"]
    fields = {"name": "new", "owner": her.person.username, "role": str(role.id), "supervisionLevel": "act"}
    assert administrator.submit("/admin/keys/apikey/add/", **fields).status == 409
    assert ApiKey.objects.count() == keys
    assert ApiKey.objects.get(pk=her.integration.key.pk).digest == digest


def test_an_approved_change_of_who_left(her: Ada, connection: DirectoryConnection, directory: Directory) -> None:
    target = directory.add_user(parent=directory.dn(her.person.object_guid or "").partition(",")[2])
    key = make_integration(connection, owner=her.person, level=SupervisionLevel.ASK_EVERY_CHANGE)
    request = approve_only(key.patch(f"/api/ad/users/{target}", {"replace": {"title": "x"}}))
    assert her.person.object_guid is not None
    directory.modify(her.person.object_guid, userAccountControl="514")
    her.was_looked_up(MINUTE)
    pipeline.apply_change_request(request.id)
    request.refresh_from_db()
    assert request.status == "failed"
    assert directory.text(target, "title") is None


# A directory that does not answer


@pytest.fixture
def far(db: None, domain: Domain, directory_proxy: FaultyProxy, ada: UUID, configure: Configure) -> Ada:
    configure("Directory", OwnerCheckGraceMinutes=15)
    return Ada(make_connection(domain, name="corp", url=directory_proxy.url))


def test_keys_go_on_for_the_time_of_grace(far: Ada, directory_proxy: FaultyProxy) -> None:
    directory_proxy.close()
    far.was_looked_up(timedelta(minutes=14))
    assert far.holds() == (200, 200, 200)
    tasks.check_people()
    assert far.now().is_active
    far.was_looked_up(timedelta(minutes=16))
    # A key is not at fault: its integration is to come back. A browser is sent to sign in.
    assert far.holds() == (401, 503, 503)
    answer = far.integration.get("/api/me")
    assert answer.code == "AD.Directory.Unavailable"
    assert int(answer.headers["Retry-After"]) > 0
    assert far.now().is_active
    assert Session.objects.exists()  # not ended: it goes on when the directory answers again


def test_the_time_of_grace_is_configured(far: Ada, directory_proxy: FaultyProxy, configure: Configure) -> None:
    directory_proxy.close()
    configure("Directory", OwnerCheckGraceMinutes=60)
    far.was_looked_up(timedelta(minutes=59))
    assert far.holds() == (200, 200, 200)


def test_nobody_new_comes_in_meanwhile(far: Ada, directory_proxy: FaultyProxy) -> None:
    directory_proxy.close()
    assert sign_in(Client()).status == 503
    administrator = Console(make_person(superuser=True))
    assert administrator.post(f"/rest/api-keys/{far.integration.key.id}/rotate", {}).status == 503


def test_a_silent_directory_is_not_asked_by_each_request(
    far: Ada, directory_proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    read = account_status._read

    def count(*arguments: Any) -> Any:
        looks.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(account_status, "_read", count)
    monkeypatch.setattr(account_status, "_SILENT_SECONDS", 600.0)
    directory_proxy.close()
    far.was_looked_up(timedelta(minutes=5))
    for _ in range(3):
        assert far.holds() == (200, 200, 200)
    assert len(looks) == 1


def test_what_cannot_be_read_deactivates_nobody(
    her: Ada, monkeypatch: pytest.MonkeyPatch, integration: Integration
) -> None:
    """An account of which the gateway's own may not read enough: nothing is learned of it."""
    monkeypatch.setattr(account_status, "ATTRIBUTES", ("objectGUID",))
    her.was_looked_up(timedelta(minutes=5))
    assert her.holds() == (200, 200, 200)
    her.was_looked_up(timedelta(minutes=16))
    assert her.holds() == (401, 503, 503)
    assert her.now().is_active
    assert integration.get("/api/me").status == 200  # a local account's
