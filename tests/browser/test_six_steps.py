"""Setting up an integration in Django admin, step by step as the README tells it, in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from keys.models import Person
from lab.directory import Directory, random_name
from lab.domain import Domain
from lab.gateway import LiveGateway
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_on_reload
from tests.support.cast import make_integration, make_person


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
    page.get_by_role("textbox", name="Allowed addresses").fill("127.0.0.1")
    page.get_by_label("Ask before destructive and security changes").check()
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


def test_a_connection_with_a_wrong_password(
    sign_in: SignIn, administrator: Person, connection: DirectoryConnection, domain: Domain
) -> None:
    page = sign_in(administrator, "/admin/")
    open_list(page, "Directory connections")
    page.get_by_role("link", name=connection.name).click()
    set_password(page, "wrong")
    page.get_by_role("button", name="Test connection").click()
    expect(page.locator(".errornote")).to_have_text("The connection does not work.")
    expect(page.get_by_role("row", name=domain.url)).to_contain_text(re.compile("password", re.IGNORECASE))

    page.get_by_role("link", name=f"Back to {connection.name}").click()
    set_password(page, domain.bind_password)
    page.get_by_role("button", name="Test connection").click()
    expect(page.locator(".messagelist .success")).to_have_text("The connection works.")
    expect(page.get_by_role("row", name=domain.url)).to_contain_text("TLS")
    expect(page.get_by_role("row", name="Naming contexts")).to_contain_text(domain.base_dn)
    expect(page.get_by_role("row", name="Schema").get_by_text("attributes")).to_be_visible()
    assert domain.bind_password not in page.content()
    expect_to_fit_a_telephone(page)


def test_a_change_that_waits_for_another_person(
    sign_in: SignIn,
    administrator: Person,
    connection: DirectoryConnection,
    live_gateway: LiveGateway,
    directory: Directory,
    organizational_unit: str,
) -> None:
    user = directory.add_user(parent=organizational_unit)
    integration = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY, owner=administrator)
    approver = make_person(may=["approvals.decide_change", "audit.read_log", "directory.read_object"])
    Person.objects.filter(pk=approver.pk).update(is_staff=True)
    headers = {"X-API-Key": integration.value, "X-Change-Reason": "Left the company"}
    status, _, _ = live_gateway.request("POST", f"/api/ad/users/{user}/disable", headers=headers)
    assert status == 202

    page = open_request(sign_in(administrator, "/admin/"), directory.dn(user))
    expect(page.get_by_text("This is your own request")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)

    page = open_request(sign_in(approver, "/admin/"), directory.dn(user))
    expect(page.get_by_text("Left the company")).to_be_visible()
    control = page.get_by_role("row", name="userAccountControl")
    expect(control.locator("del")).not_to_contain_text("ACCOUNTDISABLE")
    expect(control.locator("ins")).to_contain_text("ACCOUNTDISABLE")
    expect_to_fit_a_telephone(page)
    page.get_by_label("Comment").fill("Agreed with the manager")
    assert directory.is_enabled(user)
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".messagelist .success")).to_contain_text("Approved")

    expect_on_reload(page, page.get_by_role("row", name="Status").get_by_text("Applied"))
    assert not directory.is_enabled(user)


def open_list(page: Page, resource: str) -> None:
    """Open the list of a resource from the first page of the admin."""
    page.goto("/admin/")
    page.locator("#content-main").get_by_role("link", name=resource, exact=True).click()


def create_role(page: Page, name: str, granted: tuple[str, ...]) -> None:
    open_list(page, "Roles")
    page.get_by_role("link", name="Add role").click()
    page.get_by_label("Name").fill(name)
    for permission in granted:
        page.get_by_role("listbox", name="Available permissions").get_by_text(permission).dblclick()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist .success")).to_contain_text(name)
    expect(page.get_by_role("row", name=name)).to_contain_text(f"{len(granted)}")


def create_key(page: Page, name: str, role: str) -> str:
    """Create a key and return its value, which is copied with the button and is not there a second time."""
    open_list(page, "API keys")
    page.get_by_role("link", name="Add API key").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Role").select_option(role)
    page.get_by_role("button", name="Save", exact=True).click()
    value = page.get_by_label("X-API-Key").input_value()
    expect_to_fit_a_telephone(page)
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("status")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == value
    page.reload()
    expect(page.get_by_text("There is no new value to show")).to_be_visible()
    assert value not in page.content()
    return value


def link(page: Page, key: str, connection: DirectoryConnection) -> str:
    """Link the key to the connection and return the Client ID; the key's page stays open."""
    open_list(page, "API keys")
    page.get_by_role("link", name=key).click()
    page.get_by_role("button", name="Add another Directory link").click()
    page.get_by_role("combobox", name="Directory", exact=True).select_option(connection.name)
    page.get_by_role("button", name="Save and continue editing").click()
    client_id = page.locator(".field-client_id .readonly").first.inner_text()
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", client_id)
    return client_id


def set_password(page: Page, password: str) -> None:
    """Give the connection whose page is open a bind password."""
    page.get_by_label("Bind password").fill(password)
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.locator(".messagelist .success")).to_be_visible()


def open_request(page: Page, target: str) -> Page:
    """Open the change request for a target from the list of those that wait."""
    open_list(page, "Change requests")
    page.get_by_role("row", name=target).get_by_role("link").click()
    return page


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
