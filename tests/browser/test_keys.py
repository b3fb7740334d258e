"""Access in a real browser: a key from the first step of setting it up to its end, roles, people and connections."""

import re

import pytest
from playwright.sync_api import Page, expect

from directory.models import DirectoryConnection
from keys.models import ApiKey, Role
from lab.directory import Directory, random_name
from lab.domain import Domain
from lab.gateway import LiveGateway
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks, expect_on_reload
from tests.support.cast import Integration, make_connection, make_integration, make_person


@pytest.fixture
def connection(transactional_db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain, name="Corp")


@pytest.fixture
def administrator(sign_in: SignIn, connection: DirectoryConnection) -> Page:
    return sign_in(make_person("grace", superuser=True), "/console/keys/")


@pytest.fixture
def integration(connection: DirectoryConnection) -> Integration:
    """Its owner may read only, its role gives more."""
    return make_integration(
        connection, may=["directory.read_object", "directory.unlock_account"], owner_may=["directory.read_object"]
    )


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
    page.get_by_role("link", name="Set up an integration").first.click()
    page.get_by_label("Create a role for it").check()
    page.get_by_label("Name", exact=True).fill(role)
    page.get_by_label("Read objects").check()
    page.get_by_label("Change users").check()
    page.get_by_text("Choose from the tree").click()
    name = organizational_unit.partition(",")[0].removeprefix("OU=")
    page.locator("summary", has_text=f"In {name}").click()
    page.get_by_role("button", name="Staff").click()
    expect(page.locator("#scopes")).to_have_value(directory.dn(staff))
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
    page.get_by_role("button", name="Create the role and the key").click()

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
    expect(page.locator("main")).to_contain_text("If it was lost, rotate the key.")
    assert value not in page.content()
    assert ApiKey.objects.count() == 1
    expect_good_looks(page, "key-value-shown")
    page.get_by_role("link", name="To the key").click()
    page.wait_for_url(f"**/console/keys/{made.id}")
    expect(page.locator(".permission-table")).to_contain_text("Change users")
    expect_on_reload(page, page.get_by_role("link", name="Search users").first)
    assert value not in page.content()
    expect_good_looks(page, "key")


def test_a_key_to_its_end(administrator: Page, integration: Integration, live_gateway: LiveGateway) -> None:
    """Why it may not do all that its role gives, a new value beside the old one, and no value at all."""
    page, key = administrator, integration.key
    headers = {"X-API-Key": integration.value, "X-Client-Id": str(integration.client_id)}
    assert live_gateway.request("GET", "/api/ad/users?pageSize=1", headers=headers)[0] == 200
    expect_on_reload(page, page.get_by_role("row", name=key.name).get_by_text("127.0.0.1"))
    expect_good_looks(page, "keys")
    page.get_by_role("link", name=key.name).click()
    row = page.get_by_role("row", name="Unlock accounts")
    expect(row).to_contain_text("does not hold it")
    expect(row).to_contain_text("May not")
    expect_on_reload(page, page.get_by_role("link", name="Search users"))
    expect(page.get_by_text("1 operation in 14 days")).to_be_visible()
    expect(page.get_by_text("from 127.0.0.1.")).to_be_visible()
    expect_good_looks(page, "key-of-somebody-with-less")
    page.get_by_role("link", name="All of them in the operations log").click()
    expect(page).to_have_url(re.compile("/console/log/.*" + key.name))
    page.go_back()

    page.get_by_label("The old value stays valid for").select_option("an hour")
    page.get_by_role("button", name="Rotate").click()
    value = page.get_by_label("API key, sent in X-API-Key").input_value()
    assert value != integration.value
    page.get_by_role("button", name="Test read").click()
    expect(page.locator("#test-told p")).to_have_count(2)
    expect(page.locator("#test-told")).to_contain_text(f"the key acts as {key.owner.username} in Corp")
    expect_good_looks(page, "key-rotated")
    assert integration.get("/api/me").status == 200, "both values are valid for an hour"
    page.get_by_role("link", name="I have saved it").click()
    expect(page.get_by_text("still valid, ends in")).to_be_visible()

    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Ask before every change").check()
    expect_good_looks(page, "key-edit")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. It applies from the key's next request on.")).to_be_visible()
    expect(page.get_by_role("region", name="Supervision")).to_contain_text("Ask before every change")
    page.get_by_text("Revoke it…").click()
    page.get_by_role("button", name=f"Revoke {key.name}").click()
    expect(page.get_by_text("Every request with it is refused from now on.")).to_be_visible()
    expect(page.get_by_text("It is revoked. This is what it could do otherwise.")).to_be_visible()
    for gone in (page.get_by_role("button", name="Rotate"), page.get_by_text("still valid, ends in")):
        expect(gone).to_have_count(0)
    expect_good_looks(page, "key-revoked")
    assert integration.get("/api/me").status == 401
    page.get_by_text("Delete it…").click()
    page.get_by_role("button", name=f"Delete {key.name}").click()
    expect(page.get_by_text("What it did is still in the operations log.")).to_be_visible()
    assert not ApiKey.objects.exists()


