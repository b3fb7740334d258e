"""A day at the help desk in a real browser: callers let in again, a joiner and leavers, mistakes undone."""

from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from directory.models import DirectoryConnection
from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks, press
from tests.support.cast import make_connection, make_person

OBJECTS = "/console/directory/objects"
PHOTO = bytes.fromhex(  # the smallest JPEG of one grey dot
    "ffd8ffe000104a46494600010101004800480000ffdb004300"
    + "ff" * 64
    + "ffc0000b080001000101011100ffc40014000100000000000000000000000000000009ffc40014100100000000000000000000000000"
    "000000ffda0008010100003f0054dfffd9"
)
MAY = (
    *("read_object", "update_user", "delete_user", "enable_account", "disable_account", "unlock_account"),
    *("reset_password", "manage_membership", "move_object", "read_deleted", "restore_deleted"),
)


@pytest.fixture
def desk(sign_in: SignIn, transactional_db: None, domain: Domain) -> Page:
    make_connection(domain)
    names = [*(f"directory.{name}" for name in MAY), "audit.read_log", "audit.revert_change"]
    return sign_in(make_person("hana", may=names))


@pytest.fixture
def caller(directory: Directory, organizational_unit: str) -> UUID:
    """Somebody with all that a person can have, who has mistyped their password."""
    boss = directory.add_user("Charles Babbage", parent=organizational_unit)
    last = random_name("Lovelace")
    user = directory.add_user(
        f"Ada {last}",
        parent=organizational_unit,
        password=PASSWORD,
        givenName="Ada",
        sn=last,
        displayName=f"Ada {last}",
        title="Analyst",
        department="Engines",
        mail=f"ada.{last.lower()}@corp.example.test",
        telephoneNumber="+44 (0)20 7946-0018",
        manager=directory.dn(boss),
        thumbnailPhoto=PHOTO,
    )
    directory.lock_out(user)
    return user


def test_a_caller_is_found_and_let_in_again(desk: Page, directory: Directory, caller: UUID) -> None:
    name = directory.text(caller, "cn") or ""
    press(desk, "Control+k")
    desk.keyboard.type("020 79460018")
    press(desk, "Enter")
    main = desk.locator("main")
    expect(main).to_contain_text("telephone number ends with 079460018")
    expect_good_looks(desk, "helpdesk-found-by-telephone")
    main.get_by_role("link", name=name).click()
    card = desk.get_by_role("region", name="Can they sign in?")
    expect(card).to_contain_text("The account is locked out.")
    expect(card).to_contain_text("Event 4740")
    expect(main.get_by_role("link", name="+44 (0)20 7946-0018").first).to_have_attribute("href", "tel:+442079460018")
    expect(desk.get_by_alt_text(f"Photo of {name}")).to_be_visible()
    expect_good_looks(desk, "helpdesk-person")
    card.get_by_role("link", name="Unlock").click()
    desk.get_by_role("button", name="Unlock").click()
    expect(main).to_contain_text(f"{name} is unlocked. See its log record.")
    expect(card).to_contain_text("Nothing in the directory keeps them from signing in.")
    assert directory.can_sign_in(caller, PASSWORD)
    address = desk.url
    DirectoryConnection.objects.update(identity_questions="What is your number? {telephoneNumber}\nWho is your boss?")
    desk.goto("/console/call/")
    expect_good_looks(desk, "call")
    desk.get_by_label("Name or number").fill("020 79460018")
    press(desk, "Enter")
    expect(main.get_by_role("heading", name="Is it them?")).to_be_visible()
    expect_good_looks(desk, "call-person")
    desk.goto(address)
    # The manager, and whom they manage.
    main.get_by_role("link", name="Charles Babbage").click()
    expect(main.get_by_role("link", name=name)).to_be_visible()
    # A part of a word, found from any page.
    press(desk, "/")
    desk.keyboard.type(name[6:])
    press(desk, "Enter")
    expect(desk.get_by_role("region", name="People, looked through")).to_contain_text(name)


