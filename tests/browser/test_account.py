"""A person's own account in a real browser: password, second factor, sessions and access token."""

import json
import re
import shlex
import subprocess

import pytest
from playwright.sync_api import Page, expect

from keys.models import Person
from keys.sign_in import second_factor
from lab.gateway import LiveGateway
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks
from tests.keys.authenticator import code_of
from tests.support.cast import PASSWORD, make_person

ANOTHER_PASSWORD = "one more horse, one more battery"


@pytest.fixture
def ada(transactional_db: None) -> Person:
    ada = make_person("ada", may=["directory.read_object", "audit.read_log"])
    Person.objects.filter(pk=ada.pk).update(display_name="Ada Lovelace")
    return ada


@pytest.fixture
def page(sign_in: SignIn, ada: Person) -> Page:
    return sign_in(ada, "/console/account")


def test_who_one_is_and_what_one_may_do(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text("Ada Lovelace")
    details = page.get_by_role("region", name="You", exact=True)
    expect(details).to_contain_text("ada")
    details.get_by_text("2 permissions").click()
    for text in ("directory.read_object", "Read and search directory objects", "audit.read_log"):
        expect(details).to_contain_text(text)
    expect_good_looks(page, "account")


def test_the_password_is_changed(page: Page, sign_in: SignIn, ada: Person) -> None:
    elsewhere = sign_in(ada, "/console/")
    for current, new, again, told in (
        ("wrong", ANOTHER_PASSWORD, ANOTHER_PASSWORD, "This is not your present password."),
        (PASSWORD, "short", "short", "too short"),
        (PASSWORD, ANOTHER_PASSWORD, "something else", "not the same"),
    ):
        change_password(page, current, new, again)
        expect(page.locator(".field .error")).to_contain_text(told)
    expect_good_looks(page, "account-password-refused")
    change_password(page, PASSWORD, ANOTHER_PASSWORD, ANOTHER_PASSWORD)
    expect(page.get_by_role("status").first).to_contain_text("Your password is changed.")
    expect(page.get_by_role("region", name="Where you are signed in").get_by_role("row")).to_have_count(2)
    ada.refresh_from_db()
    assert ada.check_password(ANOTHER_PASSWORD)
    elsewhere.reload()
    elsewhere.wait_for_url("**/console/sign-in?next=*")


def change_password(page: Page, current: str, new: str, again: str) -> None:
    page.get_by_label("Present password").fill(current)
    page.get_by_label("New password", exact=True).fill(new)
    page.get_by_label("New password, again").fill(again)
    page.get_by_role("button", name="Change the password").click()


def test_the_second_factor_from_set_up_to_removal(page: Page, ada: Person) -> None:
    page.get_by_role("link", name="Set it up").click()
    page.get_by_label("Present password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    image = page.get_by_role("img", name="QR code")
    expect(image).to_be_visible()
    assert image.evaluate("image => image.naturalWidth") > 100
    secret = page.locator("#secret").evaluate("code => code.textContent")
    page.get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == secret
    expect_good_looks(page, "account-second-factor")
    page.get_by_role("textbox", name="Code").fill("000000")
    page.get_by_role("button", name="Turn it on").click()
    expect(page.locator(".field .error")).to_contain_text("This code is wrong")
    assert page.locator("#secret").evaluate("code => code.textContent") == secret
    page.get_by_role("textbox", name="Code").fill(code_of(secret))
    page.get_by_role("button", name="Turn it on").click()

    codes = page.locator("#codes").inner_text().split()
    assert len(codes) == 10
    page.get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()").split() == codes
    expect_good_looks(page, "account-recovery-codes")
    page.get_by_role("link", name="I have saved them").click()
    factor = page.get_by_role("region", name="Second factor")
    expect(factor).to_contain_text("10 recovery codes are left")
    expect_good_looks(page, "account-with-second-factor")
    assert second_factor.is_on(ada)

    factor.get_by_role("textbox", name="Code").fill("000000")
    factor.get_by_role("button", name="New recovery codes").click()
    expect(factor.locator(".error")).to_contain_text("This code is wrong")
    factor.get_by_role("textbox", name="Code").fill(code_of(secret, steps=1))
    factor.get_by_role("button", name="New recovery codes").click()
    new_codes = page.locator("#codes").inner_text().split()
    assert not set(codes) & set(new_codes)
    page.get_by_role("link", name="I have saved them").click()

    page.on("dialog", lambda dialog: dialog.accept())
    factor.get_by_role("textbox", name="Code").fill(codes[0])
    factor.get_by_role("button", name="Turn it off").click()
    expect(factor.locator(".error")).to_contain_text("This code is wrong")
    factor.get_by_role("textbox", name="Code").fill(new_codes[0])
    factor.get_by_role("button", name="Turn it off").click()
    expect(page.get_by_role("status").first).to_contain_text("The second factor is off.")
    assert not second_factor.is_on(ada)


def test_sessions_are_ended(page: Page, sign_in: SignIn, ada: Person, live_gateway: LiveGateway) -> None:
    others = [sign_in(ada, "/console/") for _ in range(3)]
    given = {"username": "ada", "password": PASSWORD}
    _, headers, _ = live_gateway.request("POST", "/rest/session", body=given, headers={"User-Agent": "curl/8.0"})
    cookie = {"Cookie": headers["set-cookie"]}
    assert live_gateway.request("GET", "/rest/session", headers=cookie)[0] == 200
    page.reload()
    region = page.get_by_role("region", name="Where you are signed in")
    expect(region.get_by_role("row", name="This one")).to_contain_text("on Linux")
    expect_good_looks(page, "account-sessions")
    region.get_by_role("button", name="Sign out curl at 127.0.0.1").click()
    expect(page.get_by_role("status").first).to_have_text("You are signed out there.")
    assert live_gateway.request("GET", "/rest/session", headers=cookie)[0] == 401
    expect(region.get_by_role("row")).to_have_count(1 + 4)
    region.get_by_role("button", name="Sign out everywhere else").click()
    expect(page.get_by_role("status").first).to_contain_text("3 sessions")
    expect(region.get_by_role("row")).to_have_count(1 + 1)
    for other in others:
        other.reload()
        other.wait_for_url("**/console/sign-in?next=*")


def test_an_access_token_is_shown_once_and_works(page: Page) -> None:
    page.get_by_role("button", name="Show a new one").click()
    token = page.get_by_label("Access token", exact=True).input_value()
    assert re.fullmatch("dgp_[0-9A-Za-z_]+", token)
    region = page.get_by_role("region", name="Your access token")
    expect(region).to_contain_text(re.compile("It ends in 1[45] minutes"))
    expect_good_looks(page, "account-access-token")
    region.get_by_role("button", name="Copy", exact=True).click()
    assert page.evaluate("navigator.clipboard.readText()") == token
    region.get_by_role("button", name="Copy the line").click()
    line = page.evaluate("navigator.clipboard.readText()")
    done = subprocess.run([*shlex.split(line), "--silent", "--show-error"], capture_output=True, check=True)
    assert json.loads(done.stdout)["subject"]["username"] == "ada"
    page.reload()
    expect(region).to_contain_text("The token was shown once")
    assert token not in page.content()
    page.goto("/console/account")
    assert token not in page.content()


def test_whoever_is_not_signed_in_has_no_account(sign_in: SignIn) -> None:
    make_person(superuser=True)  # an empty database leads to the set-up
    sign_in(None, "/console/account").wait_for_url("**/console/sign-in?next=*")
