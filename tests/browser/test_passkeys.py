"""Passkeys in a real browser with an authenticator of its own: added, used at the sign-in, and for a decision."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from keys.models import Passkey, Person
from tests.approvals.proposals import hold
from tests.browser.conftest import REFUSED
from tests.browser.looks import expect_good_looks, open_own_menu
from tests.support.cast import PASSWORD, Console, make_person
from tests.support.configuration import Configure


@pytest.fixture
def ada(transactional_db: None) -> Person:
    return make_person("ada", may=["approvals.decide_change"])


@pytest.fixture
def complaints() -> list[str]:
    return []


@pytest.fixture
def page(
    browser: Browser, live_server: Any, configure: Configure, ada: Person, complaints: list[str]
) -> Iterator[Page]:
    """A browser at the address that passkeys are bound to: no IP address will do."""
    address = live_server.url.replace("127.0.0.1", "localhost")
    configure("Approvals", BaseUrl=address)
    context = browser.new_context(base_url=address)
    page = context.new_page()

    def on_console(message: Any) -> None:
        if message.type in ("error", "warning") and not REFUSED.search(message.text):
            complaints.append(message.text)

    page.on("console", on_console)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert complaints == []


@pytest.fixture
def devices(page: Page) -> CDPSession:
    """A device that keeps passkeys and finds its person there, until it is told otherwise."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
    simulated = {"isUserVerified": True, "automaticPresenceSimulation": True}
    added = session.send("WebAuthn.addVirtualAuthenticator", {"options": {**options, **simulated}})
    session.id = added["authenticatorId"]  # type: ignore[attr-defined]
    return session


def finds_person(devices: CDPSession, found: bool) -> None:
    devices.send(
        "WebAuthn.setUserVerified",
        {"authenticatorId": devices.id, "isUserVerified": found},  # type: ignore[attr-defined]
    )


WORDS = {
    "en": {
        "sign in": "Sign in",
        "use": "Use a passkey",
        "add": "Add a passkey",
        "make": "Create the passkey",
        "password": "Present password",
        "go on": "Go on",
        "name": "Name",
        "added": "The passkey is added.",
        "not used": "The passkey was not used. Try again.",
        "approve": "Approve",
        "approved": "Approved. A worker makes the change now.",
        "remove": "Remove Telephone",
        "removed": "The passkey is removed.",
        "takes": "This decision takes a passkey",
    },
    "de": {
        "sign in": "Anmelden",
        "use": "Einen Passkey verwenden",
        "add": "Einen Passkey hinzufügen",
        "make": "Den Passkey anlegen",
        "password": "Jetziges Kennwort",
        "go on": "Weiter",
        "name": "Name",
        "added": "Der Passkey ist hinzugefügt.",
        "not used": "Der Passkey wurde nicht verwendet.",
        "approve": "Genehmigen",
        "approved": "Genehmigt.",
        "remove": "Telephone entfernen",
        "removed": "Der Passkey ist entfernt.",
        "takes": "Diese Entscheidung braucht einen Passkey",
    },
}


