"""The shape of pages: one row at the top, one row of filters with a chip for each, who somebody is, and where."""

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from lab.directory import Directory
from lab.domain import Domain
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks
from tests.support.cast import make_connection, make_integration, make_person

DESK: ViewportSize = {"width": 1440, "height": 900}
TELEPHONE: ViewportSize = {"width": 390, "height": 844}
ROW = 64
"""Pixels: more than one row of fields or buttons has."""
LABELLED_ROW = 90
LISTS = ("changes/", "log/", "keys/", "people/", "agents/", "roles/", "runs/", "scheduled/", "service-accounts/")


@pytest.fixture
def page(sign_in: SignIn, transactional_db: None, domain: Domain) -> Page:
    make_integration(make_connection(domain))
    make_connection(domain, name="Headquarters of another company")
    return sign_in(make_person("grace.murray.hopper", superuser=True), "/console/")


def height(page: Page, selector: str) -> float:
    box = page.locator(selector).bounding_box()
    assert box is not None, selector
    return box["height"]


def test_a_telephone_has_one_row_at_the_top(page: Page) -> None:
    """With the menu, the search, the directory and the person, in the back office too."""
    page.set_viewport_size(TELEPHONE)
    banner = page.get_by_role("banner")
    expect(banner.get_by_role("searchbox")).to_be_visible()
    assert height(page, "header.top") < ROW
    own = page.locator("details.you")
    own.locator("summary").click()
    expect(own.get_by_role("link", name="Your account")).to_be_in_viewport()
    expect(own.get_by_role("button", name="Sign out")).to_be_in_viewport()
    expect_good_looks(page, "own-menu")
    page.keyboard.press("Escape")
    expect(own.get_by_role("button", name="Sign out")).to_be_hidden()
    expect(own.locator("summary")).to_be_focused()
    own.locator("summary").click()
    page.locator("h1").click(position={"x": 5, "y": 5})
    expect(own.get_by_role("button", name="Sign out")).to_be_hidden()
    page.goto("/admin/")
    assert height(page, "header.top") < ROW
    assert height(page, "details.menu") < ROW
    assert page.locator("details.menu").bounding_box()["y"] == page.locator("header.top").bounding_box()["y"] == 0


@pytest.mark.parametrize("language", ["en", "de"])
def test_filters_are_one_row(page: Page, language: str) -> None:
    page.set_extra_http_headers({"Accept-Language": language})
    page.set_viewport_size(DESK)
    for path in LISTS:
        page.goto(f"/console/{path}")
        assert height(page, "form.bar") < LABELLED_ROW * (1.7 if path in ("log/", "service-accounts/") else 1), path


def test_each_filter_that_is_on_is_a_chip_that_takes_it_off(page: Page) -> None:
    page.goto("/console/keys/?name=HR&state=active")
    chips = page.locator(".chips-on a")
    expect(chips).to_have_text(["Remove the filter Name: HR ×", "Remove the filter State: Active ×"])
    expect(page.get_by_role("link", name="Clear the filters")).to_be_visible()
    expect_good_looks(page, "chips")
    page.set_viewport_size(TELEPHONE)
    page.get_by_role("link", name="Remove the filter Name: HR").click()
    page.wait_for_url("**/console/keys/?state=active")
    expect(chips).to_have_text(["Remove the filter State: Active ×"])
    chips.click()
    page.wait_for_url("**/console/keys/?")
    expect(chips).to_have_count(0)


def test_people_have_their_columns_and_a_line_that_tells_them_apart(
    page: Page, directory: Directory, organizational_unit: str
) -> None:
    ada = directory.add_user("Ada", parent=organizational_unit, title="Countess", mail="ada@corp.example.test")
    unit = directory.guid(organizational_unit)
    heads = page.locator("#found thead")
    page.goto(f"/console/directory/?base={unit}")
    expect(heads).to_contain_text("Job title")
    expect(page.locator("#found")).to_contain_text("Countess")
    for number in range(2):
        directory.add_unit(f"Team {number}", parent=organizational_unit)
    page.reload()
    expect(heads).to_contain_text("Description")
    expect(heads).not_to_contain_text("Job title")

    page.goto(f"/console/directory/objects/{ada}")
    told = page.get_by_role("list", name="Who it is").get_by_role("listitem")
    expect(told.first).to_have_text("Countess")
    expect(told.last.get_by_role("link")).to_have_attribute("href", "mailto:ada@corp.example.test")
    expect_good_looks(page, "person")
