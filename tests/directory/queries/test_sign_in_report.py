"""Why a user cannot sign in: what the directory decides by, told of it as a whole, on the real domain."""

from concurrent.futures import FIRST_COMPLETED, Future, wait
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from directory.models import DirectoryConnection
from directory.queries import domain_controllers
from lab.directory import PASSWORD, Directory, filetime
from lab.domain import Domain
from lab.proxy import FaultyProxy
from tests.support.cast import Console, make_connection, make_integration, make_person

pytestmark = pytest.mark.django_db

HOUR = 3600
DAY = 24 * HOUR


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each domain controller is heard, however long a busy machine lets it take."""
    monkeypatch.setattr(domain_controllers, "ANSWER_SECONDS", 120.0)
    monkeypatch.setattr(domain_controllers, "_CONNECT_SECONDS", 120.0)


@pytest.fixture
def helpdesk(connection: DirectoryConnection) -> Console:
    return Console(make_person(may=["directory.read_object"]))


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Ada Lovelace", parent=organizational_unit, password=PASSWORD)


def report_on(console: Console, user: UUID) -> dict:
    answer = console.get(f"/rest/ad/users/{user}/sign-in-report")
    assert answer.status == 200, answer
    return answer.body


def codes(report: dict) -> set[str]:
    return {item["code"] for item in report["obstacles"]}


def test_it_works(
    connection: DirectoryConnection, helpdesk: Console, directory: Directory, domain: Domain, ada: UUID
) -> None:
    directory.modify(ada, lastLogon=filetime(-DAY), lastLogonTimestamp=filetime(-2 * DAY))
    report = report_on(helpdesk, ada)
    assert report["obstacles"] == []
    assert (report["enabled"], report["lockOut"], report["expiresAt"]) == (True, None, None)
    assert report["password"]["policy"]["source"] == directory.base_dn
    assert report["password"]["setAt"] < report["password"]["expiresAt"]
    assert (report["allowedHours"], report["workstations"]) == (None, [])
    assert report["lastSignInIsExact"]
    program = make_integration(connection, may=["directory.read_object"])
    assert program.get(f"/api/ad/users/{ada}/sign-in-report").body.keys() == report.keys()
    (server,) = report["servers"]
    assert (server["url"], server["isPrimary"], server["problem"]) == (domain.url, True, None)
    assert server["server"].endswith("corp.example.test")
    assert server["badPasswordCount"] == 0
    assert report["serversNotAsked"] == 0


def test_a_lock_out_is_told_with_its_beginning_its_end_and_the_wrong_passwords(
    helpdesk: Console, directory: Directory, ada: UUID
) -> None:
    directory.lock_out(ada)
    report = report_on(helpdesk, ada)
    assert codes(report) == {"lockedOut"}
    since, until = (datetime.fromisoformat(report["lockOut"][name]) for name in ("since", "until"))
    assert until - since == timedelta(seconds=report["password"]["policy"]["lockoutSeconds"])
    assert since < datetime.now(UTC) < until
    (server,) = report["servers"]
    assert server["badPasswordCount"] >= report["password"]["policy"]["lockoutThreshold"]
    assert server["lastBadPasswordAt"] <= server["lockedOutSince"] == report["lockOut"]["since"]


def test_what_else_keeps_somebody_out(helpdesk: Console, directory: Directory, organizational_unit: str) -> None:
    now = datetime.now(UTC)
    # All hours of the week but this one and the next: bit 0 is the first of Sunday.
    first = (now.isoweekday() % 7) * 24 + now.hour
    bits = (1 << 168) - 1 & ~(1 << first) & ~(1 << (first + 1) % 168)
    user = directory.add_user(
        parent=organizational_unit,
        enabled=False,
        accountExpires=filetime(-DAY),
        pwdLastSet="0",
        logonHours=bits.to_bytes(21, "little"),
        userWorkstations="ENGINE1, ENGINE2",
        lastLogonTimestamp=filetime(-3 * DAY),
    )
    directory.modify(user, userAccountControl=str(0x10202 | 0x40000))  # a smart card is required
    report = report_on(helpdesk, user)
    expected = {"disabled", "expired", "smartCardRequired", "outsideHours", "workstations"}
    assert codes(report) - {"passwordExpired"} == expected  # whose password never expires does not have to change it
    assert report["workstations"] == ["ENGINE1", "ENGINE2"]
    assert sum(item["to"] - item["from"] for item in report["allowedHours"]) == 166
    assert not report["lastSignInIsExact"]
    assert report["lastSignInAt"] is not None
    directory.modify(user, userAccountControl="514")
    assert "mustChangePassword" in codes(report_on(helpdesk, user))


def test_a_silent_domain_controller_is_reported_and_not_waited_for(
    domain: Domain,
    directory_proxy: FaultyProxy,
    ada: UUID,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wait_for_one(asked: list[Future[Any]], *, timeout: float) -> None:
        assert timeout == domain_controllers.ANSWER_SECONDS
        wait(asked, return_when=FIRST_COMPLETED)

    monkeypatch.setattr(domain_controllers, "wait", wait_for_one)
    make_connection(domain, urls=[domain.url, directory_proxy.url])
    helpdesk = Console(make_person(may=["directory.read_object"]))
    directory_proxy.stall()
    heard, silent = report_on(helpdesk, ada)["servers"]
    assert (heard["problem"], heard["badPasswordCount"]) == (None, 0)
    assert silent["url"] == directory_proxy.url
    assert silent["problem"]
    assert silent["badPasswordCount"] is None
    directory_proxy.restore()


def test_only_users_are_reported_on(helpdesk: Console, directory: Directory, organizational_unit: str) -> None:
    group = directory.add_group(parent=organizational_unit)
    assert helpdesk.get(f"/rest/ad/users/{group}/sign-in-report").code == "AD.Object.NotFound"
