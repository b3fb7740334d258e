"""The pages of a directory object in a real browser: looked at, edited, moved, deleted, made, on the real domain."""

import re
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks
from tests.support.cast import make_connection, make_integration, make_person

OBJECTS = "/console/directory/objects"


@pytest.fixture
def connection(transactional_db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain)


@pytest.fixture
def administrator(sign_in: SignIn, connection: DirectoryConnection) -> Page:
    return sign_in(make_person("grace", superuser=True))


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user(
        "Ada Lovelace",
        parent=organizational_unit,
        password=PASSWORD,
        givenName="Ada",
        sn="Lovelace",
        displayName="Ada Lovelace",
        title="Analyst",
        mail="ada@corp.example.test",
        telephoneNumber="+44 20 7946 0001",
        department="Engines",
        company="Analytical Engines Ltd",
    )


def test_it_works(administrator: Page, directory: Directory, organizational_unit: str, ada: UUID) -> None:
    boss = directory.add_user("Charles Babbage", parent=organizational_unit)
    directory.modify(ada, manager=directory.dn(boss), thumbnailPhoto=b"\xff\xd8\xff\xe0" * 40)
    group = directory.add_group("Analysts", parent=organizational_unit, members=[ada], description="Who runs engines")
    administrator.goto(f"{OBJECTS}/{ada}")
    main = administrator.locator("main")
    expect(main.get_by_role("heading", level=1)).to_have_text("Ada Lovelace")
    for text in ("Enabled", "Analyst", "ada@corp.example.test", "Charles Babbage"):
        expect(main).to_contain_text(text)
    expect_good_looks(administrator, "object")
    for tab, text in (
        ("All attributes", "160 bytes"),
        ("Member of", "Primary group"),
        ("Access control", "Full control"),
        ("History", "Nothing was done"),
    ):
        administrator.get_by_role("link", name=tab).click()
        expect(main.locator("#object")).to_contain_text(text)
        expect(administrator.get_by_role("link", name=tab)).to_have_attribute("aria-current", "page")
        expect_good_looks(administrator, f"object-{tab.lower().replace(' ', '-')}")
    administrator.go_back()
    expect(administrator.get_by_role("link", name="Access control")).to_have_attribute("aria-current", "page")
    administrator.get_by_role("link", name="Overview").click()
    main.get_by_role("link", name="Charles Babbage").click()
    expect(main.get_by_role("heading", level=1)).to_have_text("Charles Babbage")
    administrator.goto(f"{OBJECTS}/{group}")
    expect_good_looks(administrator, "object-group")
    administrator.get_by_role("link", name="Members", exact=True).click()
    expect(main.locator("#object")).to_contain_text("Ada Lovelace")
    expect_good_looks(administrator, "object-members")


def test_an_organizational_unit(administrator: Page, directory: Directory, organizational_unit: str) -> None:
    directory.modify(organizational_unit, description="Engines and numbers", l="London")
    unit = directory.guid(organizational_unit)
    administrator.goto(f"{OBJECTS}/{unit}")
    main = administrator.locator("main")
    expect(main).to_contain_text("Engines and numbers")
    expect_good_looks(administrator, "object-unit")
    administrator.get_by_role("link", name="Delegations").click()
    expect(main).to_contain_text("Nothing is delegated here.")
    administrator.get_by_role("link", name="With those from above").click()
    expect(main).to_contain_text("Nothing is delegated here or above.")
    administrator.get_by_role("link", name="Enable or disable the accounts here").click()
    expect(administrator.locator("#unit")).to_have_value(organizational_unit)
    administrator.goto(f"{OBJECTS}/{unit}")
    main.get_by_role("navigation", name="Place").get_by_role("link").last.click()
    expect(main.get_by_role("heading", level=1)).to_have_text("corp")


