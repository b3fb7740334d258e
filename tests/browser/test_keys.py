"""API keys of the console in a real browser: from the first step of setting one up to its end."""

import re

import pytest
from playwright.sync_api import Page, expect

from directory.models import DirectoryConnection
from keys.models import ApiKey, Role
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks, expect_on_reload
from tests.support.cast import make_connection, make_person
from tests.support.directory import Directory, random_name
from tests.support.domain import Domain
from tests.support.gateway import LiveGateway


@pytest.fixture
def connection(transactional_db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain, name="Corp")


@pytest.fixture
def administrator(sign_in: SignIn, connection: DirectoryConnection) -> Page:
    return sign_in(make_person("grace", superuser=True), "/console/keys/")


def next_step(page: Page, heading: str) -> None:
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("heading", level=2, name=heading)).to_be_visible()


def test_it_works(
    administrator: Page,
    connection: DirectoryConnection,
    live_gateway: LiveGateway,
    directory: Directory,
    organizational_unit: str,
) -> None:
    """The six steps of setting up an integration, with a role of its own."""
    page = administrator
    staff = directory.guid(directory.add_unit("Staff", parent=organizational_unit))
    user = directory.add_user("Ada Lovelace", parent=directory.dn(staff))
    role, key = random_name("role"), random_name("key")
    page.get_by_role("link", name="Set up an integration").click()
    page.get_by_label("Make a role for it").check()
    page.get_by_label("Name", exact=True).fill(role)
    page.get_by_label("Read objects").check()
    page.get_by_label("Change users").check()
    page.get_by_text("Choose from the tree").click()
    name = organizational_unit.partition(",")[0].removeprefix("OU=")
    page.locator("summary", has=page.get_by_role("button", name=name)).click(position={"x": 8, "y": 8})
    page.get_by_role("button", name="Staff").click()
    expect(page.get_by_label("Confined to")).to_have_value(directory.dn(staff))
    page.get_by_text("Choose from the tree").click()
    expect_good_looks(page, "key-new-1-role")
    next_step(page, "What is the key called")
    page.get_by_label("Name", exact=True).fill(key)
    expect_good_looks(page, "key-new-2-key")
    next_step(page, "Which directory")
    expect(page.get_by_label("Corp")).to_be_checked()
    expect_good_looks(page, "key-new-3-directory")
    next_step(page, "Where does it run?")
    page.get_by_role("button", name="Add 127.0.0.1").click()
    expect_good_looks(page, "key-new-4-addresses")
    next_step(page, "Which of its changes wait")
    expect(page.get_by_label("Ask before destructive and security changes")).to_be_checked()
    expect_good_looks(page, "key-new-5-level")

    page.get_by_role("button", name="Back").click()
    expect(page.get_by_label("Allowed addresses")).to_have_value("127.0.0.1")
    page.get_by_role("link", name="Key and owner").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value(key)
    page.goto("/console/keys/new/check")
    for text in (role, "change users", "Staff", key, "acting as grace", "127.0.0.1", "Corp"):
        expect(page.locator("form.form")).to_contain_text(text)
    expect_good_looks(page, "key-new-6-check")
    assert not ApiKey.objects.exists()
    assert not Role.objects.exists()
    page.get_by_role("button", name="Make the role and the key").click()

    value = page.get_by_label("API key, sent in X-API-Key").input_value()
    page.get_by_role("button", name="Copy", exact=True).first.click()
    assert page.evaluate("navigator.clipboard.readText()") == value
    made = ApiKey.objects.get()
    assert (made.role.name, made.allowed_addresses) == (role, ["127.0.0.1"])
    page.get_by_role("button", name="Test read").click()
    told = page.locator("#test-told p")
    expect(told).to_have_count(2)
    expect(told.first).to_contain_text("the key acts as grace in Corp, with 2 permissions, confined to 1 scope")
    expect(told.last).to_contain_text("“Ada Lovelace”")
    expect_good_looks(page, "key-made")
    line = page.locator("#curl").inner_text()
    headers = dict(re.findall(r'-H "(.+?): (.+?)"', line))
    address = re.findall(r'"(http.+?)"$', line)[0]
    assert headers == {"X-API-Key": value, "X-Client-Id": str(made.links.get().client_id)}
    status, _, found = live_gateway.request("GET", address.removeprefix(live_gateway.base_url), headers=headers)
    assert (status, [item["id"] for item in found["items"]]) == (200, [str(user)])

    page.reload()
    assert value not in page.content()
    page.goto(f"/console/keys/{made.id}")
    expect(page.locator(".permission-table")).to_contain_text("Change users")
    expect_on_reload(page, page.get_by_role("link", name="Search users").first)
    assert value not in page.content()
    expect_good_looks(page, "key")
