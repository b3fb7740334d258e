"""Setting up an integration in Django admin, step by step as the README tells it, in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from directory.models import DirectoryConnection
from keys.models import Person
from lab.directory import Directory, random_name
from lab.gateway import LiveGateway
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_on_reload
from tests.support.cast import make_person


@pytest.fixture
def administrator(transactional_db: None) -> Person:
    return make_person(superuser=True)


def test_it_works(
    sign_in: SignIn,
    administrator: Person,
    connection: DirectoryConnection,
    live_gateway: LiveGateway,
    directory: Directory,
    organizational_unit: str,
) -> None:
    user = directory.add_user(parent=organizational_unit)
    role, key = random_name("role"), random_name("key")
    page = sign_in(administrator, "/admin/")

    create_role(page, role, ("directory.read_object", "directory.update_user", "directory.disable_account"))
    value = create_key(page, key, role)
    client_id = link(page, key, connection)
    open_list(page, "API keys")
    page.get_by_role("link", name=key).click()
    page.get_by_role("textbox", name="Allowed addresses").fill("127.0.0.1")
    page.get_by_label("Supervision level").select_option("Ask before destructive and security changes")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist .success")).to_contain_text(key)

    headers = {"X-API-Key": value, "X-Client-Id": client_id}
    path = f"/api/ad/users/{user}"
    status, _, found = live_gateway.request("GET", path, headers=headers)
    assert status == 200
    assert found["id"] == str(user)
    status, _, changed = live_gateway.request("PATCH", path, body={"replace": {"title": "Countess"}}, headers=headers)
    assert status == 200
    assert changed["attributes"]["title"] == ["Countess"]
    assert directory.text(user, "title") == "Countess"

    open_list(page, "Operation records")
    search(page, key)
    expect_on_reload(page, page.get_by_role("row", name="users.read"))
    page.get_by_role("row", name="users.update").get_by_role("link").click()
    expect(page.get_by_role("row", name="title")).to_contain_text("Countess")
    expect_to_fit_a_telephone(page)


def open_list(page: Page, resource: str) -> None:
    """Open the list of a resource from the first page of the admin."""
    page.goto("/admin/")
    page.locator("#content-main").get_by_role("link", name=resource, exact=True).click()


def create_role(page: Page, name: str, granted: tuple[str, ...]) -> None:
    open_list(page, "Roles")
    page.get_by_role("link", name="Add role").click()
    page.get_by_label("Name").fill(name)
    for permission in granted:
        page.get_by_label(f"({permission})").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist .success")).to_contain_text(name)
    expect(page.get_by_role("row", name=name)).to_contain_text(f"{len(granted)}")


def create_key(page: Page, name: str, role: str) -> str:
    """Create a key and return its value, which the console shows and which is not there a second time."""
    open_list(page, "API keys")
    page.get_by_role("link", name="Add API key").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Role").select_option(role)
    page.get_by_role("button", name="Save", exact=True).click()
    value = page.get_by_label("X-API-Key").input_value()
    page.reload()
    expect(page.get_by_label("X-API-Key")).to_have_count(0)
    assert value not in page.content()
    return value


def link(page: Page, key: str, connection: DirectoryConnection) -> str:
    """Link the key to the connection and return the Client ID."""
    open_list(page, "Directory links")
    page.get_by_role("link", name="Add directory link").click()
    page.get_by_label("Key").select_option(key)
    page.get_by_label("Directory").select_option(connection.name)
    page.get_by_role("button", name="Save", exact=True).click()
    client_id = page.get_by_role("row", name=key).locator(".field-client_id").inner_text()
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", client_id)
    return client_id


def search(page: Page, text: str) -> None:
    form = page.get_by_role("search")
    form.get_by_role("textbox").fill(text)
    form.get_by_role("button", name="Search").click()
    page.wait_for_url(f"**q={text}*")


def expect_to_fit_a_telephone(page: Page) -> None:
    """Nothing reaches beyond the page's edge on a narrow screen; what is wider scrolls by itself."""
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 1280, "height": 800})