def test_who_can(administrator: Page, connection: DirectoryConnection, ada: UUID) -> None:
    """Three answers below each other: by a key, who approves, and who needs no gateway."""
    owner = make_person("hopper", may=["directory.read_object", "directory.disable_account", "approvals.decide_change"])
    level = SupervisionLevel.ASK_EVERY_CHANGE
    key = make_integration(connection, may=["directory.disable_account"], owner=owner, level=level).key
    administrator.goto(f"{OBJECTS}/{ada}")
    administrator.get_by_role("link", name="Who can").click()
    tables = {
        name: administrator.get_by_role("region", name=name) for name in ("through the gateway", "approves", "itself")
    }
    expect(tables["through the gateway"]).to_contain_text(key.name)
    expect(tables["approves"]).to_contain_text(f"not what {key.name} requests")
    expect(tables["itself"].get_by_role("row", name="Domain Admins")).to_contain_text("given on this object")
    expect_good_looks(administrator, "object-who-can")


def test_editing(administrator: Page, directory: Directory, organizational_unit: str, ada: UUID) -> None:
    boss = directory.add_user(random_name("Babbage"), parent=organizational_unit)
    name = directory.text(boss, "cn") or ""
    administrator.goto(f"{OBJECTS}/{ada}")
    administrator.get_by_role("link", name="Edit").click()
    expect(administrator.get_by_role("heading", level=1)).to_have_text("Edit Ada Lovelace")
    expect_good_looks(administrator, "object-edit")
    administrator.get_by_label("Job title").fill("Countess")
    manager, chips = administrator.get_by_role("combobox", name="Manager"), administrator.locator(".chip")
    manager.press_sequentially(name[:-1])
    found = administrator.get_by_role("option", name=name)
    expect(found).to_have_attribute("aria-selected", "true")
    expect_good_looks(administrator, "object-edit-manager")
    manager.press("Escape")
    expect(found).to_be_hidden()
    for key in (name[-1], "ArrowDown", "Enter"):
        expect(found).to_be_visible() if key == "ArrowDown" else None
        manager.press(key)
    expect(chips).to_have_text(re.compile(name))
    expect(administrator.locator("[name='attributes.manager']")).to_have_value(directory.dn(boss))
    administrator.get_by_role("button", name=f"Remove {name}").press("Enter")
    expect(chips).to_have_count(0)
    manager.fill(name)  # the server resolves it
    administrator.get_by_label("Account expires").fill("2031-02-03T04:05")
    administrator.get_by_label("Attribute", exact=True).press_sequentially("otherTel")
    expect(administrator.locator("datalist option[value=otherTelephone]")).to_be_attached()
    administrator.get_by_label("Attribute", exact=True).fill("otherTelephone")
    administrator.get_by_label("Values, one a line").fill("1\n2")
    administrator.get_by_label("Job title").press("Enter")  # previews
    main = administrator.locator("main")
    expect(main.get_by_role("heading", level=1)).to_have_text("Save the changes of Ada Lovelace?")
    expect(main.locator(".said-details")).to_contain_text("→ Countess")
    expect_good_looks(administrator, "object-preview")
    directory.modify(ada, department="Numbers")
    administrator.get_by_label("Reason").fill("Ticket 4711")
    administrator.get_by_role("button", name="Save").click()
    expect(main).to_contain_text("Somebody has changed this object since you opened it.")
    expect(main.locator("del", has_text="Engines")).to_be_visible()
    expect_good_looks(administrator, "object-preview-stale")
    administrator.get_by_role("button", name="Save").click()
    expect(main).to_contain_text("The changes of Ada Lovelace are saved.")
    assert directory.text(ada, "title") == "Countess"
    assert directory.text(ada, "manager") == directory.dn(boss)
    assert directory.text(ada, "department") == "Numbers"
    assert sorted(directory.read(ada)["otherTelephone"]) == [b"1", b"2"]
    administrator.get_by_role("link", name="See its log record").click()
    expect(main).to_contain_text("Ticket 4711")
    administrator.goto(f"{OBJECTS}/{ada}/history")
    expect_good_looks(administrator, "object-history-of-a-change")
    administrator.get_by_role("link", name="Timeline").click()
    administrator.get_by_role("slider").press("Home")
    expect(main).to_contain_text("Before the first change that the log knows")
    expect_good_looks(administrator, "object-timeline")
    administrator.get_by_role("link", name="History").click()
    administrator.get_by_role("link", name="Undo").click()
    administrator.get_by_role("button", name="Undo it").click()
    expect(main).to_contain_text("Undone.")
    assert directory.text(ada, "title") == "Analyst"


