"""Invitations through the front door: who may make a link, what ends it, and what a person does with it."""

import json
import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.core import mail
from django.db import connection as database
from django.test import Client
from structlog.testing import capture_logs

from audit.models import OperationRecord
from core.database import shared_clock
from gateway import tasks
from keys.models import AccessToken, Passkey, Person
from keys.sign_in import invitations, login_throttle
from keys.sign_in.credentials import SignInRefused
from tests.keys.passkey_device import ORIGIN, Device
from tests.support.cast import PASSWORD, Console, make_person, permissions, send
from tests.support.configuration import Configure

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

PHRASE = "a long and unusual phrase"
NOT_GOOD = "This link is not valid, or no longer. Ask whoever invited you for a new one."
READ = "directory.read_object"


class Browser:
    """Of somebody who is not signed in."""

    def __init__(self) -> None:
        self.client = Client(enforce_csrf_checks=True)
        self.client.get("/console/invitation")

    def send(self, link: str, **fields: str) -> Any:
        token = self.client.cookies["csrftoken"].value
        code = link.partition("#")[2]
        return self.client.post("/console/invitation", {"csrfmiddlewaretoken": token, "code": code, **fields})

    def choose(self, link: str, password: str = PHRASE) -> Any:
        return self.send(link, password=password, again=password)

    def is_in(self) -> bool:
        return bool(self.client.get("/rest/session").status_code == 200)


def refused(answer: Any) -> bool:
    text = unescape(answer.content.decode())
    assert (answer.status_code == 403) == (NOT_GOOD in text), text
    return bool(answer.status_code == 403)


@pytest.fixture
def console() -> Console:
    return Console(make_person("grace", superuser=True))


def invite(console: Console, person: Person) -> str:
    made = console.post(f"/rest/users/{person.public_id}/invite")
    assert made.status == 200, made
    return str(made.body["invitationLink"])


def sign_in(username: str, password: str) -> int:
    body = json.dumps({"username": username, "password": password})
    return Client().post("/rest/session", body, content_type="application/json").status_code


def test_it_works(console: Console) -> None:
    """Made without a password, invited, signed in; looking uses nothing up, and nothing of the link is stored."""
    with capture_logs() as logs:
        made = console.post("/rest/users", {"username": "ada", "permissions": [READ]}, **{"Idempotency-Key": "one"})
        link = made.body["invitationLink"]
        again = console.post("/rest/users", {"username": "ada", "permissions": [READ]}, **{"Idempotency-Key": "one"})
        assert (again.status, again.body["invitationLink"]) == (201, None), "a replay shows no secret"
        browser, code = Browser(), link.partition("#")[2]
        assert browser.client.head("/console/invitation").status_code == 405
        assert "You are ada." in browser.send(link).content.decode()
        wrong = browser.send(link, password=PHRASE, again="another").content.decode()
        assert "This is not the same as the password." in wrong
        assert 'id="password-error"' in browser.choose(link, "short").content.decode()
        assert Client(enforce_csrf_checks=True).post("/console/invitation", {"code": code}).status_code == 403
        done = browser.choose(link)
        assert (done.status_code, done["Location"], browser.is_in()) == (302, "/console/", True)
    assert code[64:] not in repr(logs)
    assert any(line["event"] == "invitation used" for line in logs)
    assert refused(Browser().choose(link)), "used"
    assert sign_in("ada", PHRASE) == 200
    recorded = OperationRecord.objects.get(operation="people.update")
    assert (recorded.owner, [change["attribute"] for change in recorded.changes]) == ("ada", ["password"])
    with database.cursor() as cursor:
        cursor.execute("SELECT * FROM audit_operationrecord")
        assert code[64:] not in repr(cursor.fetchall())