def test_a_role_is_edited_in_the_sight_of_its_keys(administrator: Page, integration: Integration) -> None:
    page, key = administrator, integration.key
    page.get_by_role("navigation").get_by_role("link", name="Roles").click()
    expect_good_looks(page, "roles")
    page.get_by_role("link", name=key.role.name).click()
    expect(page.get_by_role("region", name="Keys with this role")).to_contain_text(key.name)
    expect_good_looks(page, "role")
    page.get_by_role("link", name="Edit").click()
    accounts = page.get_by_role("group", name="Accounts", exact=True)
    expect(accounts.get_by_label("Unlock accounts")).to_be_checked()
    accounts.get_by_label("Unlock accounts").uncheck()
    page.get_by_role("group", name="Users", exact=True).get_by_label("Delete users").check()
    told = page.locator("#means")
    expect(told).to_contain_text(f"Saved, this changes what 1 key may do: {key.name}.")
    expect(told).to_contain_text("No longer: unlock accounts.")
    expect(told).to_contain_text("delete users.")
    expect_good_looks(page, "role-edit")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. It applies to every key with this role")).to_be_visible()
    told_now = integration.get("/api/me").body["permissions"]
    assert told_now == ["directory.read_object"], "its owner may not delete users"
    assert sorted(key.role.permissions.values_list("codename", flat=True)) == ["delete_user", "read_object"]


def test_a_person_is_given_less_and_leaves(administrator: Page, integration: Integration) -> None:
    page, owner = administrator, integration.key.owner
    page.get_by_role("navigation").get_by_role("link", name="People").click()
    expect_good_looks(page, "people")
    page.get_by_role("link", name=owner.username).click()
    expect(page.get_by_role("region", name="Keys that act as them")).to_contain_text(integration.key.name)
    page.get_by_text("Deactivate…").click()
    expect_good_looks(page, "person")
    page.get_by_role("link", name="Change permissions").click()
    expect(page.get_by_text(f"1 key acts as {owner.username}: {integration.key.name}.")).to_be_visible()
    page.get_by_label("Read objects").uncheck()
    expect_good_looks(page, "person-permissions")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. It applies to them and their keys")).to_be_visible()
    assert integration.get("/api/me").body["permissions"] == []
    page.get_by_text("Deactivate…").click()
    page.get_by_role("button", name=f"Deactivate {owner.username}").click()
    expect(page.get_by_text("Nothing, until they are active again")).to_be_visible()
    assert integration.get("/api/me").status == 401
    page.goto("/console/people/new")
    page.get_by_label("User name").fill(owner.username)
    page.get_by_role("button", name="Create the account").click()
    expect(page.locator("main")).to_contain_text(f"There is a person called {owner.username} already")
    expect(page.get_by_label("User name")).to_have_value(owner.username)
    expect_good_looks(page, "person-new-refused")


def test_a_connection_is_tested(administrator: Page, connection: DirectoryConnection) -> None:
    page = administrator
    page.get_by_role("navigation").get_by_role("link", name="Connections").click()
    expect_good_looks(page, "connections")
    page.get_by_role("link", name="Corp").click()
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_text("The connection works.")).to_be_visible()
    expect(page.get_by_role("table", name="Servers")).to_contain_text("reached and signed in")
    expect_good_looks(page, "connection-tested")
    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("Its password")).to_have_value("")
    expect_good_looks(page, "connection-edit")
