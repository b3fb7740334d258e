"""What an integration is and has done, looked up in the back office; tests/browser/test_keys.py sets one up."""

from playwright.sync_api import Page, expect

from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.gateway import LiveGateway
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_on_reload
from tests.support.cast import make_integration, make_person


def test_it_works(
    sign_in: SignIn,
    connection: DirectoryConnection,
    live_gateway: LiveGateway,
    directory: Directory,
    organizational_unit: str,
) -> None:
    user = directory.add_user(parent=organizational_unit)
    integration = make_integration(connection)
    key, client_id = integration.key, integration.key.links.get().client_id
    page = sign_in(make_person(superuser=True), "/admin/")

    open_list(page, "Directory links")
    expect(page.get_by_role("row", name=key.name).locator(".field-client_id")).to_have_text(str(client_id))
    open_list(page, "API keys")
    page.get_by_role("link", name=key.name).click()
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    page.get_by_role("link", name="In the console").click()
    page.wait_for_url(f"**/console/keys/{key.id}")

    path, headers = f"/api/ad/users/{user}", {"X-API-Key": integration.value, "X-Client-Id": str(client_id)}
    status, _, found = live_gateway.request("GET", path, headers=headers)
    assert (status, found["id"]) == (200, str(user))
    status, _, changed = live_gateway.request("PATCH", path, body={"replace": {"title": "Countess"}}, headers=headers)
    assert (status, changed["attributes"]["title"]) == (200, ["Countess"])
    assert directory.text(user, "title") == "Countess"

    open_list(page, "Operation records")
    search(page, key.name)
    expect_on_reload(page, page.get_by_role("row", name="users.read"))
    page.get_by_role("row", name="users.update").get_by_role("link").click()
    expect(page.get_by_role("row", name="title")).to_contain_text("Countess")
    expect_to_fit_a_telephone(page)


def open_list(page: Page, resource: str) -> None:
    """Open the list of a resource from the first page of the admin."""
    page.goto("/admin/")
    page.locator("#content-main").get_by_role("link", name=resource, exact=True).click()


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