def test_what_ends_a_link(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = make_person("ada")
    elsewhere = Console(ada)
    token = elsewhere.post("/rest/session/access-token").body["accessToken"]
    first = invite(console, ada)
    assert elsewhere.get("/rest/session").status == 401, "signed out"
    assert (token is not None, AccessToken.objects.get().revoked_at is not None) == (True, True)
    assert sign_in("ada", PASSWORD) == 401, "the old password ends at once"
    second = invite(console, ada)
    assert refused(Browser().send(first)), "a new one"
    path = f"/rest/users/{ada.public_id}"
    for active in (False, True):
        assert console.patch(path, {"active": active}).status == 200
        assert refused(Browser().send(second)), "deactivated meanwhile"
    third = invite(console, ada)
    assert console.patch(path, {"email": "ada@example.test"}).status == 200
    assert refused(Browser().send(third)), "it may have gone to another address"
    beside = invite(console, ada)
    Person.objects.filter(pk=ada.pk).update(last_login=shared_clock.now())
    assert refused(Browser().send(beside)), "signed in otherwise"
    fourth = invite(console, ada)
    code = fourth.partition("#")[2]
    swapped, altered = code[32:64] + code[:32] + code[64:], code[:-1] + ("1" if code[-1] == "0" else "0")
    for wrong in (swapped, altered, "x" * len(code), ""):
        assert refused(Browser().send(f"#{wrong}"))
    assert not refused(Browser().send(fourth))
    now = shared_clock.now()
    monkeypatch.setattr(shared_clock, "now", lambda: now + timedelta(hours=72, minutes=-1))
    assert not refused(Browser().send(fourth))
    monkeypatch.setattr(shared_clock, "now", lambda: now + timedelta(hours=72, minutes=1))
    assert refused(Browser().send(fourth)), "too old"


def test_of_two_uses_at_once_one_counts(console: Console, rf: Any) -> None:
    ada = make_person("ada")
    invite(console, ada)
    seen = Person.objects.get(pk=ada.pk), Person.objects.get(pk=ada.pk)
    invitations.accept_password(rf.post("/"), seen[0], PHRASE, browser="b")
    with pytest.raises(SignInRefused):
        invitations.accept_password(rf.post("/"), seen[1], "another unusual phrase", browser="b")
    assert sign_in("ada", PHRASE) == 200


def test_nobody_gains_more_than_they_have(console: Console) -> None:
    clerk = Console(make_person("clerk", may=[READ, "keys.change_person", "keys.view_person"]))
    mightier, superuser = make_person(may=["audit.read_log"]), make_person(superuser=True)
    for person in (mightier, superuser):
        assert clerk.post(f"/rest/users/{person.public_id}/invite").status == 403
    assert clerk.post(f"/rest/users/{clerk.person.public_id}/invite").status == 409
    for more in ("permissions", "superuser"):
        weak = make_person(may=[READ])
        kept = invite(clerk, weak)
        assert not refused(Browser().send(kept))
        if more == "superuser":
            Person.objects.filter(pk=weak.pk).update(is_superuser=True)
        else:
            weak.user_permissions.add(*permissions(["audit.read_log"]))
        assert refused(Browser().choose(kept)), f"kept until its person has more {more}"
    weak = make_person(may=[READ])
    kept = invite(clerk, weak)
    Person.objects.filter(pk=clerk.person.pk).update(is_active=False)
    assert refused(Browser().choose(kept)), "the inviter has gone"


def test_attempts_are_limited_as_at_the_sign_in(console: Console) -> None:
    link = invite(console, make_person("ada"))
    browser = Browser()
    for _ in range(login_throttle.MAX_FAILURES_OF_NAME):
        assert refused(browser.send("#" + "0" * 96))
    assert refused(browser.send(link)), "not even the right one, in the same words"


def test_a_passkey_and_the_second_factor(console: Console, configure: Configure) -> None:
    configure("Approvals", BaseUrl=f"{ORIGIN}/")
    ada = make_person("ada")
    link = invite(console, ada)
    assert link.startswith(f"{ORIGIN}/console/invitation#")
    browser = Browser()

    def options(browser: Browser) -> dict[str, Any]:
        page = unescape(browser.send(link).content.decode())
        return dict(
            json.loads(page.partition('data-new-passkey="')[2].partition('"  data-')[0].partition('" data-')[0])
        )

    device, theirs = Device(), Browser()
    foreign = theirs.send(link, passkey=device.make(options(browser)), name="Key")
    assert "The passkey could not be added." in foreign.content.decode(), "made in another browser"
    done = browser.send(link, passkey=device.make(options(browser)), name="Telephone")
    assert done.status_code == 302, done.content.decode()
    codes = re.findall(r"\b(?:\w{4}-){3}\w{4}\b", browser.client.get(done["Location"]).content.decode())
    assert (len(codes), browser.is_in()) == (10, True)
    assert Passkey.objects.get().second_factor.person == ada
    assert refused(Browser().choose(link))

    link = invite(console, ada)
    later = Browser()
    assert "data-new-passkey" not in later.send(link).content.decode(), "a link replaces no second factor"
    done = later.choose(link)
    assert (done["Location"], later.is_in()) == ("/console/sign-in/code", False)

    link, fresh = invite(console, make_person("ida")), Browser()
    configure("SignIn", RequireSecondFactor=True)
    fresh.choose(link)
    assert fresh.client.get("/console/")["Location"] == "/console/account/second-factor"

    configure("SignIn", RequireSecondFactor=False, PasswordForm=False)
    link = invite(console, make_person("eve"))
    assert 'name="password"' not in Browser().send(link).content.decode()
    assert refused(Browser().choose(link)), "passwords are switched off"


def test_it_is_mailed(
    console: Console,
    configure: Configure,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    configure("Approvals", BaseUrl=ORIGIN)
    sent: list[tuple[str, ...]] = []
    monkeypatch.setattr(invitations, "send_task", lambda *arguments, **_: sent.append(arguments[1:]))
    with django_capture_on_commit_callbacks(execute=True):
        made = console.post("/rest/users", {"username": "ada", "email": "ada@example.test"})
        assert made.body["invitationLink"] is None
        assert console.post(f"/rest/users/{made.body['id']}/invite").body == {"invitationLink": None}
    for arguments in sent:
        tasks.mail_invitation(*arguments)
    [message] = mail.outbox  # the earlier one is no longer good
    [link] = re.findall(r"https://\S+", str(message.body))
    code = link.partition("#")[2]
    assert link.startswith(f"{ORIGIN}/console/invitation#")
    assert code not in message.subject
    assert code[64:] not in repr(sent), "nor in the broker"
    assert Browser().choose(link).status_code == 302


def test_a_program_may_still_set_a_password() -> None:
    administrator = Console(make_person(superuser=True))
    weak = administrator.post("/rest/users", {"username": "alan", "password": "1234567890"})
    assert (weak.status, weak.body["errors"][0]["pointer"]) == (400, "#/password")
    made = administrator.post("/rest/users", {"username": "alan", "password": "an unusual phrase"})
    assert (made.status, made.body["invitationLink"]) == (201, None)

    def can_sign_in(password: str) -> bool:
        return send(Client(), "POST", "/rest/session", {"username": "alan", "password": password}).status == 200

    assert can_sign_in("an unusual phrase")
    changed = administrator.patch(f"/rest/users/{made.body['id']}", {"password": "another unusual phrase"})
    assert changed.status == 200
    assert (can_sign_in("an unusual phrase"), can_sign_in("another unusual phrase")) == (False, True)