def test_a_refused_form_says_where(administrator: Page, ada: UUID) -> None:
    administrator.goto(f"{OBJECTS}/{ada}/edit")
    administrator.get_by_label("Manager").fill("Nobody")
    administrator.get_by_role("button", name="Preview").last.click()
    expect(administrator.locator(".field .error")).to_be_visible()
    expect(administrator.get_by_label("Manager")).to_have_attribute("aria-invalid", "true")
    expect_good_looks(administrator, "object-edit-refused")


def test_a_new_user(administrator: Page, directory: Directory, organizational_unit: str) -> None:
    last = random_name("King")
    administrator.goto(f"{OBJECTS}/{directory.guid(organizational_unit)}")
    administrator.get_by_role("link", name="New object here").click()
    expect(administrator.get_by_role("heading", level=1)).to_have_text("New object")
    expect_good_looks(administrator, "object-new-kinds")
    administrator.get_by_role("link", name="User").click()
    administrator.get_by_label("First name").press_sequentially("Ada")
    administrator.get_by_label("Last name").press_sequentially(last)
    expect(administrator.locator("main")).to_contain_text(f"It would be called Ada {last} and sign in as ada.")
    expect(administrator.get_by_label("Generate a strong password")).to_be_checked()
    administrator.get_by_label("The password to set").fill(PASSWORD)
    expect(administrator.get_by_label("This password:")).to_be_checked()
    administrator.get_by_label("Generate a strong password").check()
    administrator.get_by_label("Enabled: it can sign in at once").check()
    administrator.get_by_label("Must change the password").uncheck()
    expect_good_looks(administrator, "object-new-user")
    administrator.get_by_role("button", name="Preview").last.click()
    main = administrator.locator("main")
    expect(main).to_contain_text("it creates an enabled account")
    expect_good_looks(administrator, "object-new-user-preview")
    administrator.get_by_role("button", name="Create").click()
    expect(main.get_by_role("heading", level=1)).to_have_text(f"The password of Ada {last}")
    password = administrator.get_by_label("Password", exact=True).input_value()
    assert directory.can_sign_in(directory.guid(f"CN=Ada {last},{organizational_unit}"), password)
    administrator.get_by_role("link", name="Done").click()
    expect(main.get_by_role("heading", level=1)).to_have_text(f"Ada {last}")
    expect(main).not_to_contain_text(password)


def test_resetting_a_password(administrator: Page, directory: Directory, ada: UUID) -> None:
    directory.lock_out(ada)
    administrator.goto(f"{OBJECTS}/{ada}")
    expect(administrator.locator(".badge", has_text="Locked out")).to_be_visible()
    administrator.locator(".offers").get_by_role("link", name="Reset password").click()
    expect(administrator.get_by_label("Unlock the account too")).to_be_checked()
    expect_good_looks(administrator, "object-reset-password")
    administrator.get_by_label("Unlock the account too").uncheck()
    meaning = administrator.locator("#meaning")
    expect(meaning).to_contain_text("A new password does not unlock it.")
    administrator.get_by_label("Unlock the account too").check()
    expect(meaning).not_to_contain_text("A new password does not unlock it.")
    administrator.get_by_label("Must be changed at the next sign-in").uncheck()
    administrator.get_by_label("Reason").fill("Forgotten")
    administrator.get_by_role("button", name="Reset the password").click()
    field = administrator.get_by_label("Password", exact=True)
    password = field.input_value()
    administrator.get_by_role("button", name="Copy").click()
    assert administrator.evaluate("navigator.clipboard.readText()") == password
    assert directory.can_sign_in(ada, password)
    expect_good_looks(administrator, "object-password")
    administrator.reload()
    expect(administrator.get_by_role("heading", level=1)).to_have_text("The password was shown")
    assert password not in administrator.content()
    assert directory.can_sign_in(ada, password), "reloading has reset nothing"
    assert OperationRecord.objects.filter(operation="users.reset-password", outcome="succeeded").count() == 1
    expect_good_looks(administrator, "object-password-shown")
    administrator.get_by_role("link", name="Done").click()
    expect(administrator.locator("main")).not_to_contain_text(password)


