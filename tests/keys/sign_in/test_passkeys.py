"""Passkeys: added, used at the sign-in and beside a password, lost; and that no forged answer gets anybody in."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.core.mail import EmailMessage
from django.test import Client
from structlog.testing import capture_logs

from audit.models import OperationRecord
from core.database import shared_clock
from gateway import tasks
from keys.models import Passkey, Person, SecondFactor
from keys.people import notices
from keys.sign_in import passkeys, second_factor
from tests.audit.calls import CALL
from tests.keys.authenticator import code_of
from tests.keys.passkey_device import DOMAIN, ORIGIN, Device, encode
from tests.support.cast import PASSWORD, Answer, Console, make_person
from tests.support.configuration import Configure

pytestmark = [pytest.mark.django_db]

ACCOUNT = "/console/account"
ADD = f"{ACCOUNT}/passkeys/add"
REFUSED = "This passkey does not sign anybody in here."


@pytest.fixture(autouse=True)
def address(configure: Configure) -> None:
    configure("Approvals", BaseUrl=f"{ORIGIN}/")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Whom a worker is to tell, and of what."""
    sent: list[tuple[int, str]] = []
    monkeypatch.setattr(notices, "tell", lambda person, event: sent.append((person.pk, event)))
    return sent


class Owner(Console):
    """Somebody who uses passkeys in the console."""

    def begin(self, **proof: str) -> Answer:
        return self.submit(ADD, **(proof or {"password": PASSWORD}))

    def options(self, **proof: str) -> dict[str, Any]:
        """What their browser is told to make a passkey with."""
        place = self.begin(**proof).headers["Location"]
        page = unescape(self.get(place).body.decode())
        found: dict[str, Any] = json.loads(page.partition('data-new-passkey="')[2].partition('">')[0])
        return found

    def save(self, answer: str, name: str = "Telephone") -> Answer:
        return self.submit(f"{ACCOUNT}/passkeys/save", passkey=answer, name=name)

    def add(self, name: str = "Telephone", **proof: str) -> tuple[Device, list[str]]:
        """A new passkey, and the recovery codes that came with the first."""
        device = Device()
        done = self.save(device.make(self.options(**proof)), name)
        assert done.status == 302, done
        page = self.get(done.headers["Location"]).body.decode()
        return device, re.findall(r"\b(?:\w{4}-){3}\w{4}\b", page)

    def asked(self) -> dict[str, Any]:
        """What their browser is told to prove with that it is they."""
        return dict(json.loads(self.submit(f"{ACCOUNT}/passkeys/options").body)["publicKey"])


@pytest.fixture
def ada() -> Owner:
    return Owner(make_person("ada"))


class Visitor:
    """A browser in which nobody is signed in yet."""

    def __init__(self) -> None:
        self.client = Client(enforce_csrf_checks=True)
        self.client.get("/console/sign-in")

    def post(self, path: str, **fields: str) -> Any:
        token = self.client.cookies["csrftoken"].value
        return self.client.post(f"/console/sign-in{path}", {"csrfmiddlewaretoken": token, **fields})

    def asked(self, path: str = "/passkey/options") -> dict[str, Any]:
        return dict(self.post(path).json()["publicKey"])

    def sign_in(self, answer: str) -> str:
        """What the person is told who cannot come in; nothing for the others."""
        response = self.post("/passkey", passkey=answer)
        text = unescape(response.content.decode()).partition('role="alert" id="refusal">')[2].partition("</div>")[0]
        assert (response.status_code == 302) == self.is_in() == (not text), (response, text)
        return text

    def is_in(self) -> bool:
        return self.client.get("/rest/session").status_code == 200


def test_it_works(ada: Owner, told: list[tuple[int, str]]) -> None:
    """Added, then the whole sign-in, then the second factor; on record, in the list, and told."""
    device, codes = ada.add()
    assert len(codes) == 10
    assert told == [(ada.person.pk, "passkey added")]
    record = OperationRecord.objects.get(operation="people.update")
    assert {change["attribute"]: change["after"] for change in record.changes}["passkeys"] == ["Telephone"]
    assert "Telephone" in ada.get(ACCOUNT).body.decode()
    visitor = Visitor()
    asked = visitor.asked()
    assert (asked["rpId"], asked["userVerification"], asked["allowCredentials"]) == (DOMAIN, "required", [])
    assert visitor.sign_in(device.answer(asked)) == ""
    assert visitor.client.get("/rest/session").json()["user"]["username"] == "ada"
    assert Passkey.objects.get().last_used_at is not None

    second = Visitor()
    assert second.post("", username="ada", password=PASSWORD)["Location"].startswith("/console/sign-in/code")
    asked = second.asked("/code/options")
    assert [item["id"] for item in asked["allowCredentials"]] == [encode(device.id)]
    assert second.post("/code", passkey=device.answer(asked)).status_code == 302
    assert second.is_in()
    third = Visitor()
    third.post("", username="ada", password=PASSWORD)
    assert third.post("/code", code=codes[0]).status_code == 302
    assert third.is_in()


