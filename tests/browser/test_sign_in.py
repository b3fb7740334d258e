"""Signing in to the console in a real browser: local accounts, people of a directory, and the second factor."""

import re

from playwright.sync_api import Page, expect

from keys.models import Person
from keys.sign_in import second_factor
from lab import directory as accounts
from lab.directory import Directory
from lab.domain import Domain
from tests.audit.calls import CALL
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks, open_own_menu
from tests.keys.authenticator import code_of
from tests.support.cast import PASSWORD, make_connection, make_person


def fill(page: Page, username: str, password: str) -> None:
    page.get_by_label("User name").fill(username)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_it_works(sign_in: SignIn) -> None:
    ada = make_person("ada")
    Person.objects.filter(pk=ada.pk).update(display_name="Ada Lovelace")
    page = sign_in(None, "/console/changes/")
    expect(page).to_have_title("Sign in · Directory Management Gateway")
    expect(page.get_by_label("User name")).to_be_focused()
    expect(page.get_by_role("radio")).to_have_count(0)  # there is no directory to choose
    expect_good_looks(page, "sign-in-plain")

    fill(page, "ada", "wrong")
    expect(page.get_by_role("alert")).to_contain_text("The user name or the password is wrong.")
    expect(page.get_by_label("User name")).to_have_value("ada")
    expect(page.get_by_label("Password")).to_have_value("")
    expect(page.get_by_label("Password")).to_be_focused()
    expect_good_looks(page, "sign-in-wrong")

    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/changes/")
    open_own_menu(page)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("status").first).to_have_text("You are signed out.")
    page.goto("/console/changes/")
    page.wait_for_url("**/console/sign-in?next=*")


def test_a_person_of_a_directory(
    sign_in: SignIn, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    make_connection(domain, name="corp.example.test")
    make_connection(domain, name="Subsidiary", enabled=False)
    ada = directory.add_user(
        "Ada Lovelace", parent=organizational_unit, password=accounts.PASSWORD, sAMAccountName="ada.lovelace"
    )
    directory.modify(ada, pwdLastSet="0")
    page = sign_in(None)
    expect(page.get_by_role("radio")).to_have_count(2)
    expect(page.get_by_role("radio", name="Local account")).to_be_checked()
    page.get_by_role("radio", name="Local account").focus()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("radio", name="corp.example.test")).to_be_checked()
    expect_good_looks(page, "sign-in")

    fill(page, "ada.lovelace", accounts.PASSWORD)
    expect(page.get_by_role("alert")).to_contain_text("You have to change your password")
    expect(page.get_by_role("radio", name="corp.example.test")).to_be_checked()
    expect_good_looks(page, "sign-in-must-change")
    directory.modify(ada, pwdLastSet="-1")
    fill(page, "ada.lovelace", accounts.PASSWORD)
    page.wait_for_url("**/console/")
    open_own_menu(page)
    page.get_by_role("link", name="Your account").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Ada Lovelace")
    expect(page.get_by_role("heading", name="Password")).to_have_count(0)  # it is the directory's

    open_own_menu(page)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("radio", name="corp.example.test")).to_be_checked()


def test_the_code_of_an_authenticator(sign_in: SignIn) -> None:
    ada = make_person("ada")
    secret = second_factor.enrol(ada).secret
    recovery = second_factor.confirm(CALL, ada, code_of(secret))
    page = sign_in(None, "/console/changes/?status=any")
    fill(page, "ada", PASSWORD)
    expect(page.get_by_label("Code")).to_be_focused()
    expect_good_looks(page, "sign-in-code")
    page.get_by_label("Code").fill("12 34 56")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("This code is wrong")
    expect_good_looks(page, "sign-in-code-wrong")
    page.get_by_label("Code").fill(code_of(secret, steps=1))
    page.get_by_role("button", name="Go on").click()
    page.wait_for_url("**/console/changes/?status=any")

    open_own_menu(page)
    page.get_by_role("button", name="Sign out").click()
    fill(page, "ada", PASSWORD)
    page.get_by_label("Code").fill(recovery[0])
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/")


def test_dark_as_the_system_is(sign_in: SignIn) -> None:
    page = sign_in(None)
    page.emulate_media(color_scheme="dark")
    expect_good_looks(page, "sign-in-dark")
    page.get_by_role("button", name=re.compile("Theme")).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    expect_good_looks(page, "sign-in-light-on-dark")


def test_the_back_office_is_reached_by_the_same_door(sign_in: SignIn) -> None:
    make_person("ada", superuser=True)
    page = sign_in(None, "/admin/keys/apikey/")
    fill(page, "ada", PASSWORD)
    page.wait_for_url("**/admin/keys/apikey/")
    open_own_menu(page)
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/console/sign-in")