def test_a_caller_is_found_while_typing_and_let_in_by_keys(desk: Page, directory: Directory, caller: UUID) -> None:
    name = directory.text(caller, "cn") or ""
    press(desk, "Control+k")
    desk.keyboard.type(name)
    hit = desk.locator("#found-while-typing li")
    expect(hit).to_contain_text("Analyst")
    expect(hit).to_contain_text("Locked out")
    expect_good_looks(desk, "helpdesk-found-while-typing")
    for key in ("ArrowDown", "Escape"):
        desk.keyboard.press(key)
    expect(hit).to_have_count(0)
    desk.keyboard.press("Backspace")
    expect(hit).to_have_count(1)
    for key in ("ArrowDown", "u"):
        desk.keyboard.press(key)
    desk.get_by_role("button", name="Unlock").click()
    expect(desk.locator("main")).to_contain_text(f"{name} is unlocked.")
    assert directory.can_sign_in(caller, PASSWORD)


def test_a_joiner_and_leavers(desk: Page, directory: Directory, organizational_unit: str, caller: UUID) -> None:
    main = desk.locator("main")
    name, unit = directory.text(caller, "cn") or "", directory.guid(organizational_unit)
    joiner = directory.add_user("Joan Clarke", parent=organizational_unit, title="Cryptanalyst")
    groups = [directory.add_group(text, parent=organizational_unit, members=[caller]) for text in ("Engines", "Staff")]
    leavers = [directory.add_user(f"Leaver {number:02}", parent=organizational_unit) for number in range(22)]

    # The newcomer gets what a colleague has.
    desk.goto(f"{OBJECTS}/{joiner}")
    desk.get_by_role("link", name="Compare", exact=True).click()
    desk.get_by_label("With whom").press_sequentially(name)
    desk.get_by_role("option", name=name).click()
    desk.get_by_role("button", name="Compare").click()
    expect(main).to_contain_text("What differs")
    expect_good_looks(desk, "helpdesk-compare")
    desk.get_by_role("button", name="Give Joan Clarke the chosen groups").click()
    expect(main).to_contain_text("Add Joan Clarke to 2 groups?")
    desk.get_by_role("button", name="Add to 2 groups").click()
    expect(main).to_contain_text("2 joined.")
    assert all(directory.dn(joiner) in directory.members(group) for group in groups)

    # Those who leave are disabled together; one of them by mistake, so all of it is taken back.
    desk.goto(f"/console/directory/?base={unit}&q=Leaver")
    desk.get_by_label("Choose all").check()
    expect(main).to_contain_text("22 chosen")
    desk.get_by_label("What to do with the chosen").select_option("Disable")
    expect_good_looks(desk, "helpdesk-chosen")
    desk.get_by_role("button", name="With the chosen…").click()
    expect(desk.get_by_role("button", name="Disable all 22")).to_be_visible()
    expect_good_looks(desk, "helpdesk-many-preview")
    desk.get_by_label("Reason").fill("Left on Friday")
    desk.get_by_role("button", name="Disable all 22").click()
    expect(main.get_by_role("status")).to_contain_text("22 disabled.")
    expect_good_looks(desk, "helpdesk-many-done")
    assert not any(map(directory.is_enabled, leavers))
    desk.get_by_role("button", name="Undo…").click()
    desk.get_by_role("button", name="Undo all 22").click()
    expect(main.get_by_role("status")).to_contain_text("22 undone.")
    assert all(map(directory.is_enabled, leavers))

    # One of them really leaves: the list of what is then done, with its preview.
    desk.goto(f"{OBJECTS}/{leavers[0]}")
    desk.get_by_role("link", name="Joiner, mover, leaver").click()
    desk.get_by_role("link", name="Leaver…").click()
    expect(desk.get_by_label("Disable the account")).to_be_checked()
    expect_good_looks(desk, "helpdesk-leaver")
    desk.get_by_role("button", name="Preview").click()
    expect(main).to_contain_text("Leaver: Leaver 00?")
    desk.get_by_role("button", name="Make 2 changes").click()
    expect(main.get_by_role("status")).to_contain_text("2 changes made.")
    assert not directory.is_enabled(leavers[0])

    # A deletion says what is kept, and can be undone.
    desk.goto(f"{OBJECTS}/{joiner}/delete")
    expect(main).to_contain_text("The recycle bin keeps it")
    desk.get_by_role("button", name="Delete").click()
    expect(main).to_contain_text("Joan Clarke is deleted.")
    main.get_by_role("link", name="Undo").click()
    desk.get_by_role("button", name="Undo it").click()
    expect(main).to_contain_text("Undone.")
    assert directory.text(joiner, "title") == "Cryptanalyst"

    # What was typed is there again after a page that was left too soon; and gone when it was saved.
    desk.goto(f"{OBJECTS}/{joiner}/edit")
    desk.get_by_label("Job title").fill("Head of Hut 8")
    desk.goto("/console/")
    desk.goto(f"{OBJECTS}/{joiner}/edit")
    expect(main).to_contain_text("What you typed here before is back.")
    expect(desk.get_by_label("Job title")).to_have_value("Head of Hut 8")
    desk.get_by_role("button", name="Preview").last.click()
    desk.get_by_role("button", name="Save").click()
    expect(main).to_contain_text("The changes of Joan Clarke are saved.")
    directory.modify(joiner, title="Mathematician")
    desk.goto(f"{OBJECTS}/{joiner}/edit")
    expect(desk.get_by_label("Job title")).to_have_value("Mathematician")