Forgery = Callable[[Device, dict[str, Any]], str]


def _tampered(device: Device, asked: dict[str, Any]) -> str:
    answer = json.loads(device.answer(asked))
    answer["response"]["signature"] = json.loads(device.answer(asked))["response"]["signature"][:-6] + "AAAAAA"
    return json.dumps(answer)


def _of_nobody(device: Device, asked: dict[str, Any]) -> str:
    return Device(person=device.person).answer(asked)


def _under_another_key(device: Device, asked: dict[str, Any]) -> str:
    return Device(id=device.id, person=device.person).answer(asked)


def _for_somebody_else(device: Device, asked: dict[str, Any]) -> str:
    return Device(key=device.key, id=device.id, person=b"0" * 16).answer(asked)


FORGERIES: dict[str, Forgery] = {
    "another origin": lambda device, asked: device.answer(asked, origin="https://gateway.example.test.evil.test"),
    "plain HTTP": lambda device, asked: device.answer(asked, origin="http://gateway.example.test"),
    "the Host header": lambda device, asked: device.answer(asked, origin="http://testserver", domain="testserver"),
    "another domain": lambda device, asked: device.answer(asked, domain="evil.test"),
    "user not verified": lambda device, asked: device.answer(asked, verified=False),
    "no challenge of ours": lambda device, asked: device.answer(asked, challenge=encode(bytes(56))),
    "a challenge cut short": lambda device, asked: device.answer(asked, challenge=asked["challenge"][:30]),
    "no challenge": lambda device, asked: device.answer(asked, challenge="A"),
    "a registration": lambda device, asked: device.answer(asked, type="webauthn.create"),
    "a tampered signature": _tampered,
    "unknown": _of_nobody,
    "another key": _under_another_key,
    "somebody else's name": _for_somebody_else,
    "no JSON": lambda *_: "{",
    "deep JSON": lambda *_: "[" * 8000,
    "long": lambda device, asked: device.answer(asked) + " " * 8192,
    "nothing": lambda *_: "",
    "a list": lambda *_: '["id"]',
    "no response": lambda device, _: json.dumps({"id": encode(device.id), "rawId": encode(device.id)}),
}


def test_forged_answers(ada: Owner) -> None:
    """Each is refused in the same words, at the sign-in and as the second factor; then the true answer is taken."""
    device, _ = ada.add()
    visitor, second = Visitor(), Visitor()
    second.post("", username="ada", password=PASSWORD)
    told = {visitor.sign_in(forge(device, visitor.asked())) for forge in FORGERIES.values()}
    assert len(told) == 1
    assert told.pop().startswith(REFUSED)
    for name, forge in FORGERIES.items():
        if name not in ("somebody else's name", "nothing"):  # the person is known here; no answer is no passkey
            assert second.post("/code", passkey=forge(device, second.asked("/code/options"))).status_code == 403, name
    assert not second.is_in()
    assert second.post("/code", passkey=device.answer(second.asked("/code/options"))).status_code == 302
    assert visitor.sign_in(device.answer(visitor.asked())) == ""