@pytest.mark.parametrize("language", WORDS)
def test_the_life_of_a_passkey(page: Page, devices: CDPSession, configure: Configure, language: str) -> None:
    words = WORDS[language]

    def button(name: str) -> Any:
        return page.get_by_role("button", name=words[name], exact=True)

    page.set_extra_http_headers({"Accept-Language": language})
    page.goto("/console/sign-in?next=/console/account")
    page.locator("#username").fill("ada")
    page.locator("#password").fill(PASSWORD)
    button("sign in").click()
    page.get_by_role("link", name=words["add"]).click()
    page.get_by_label(words["password"]).fill(PASSWORD)
    expect_good_looks(page, f"passkey-proof-{language}")
    button("go on").click()
    page.get_by_label(words["name"], exact=True).fill("Telephone")
    finds_person(devices, False)
    button("make").click()
    expect(page.get_by_role("alert")).to_contain_text(words["not used"])
    expect_good_looks(page, f"passkey-new-{language}")
    finds_person(devices, True)
    button("make").click()
    expect(page.get_by_role("status").first).to_contain_text(words["added"])
    assert len(page.locator("#codes").inner_text().split()) == 10
    page.goto("/console/account")
    expect_good_looks(page, f"account-with-passkey-{language}")

    open_own_menu(page)
    page.locator("form[action$='sign-out'] button").click()
    page.goto("/console/sign-in?next=/console/account")
    page.wait_for_url("**/console/account")  # the browser offers the passkey by itself, and its person takes it

    configure("SignIn", SecurityNeedsPasskey=True)
    held = hold()
    page.goto(f"/console/changes/{held.id}")
    expect(page.get_by_text(words["takes"])).to_be_visible()
    expect_good_looks(page, f"change-takes-passkey-{language}")
    finds_person(devices, False)
    button("approve").click()
    expect(page.locator("[data-passkey-problem]")).to_contain_text(words["not used"])
    finds_person(devices, True)
    button("approve").click()
    expect(page.get_by_role("status").first).to_contain_text(words["approved"])

    page.goto("/console/account")
    page.get_by_role("link", name=words["remove"]).click()
    button("use").click()
    expect(page.get_by_role("status").first).to_contain_text(words["removed"])
    assert not Passkey.objects.exists()


def test_the_second_step_and_several_decisions(
    page: Page, devices: CDPSession, ada: Person, configure: Configure
) -> None:
    page.goto("/console/sign-in?next=/console/account/passkeys/add")
    page.locator("#username").fill("ada")
    page.locator("#password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_label("Present password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    page.get_by_label("Name", exact=True).fill("Key")
    page.get_by_role("button", name="Create the passkey").click()
    expect(page.locator("#codes")).to_be_visible()
    page.add_init_script("delete PublicKeyCredential.isConditionalMediationAvailable")
    page.context.clear_cookies()
    page.goto("/console/sign-in")
    expect_good_looks(page, "sign-in-with-passkey")
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.wait_for_url("**/console/")
    page.context.clear_cookies()
    page.goto("/console/sign-in")
    page.locator("#username").fill("ada")
    page.locator("#password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect_good_looks(page, "second-step-by-passkey")
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url("**/console/")
    configure("SignIn", ApproversNeed="passkey", SecurityNeedsPasskey=True)
    held = [hold(), hold()]
    page.goto(f"/console/changes/together?ids={','.join(str(each.id) for each in held)}")
    expect(page.locator("#forecasts")).to_contain_text("would not be applied")  # so it unticks them
    expect_good_looks(page, "together-takes-passkey")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Approve the ticked ones").click()
    expect(page.get_by_role("status").filter(has_text=re.compile("2 of 2 approved"))).to_be_visible()


def test_an_invitation_leads_to_a_passkey(page: Page, devices: CDPSession, ada: Person) -> None:
    """The script takes the code out of the address; the passkey made there signs in at once."""
    grace = Console(make_person("grace", superuser=True))
    link = grace.post(f"/rest/users/{ada.public_id}/invite").body["invitationLink"]
    sent: list[str] = []
    page.on("request", lambda request: sent.append(f"{request.url} {request.headers.get('referer')}"))
    page.goto(link)
    assert "#" not in page.url
    expect(page.get_by_label("Code")).to_be_hidden()
    expect_good_looks(page, "invitation")
    page.get_by_role("button", name="Go on", exact=True).click()
    page.get_by_label("Name of the passkey").fill("Telephone")
    expect_good_looks(page, "invitation-choice")
    page.get_by_role("button", name="Create the passkey and sign in").click()
    expect(page.locator("#codes")).to_be_visible()
    assert len(page.locator("#codes").inner_text().split()) == 10
    assert link.partition("#")[2] not in repr(sent)
    assert Passkey.objects.get().second_factor.person == ada