def test_moving_and_deleting(administrator: Page, directory: Directory, organizational_unit: str, ada: UUID) -> None:
    below = directory.add_unit("Below", parent=organizational_unit)
    guid = directory.guid(below)
    main = administrator.locator("main")
    administrator.goto(f"{OBJECTS}/{ada}/move")
    administrator.get_by_label("New place").fill(organizational_unit)
    administrator.get_by_text("Choose from the tree").click()
    administrator.locator(f"button[data-value='{below}']").click()
    expect(administrator.locator("#parent")).to_have_value(below)
    expect_good_looks(administrator, "object-move")
    administrator.get_by_role("button", name="Preview").click()
    expect(main.get_by_role("heading", level=1)).to_have_text("Move Ada Lovelace?")
    expect_good_looks(administrator, "object-move-preview")
    administrator.get_by_role("button", name="Move").click()
    expect(main).to_contain_text("Ada Lovelace is moved.")
    assert directory.dn(ada) == f"CN=Ada Lovelace,{below}"
    administrator.goto(f"{OBJECTS}/{guid}")
    administrator.get_by_role("link", name="Delete", exact=True).click()
    expect(main).to_contain_text("1 object below it is deleted too: 1 user.")
    expect_good_looks(administrator, "object-delete")
    administrator.get_by_label("Delete the object below it too").check()
    administrator.get_by_role("button", name="Delete").click()
    expect(main).to_contain_text("Below is deleted.")
    assert not directory.exists(ada)


def test_members_are_chosen_over_several_searches(
    administrator: Page, directory: Directory, organizational_unit: str
) -> None:
    first, second = random_name("Mary"), random_name("Sophie")
    people = [directory.add_user(name, parent=organizational_unit) for name in (first, second)]
    group = directory.add_group("Analysts", parent=organizational_unit)
    administrator.goto(f"{OBJECTS}/{group}/members")
    administrator.get_by_role("link", name="Add members").first.click()
    search, chips = administrator.locator("main").get_by_role("combobox"), administrator.locator(".chip")
    for count, name in enumerate((first, second, first)):
        search.press_sequentially(name)
        administrator.get_by_role("option", name=name).click()
        expect(chips).to_have_count(min(count + 1, 2))
    search.press("Backspace")
    expect(chips).to_have_count(1)
    search.fill(second)
    expect(administrator.get_by_role("option", name=second)).to_be_visible()
    search.press("Enter")
    expect_good_looks(administrator, "object-add-members")
    administrator.get_by_role("button", name="Preview").click()
    administrator.get_by_role("button", name="Change the members").click()
    main = administrator.locator("main")
    expect(main).to_contain_text("The members of Analysts are changed.")
    assert directory.members(group) == {directory.dn(person) for person in people}
    administrator.goto(f"{OBJECTS}/{people[0]}/groups")
    administrator.get_by_role("button", name="Remove from Analysts").click()
    administrator.get_by_role("button", name="Change the members").click()
    expect(main.locator("#object")).not_to_contain_text("Analysts")
    assert directory.members(group) == {directory.dn(people[1])}


def test_what_waits_for_approval_is_told(administrator: Page, connection: DirectoryConnection, ada: UUID) -> None:
    key = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    assert key.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}).status == 202
    administrator.goto(f"{OBJECTS}/{ada}")
    expect_good_looks(administrator, "object-waiting")
    administrator.get_by_role("link", name="Change job title of Ada Lovelace").click()
    expect(administrator.locator("main ins")).to_have_text("Countess")


def test_a_reader_sees_but_is_offered_nothing(sign_in: SignIn, connection: DirectoryConnection, ada: UUID) -> None:
    reader = sign_in(make_person(may=["directory.read_object"]), f"{OBJECTS}/{ada}")
    expect(reader.locator("main")).to_contain_text("Analyst")
    expect(reader.locator(".offers")).to_have_count(0)
    expect_good_looks(reader, "object-of-a-reader")
    assert reader.request.get(f"{OBJECTS}/{ada}/edit").status == 403