def test_a_challenge_counts_once_in_one_session_for_one_purpose(ada: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    device, _ = ada.add()
    visitor, other = Visitor(), Visitor()
    earlier, asked = visitor.asked(), visitor.asked()
    assert other.sign_in(device.answer(asked)).startswith(REFUSED), "of another browser"
    assert other.sign_in(device.answer(ada.asked())).startswith(REFUSED), "for another purpose"
    other.post("", username="ada", password=PASSWORD)
    assert other.post("/code", passkey=device.answer(asked)).status_code == 403
    answer = device.answer(asked)
    assert visitor.sign_in(answer) == ""
    token = visitor.client.cookies["csrftoken"].value
    again = Visitor()
    again.client.cookies["csrftoken"] = token
    assert again.sign_in(answer).startswith(REFUSED), "answered already"
    fresh = Visitor()
    first, second = fresh.asked(), fresh.asked()
    cookies = fresh.client.cookies["csrftoken"].value
    assert fresh.sign_in(device.answer(second)) == ""
    third = Visitor()
    third.client.cookies["csrftoken"] = cookies
    assert third.sign_in(device.answer(first)).startswith(REFUSED), "older than the one answered last"
    assert earlier["challenge"] != asked["challenge"]
    late = Visitor()
    asked = late.asked()
    now = shared_clock.now()
    monkeypatch.setattr(shared_clock, "now", lambda: now + passkeys.LIFETIME + timedelta(seconds=5))
    assert late.sign_in(device.answer(asked)).startswith(REFUSED), "too old"


def test_a_copied_passkey_betrays_itself_by_its_count(ada: Owner) -> None:
    device, _ = ada.add()
    device.counts = 7
    visitor = Visitor()
    assert visitor.sign_in(device.answer(visitor.asked())) == ""
    for count in (7, 6, 0):
        device.counts = count
        with capture_logs() as logs:
            visitor = Visitor()
            assert visitor.sign_in(device.answer(visitor.asked())).startswith(REFUSED)
        assert "copied" in next(line["problem"] for line in logs if line["event"] == "credential refused")
    device.counts = 8
    visitor = Visitor()
    assert visitor.sign_in(device.answer(visitor.asked())) == ""


def test_a_passkey_is_one_persons(ada: Owner) -> None:
    device, _ = ada.add()
    grace = Owner(make_person("grace"))
    mine, _ = grace.add()
    second = Visitor()
    second.post("", username="grace", password=PASSWORD)
    assert second.post("/code", passkey=device.answer(second.asked("/code/options"))).status_code == 403
    taken = grace.save(device.make(grace.options(passkey=mine.answer(grace.asked()))), "Mine now")
    assert taken.status == 409
    assert Passkey.objects.filter(second_factor__person=grace.person).count() == 1


def test_nobody_is_signed_in_whom_a_password_would_not_sign_in(ada: Owner) -> None:
    """The deactivated hear why, as with their password; people of a directory get in with its password only."""
    device, _ = ada.add()
    Person.objects.filter(pk=ada.person.pk).update(is_active=False)
    visitor = Visitor()
    assert "switched off" in visitor.sign_in(device.answer(visitor.asked()))


def test_a_person_of_a_directory_needs_their_password(ada: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    device, _ = ada.add()
    monkeypatch.setattr(Person, "is_local", property(lambda _: False))
    visitor = Visitor()
    assert visitor.sign_in(device.answer(visitor.asked())).startswith(REFUSED)


def test_adding_takes_the_present_factor(ada: Owner) -> None:
    """Somebody at a browser left open, or with a stolen session, adds nothing."""
    assert ada.begin(password="wrong").status == 400
    device = Device()
    for lie in ({"verified": False}, {"origin": "https://evil.test"}, {"domain": "evil.test"}, {"challenge": "AAAA"}):
        assert ada.save(device.make(ada.options(), **lie)).status == 400, lie
    stolen = device.make(ada.options())
    assert Owner(ada.person).save(stolen).status == 400, "of another session"
    assert ada.save(device.make(ada.asked() | {"user": {"id": encode(b"1")}})).status == 400, "for another purpose"
    for name in (" ", "x" * 65, "a\u202eb"):
        assert ada.save(stolen, name).status == 400
    assert not Passkey.objects.exists()
    device, codes = ada.add()
    for proof in (
        {"password": PASSWORD},
        {"code": "000000"},
        {"code": ""},
        {"passkey": _tampered(device, ada.asked())},
    ):
        assert ada.begin(**proof).status == 400, proof
    ada.add("Key", passkey=device.answer(ada.asked()))
    ada.add("Another", code=codes[0])
    assert ada.begin(code=codes[0]).status == 400
    assert [passkey.name for passkey in passkeys.passkeys_of(ada.person)] == ["Telephone", "Key", "Another"]
    assert second_factor.remaining_recovery_codes(ada.person) == 9, "only the first brought some"
    assert ada.get(f"{ACCOUNT}/passkeys/new").headers["Location"] == ADD


def test_renamed_and_removed(ada: Owner, configure: Configure, told: list[tuple[int, str]]) -> None:
    device, codes = ada.add()
    other, _ = ada.add("Key", code=codes[0])
    elsewhere = Console(ada.person)
    first, second = passkeys.passkeys_of(ada.person)
    assert ada.submit(f"{ACCOUNT}/passkeys/{first.pk}/rename", name="My telephone").status == 302
    remove = f"{ACCOUNT}/passkeys/{first.pk}/remove"
    assert "Remove My telephone" in ada.get(remove).body.decode()
    assert ada.submit(remove, code="000000").status == 400
    assert Owner(make_person("grace")).submit(remove, password=PASSWORD).status == 404, "somebody else's"
    assert ada.submit(remove, passkey=other.answer(ada.asked())).status == 302
    assert elsewhere.get("/rest/session").status == 401
    visitor = Visitor()
    assert visitor.sign_in(device.answer(visitor.asked())).startswith(REFUSED)
    assert ada.submit(f"{ACCOUNT}/passkeys/recovery-codes", passkey=other.answer(ada.asked())).status == 302
    assert second_factor.remaining_recovery_codes(ada.person) == 10
    configure("SignIn", RequireSecondFactor=True)
    last = f"{ACCOUNT}/passkeys/{second.pk}/remove"
    assert ada.submit(last, passkey=other.answer(ada.asked())).status == 409
    configure("SignIn", RequireSecondFactor=False)
    assert ada.submit(last, passkey=other.answer(ada.asked())).status == 302
    assert not second_factor.is_on(ada.person)
    assert [event for _, event in told] == ["passkey added", "passkey added", "passkey removed", "passkey removed"]


def test_beside_an_authenticator(ada: Owner) -> None:
    """Either serves; each goes without the other."""
    secret = second_factor.enrol(ada.person).secret
    codes = second_factor.confirm(CALL, ada.person, code_of(secret, steps=-1))
    device, new = ada.add(code=codes[0])
    assert new == []
    assert second_factor.has_authenticator(ada.person)
    assert ada.submit(f"{ACCOUNT}/second-factor/remove", code=codes[1]).status == 302
    assert second_factor.is_on(ada.person)
    assert not second_factor.has_authenticator(ada.person)
    assert SecondFactor.objects.get().secret != secret, "a code of it would still be taken"
    assert second_factor.remaining_recovery_codes(ada.person) == 8
    visitor = Visitor()
    assert visitor.sign_in(device.answer(visitor.asked())) == ""


def test_an_administrator_resets_them(
    ada: Owner,
    console: Console,
    mailoutbox: list[EmailMessage],
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    """All are gone at once; it is on record and the person is told."""
    device, _ = ada.add()
    Person.objects.filter(pk=ada.person.pk).update(email="ada@example.test")
    sent: list[tuple[str, ...]] = []
    path = f"/rest/users/{ada.person.public_id}"
    monkeypatch.setattr(notices, "send_task", lambda name, *arguments, **_: sent.append((name, *arguments)))
    with django_capture_on_commit_callbacks(execute=True):
        assert console.post(f"{path}/reset-second-factor").status == 204
    assert sent == [(notices.MAIL_TASK, str(ada.person.pk), "second factor reset")]
    tasks.mail_notice(*sent[0][1:])
    assert mailoutbox[0].to == ["ada@example.test"]
    assert "turned your second factor off" in str(mailoutbox[0].body)
    record = OperationRecord.objects.get(operation="people.reset-second-factor")
    changed = {change["attribute"]: (change["before"], change["after"]) for change in record.changes}
    assert changed["passkeys"] == (["Telephone"], [])
    visitor = Visitor()
    assert visitor.sign_in(device.answer(visitor.asked())).startswith(REFUSED)


@pytest.mark.parametrize(
    "address",
    ["", "http://gateway.example.test", "https://192.0.2.1", "https://[2001:db8::1]/"],
)
def test_where_browsers_allow_none(ada: Owner, configure: Configure, address: str) -> None:
    configure("Approvals", BaseUrl=address)
    assert passkeys.find_relying_party() is None
    assert "passkey" not in ada.get(ACCOUNT).body.decode()
    assert Visitor().post("/passkey/options").status_code == 404
    assert ada.begin().status == 409


def test_what_they_are_bound_to(configure: Configure) -> None:
    for address, bound in {
        "https://Gateway.example.test:8443/console/": ("gateway.example.test", "https://gateway.example.test:8443"),
        "https://gateway.example.test:443": ("gateway.example.test", "https://gateway.example.test"),
        "http://localhost:8000": ("localhost", "http://localhost:8000"),
    }.items():
        configure("Approvals", BaseUrl=address)
        found = passkeys.find_relying_party()
        assert found is not None
        assert (found.domain, found.origin) == bound


def test_set_up_where_everybody_needs_a_second_factor(configure: Configure) -> None:
    configure("SignIn", RequireSecondFactor=True)
    ada = Owner(make_person("ada"))
    assert ADD in ada.get(f"{ACCOUNT}/second-factor").body.decode()
    ada.add()
    assert ada.get("/console/").status == 200