def test_a_template_for_joiners(
    sign_in: SignIn, transactional_db: None, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    """Kept under a name, filled in, made in one go, and taken back."""
    make_connection(domain)
    team = directory.add_group("Sales team", parent=organizational_unit)
    keeper = sign_in(make_person("kim", superuser=True), "/console/templates/")
    keeper.get_by_role("link", name="New template").first.click()
    keeper.get_by_label("Name", exact=True).fill("Joiner Sales")
    keeper.get_by_label("For whom it is").fill("Everybody who begins in Sales")
    keeper.get_by_label("The account").select_option("enable")
    keeper.get_by_label("Place").fill(organizational_unit)
    keeper.get_by_label("Groups to join").fill(directory.dn(team))
    for number, (name, value) in enumerate((("title", "{job title}"), ("department", "Sales")), 1):
        keeper.locator(f"#attribute-{number}").fill(name)
        keeper.locator(f"#values-{number}").fill(value)
    expect_good_looks(keeper, "helpdesk-template-edit")
    keeper.get_by_role("button", name="Save").click()
    expect(keeper.locator("main")).to_contain_text("Joiner Sales is saved.")
    expect_good_looks(keeper, "helpdesk-templates")
    keeper.get_by_role("link", name="Use Joiner Sales").click()

    name = f"Grace {random_name('Hopper')}"
    main = keeper.locator("main")
    keeper.get_by_label("First name").fill("Grace")
    keeper.get_by_label("Last name").fill(name.partition(" ")[2])
    keeper.get_by_label("Job title").fill("Admiral")
    expect_good_looks(keeper, "helpdesk-template-use")
    keeper.get_by_role("button", name="Preview").click()
    expect(main).to_contain_text(f"Joiner Sales: {name}?")
    expect(main).to_contain_text(f"Add {name}")
    expect_good_looks(keeper, "helpdesk-template-preview")
    keeper.get_by_role("button", name="Make 2 changes").click()
    expect(main.get_by_role("status")).to_contain_text("2 changes made.")
    expect_good_looks(keeper, "helpdesk-template-done")
    there = keeper.url
    keeper.get_by_role("button", name="Show the password once").click()
    expect(main).to_contain_text("Copy it now")
    made = directory.guid(f"CN={name},{organizational_unit}")
    assert directory.text(made, "title") == "Admiral"
    assert directory.dn(made) in directory.members(team)
    keeper.goto(there)
    keeper.get_by_role("button", name="Undo…").click()
    keeper.get_by_role("button", name="Undo all 2").click()
    expect(main.get_by_role("status")).to_contain_text("2 undone.")
    assert not directory.exists(made)
    # Filters are folded on a telephone.
    keeper.set_viewport_size({"width": 390, "height": 900})
    keeper.goto("/console/people/")
    expect(keeper.get_by_label("Name", exact=True)).to_be_hidden()
    keeper.get_by_text("Filter", exact=True).first.click()
    expect(keeper.get_by_label("Name", exact=True)).to_be_visible()
