"""Browsing, searching, filtering and restoring in a real browser, on a real domain."""

import csv

import pytest
from playwright.sync_api import Page, expect

from directory.models import DirectoryConnection
from lab.directory import Directory, filetime, random_name
from lab.domain import Domain
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks, press
from tests.support.cast import make_connection, make_person


@pytest.fixture
def connection(transactional_db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain)


@pytest.fixture
def administrator(sign_in: SignIn, connection: DirectoryConnection) -> Page:
    return sign_in(make_person("grace", superuser=True))


@pytest.fixture
def company(directory: Directory, organizational_unit: str) -> str:
    """A unit with two below it, and people in both."""
    for place, people in {"London": ["Ada Lovelace", "Charles Babbage"], "Paris": ["Sophie Germain"]}.items():
        unit = directory.add_unit(place, parent=organizational_unit)
        for number, name in enumerate(people):
            mail = f"{name.split(' ', maxsplit=1)[0].lower()}@corp.example.test"
            directory.add_user(name, parent=unit, title="Clerk", mail=mail, enabled=not number)
    return organizational_unit


def name_of(unit: str) -> str:
    return unit.partition(",")[0][3:]


def objects(page: Page) -> list[str]:
    """The names in the table of objects."""
    expect(page.locator("#found table, #found .empty")).to_be_visible()
    return page.locator("#found tbody th a").all_text_contents()


def texts(page: Page, column: str) -> list[str]:
    """What the table of objects says in a column."""
    return [text.strip() for text in page.locator(f"#found td[data-label='{column}']").all_text_contents()]


def test_it_works(administrator: Page, company: str) -> None:
    page = administrator
    page.get_by_role("link", name="Browse and search").click()
    tree = page.get_by_role("navigation", name="Containers")
    expect(page.locator("#found")).to_contain_text("Users")
    # Opening a container fetches what is in it, and leaves the page alone.
    tree.locator("summary", has_text=f"In {name_of(company)}").click()
    expect(tree.get_by_role("link", name="London")).to_be_visible()
    # Choosing one shows its objects, marks it, and gives the page an address of its own.
    tree.get_by_role("link", name="London").click()
    expect(page.get_by_role("heading", name="London")).to_be_visible()
    assert objects(page) == ["Ada Lovelace", "Charles Babbage"]
    expect(tree.locator("[aria-current]")).to_have_text("London")
    expect(page.locator("#found")).to_contain_text("Disabled")
    page.reload()
    assert objects(page) == ["Ada Lovelace", "Charles Babbage"]
    expect(tree.locator("[aria-current]")).to_have_text("London")
    expect_good_looks(page, "directory-container")
    tree.get_by_role("link", name="Paris").click()
    expect(page.get_by_role("heading", name="Paris")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="London")).to_be_visible()
    assert objects(page) == ["Ada Lovelace", "Charles Babbage"]


def test_the_tree_follows_the_keys(administrator: Page, directory: Directory, company: str) -> None:
    page = administrator
    page.goto(f"/console/directory/?base={directory.guid(company)}")
    tree = page.get_by_role("navigation", name="Containers")
    tree.get_by_role("link", name=name_of(company)).focus()
    press(page, "ArrowDown")
    expect(tree.get_by_role("link", name="London")).to_be_focused()
    press(page, "ArrowDown")
    expect(tree.get_by_role("link", name="Paris")).to_be_focused()
    press(page, "ArrowRight")
    expect(tree.get_by_text("No containers in it")).to_be_visible()
    press(page, "ArrowLeft", "ArrowLeft")
    expect(tree.get_by_role("link", name=name_of(company))).to_be_focused()
    press(page, "ArrowLeft")
    expect(tree.get_by_role("link", name="Paris")).to_be_hidden()
    with page.expect_response(lambda answer: str(directory.guid(company)) in answer.url and answer.ok):
        press(page, "Enter")
    expect(page.get_by_role("heading", name=name_of(company))).to_be_visible()
    page.wait_for_load_state("networkidle")  # the company is gone when the test ends


def test_a_search_is_sorted_paged_and_its_columns_are_chosen(
    administrator: Page, directory: Directory, company: str
) -> None:
    page = administrator
    page.goto(f"/console/directory/?base={directory.guid(company)}")
    page.get_by_label("Kind").select_option("Users")
    page.get_by_role("button", name="Search").click()
    assert objects(page) == ["Ada Lovelace", "Charles Babbage", "Sophie Germain"]
    page.locator("#found").get_by_role("link", name="Name", exact=True).click()
    expect(page.locator("#found th[aria-sort=descending]")).to_be_visible()
    assert objects(page) == ["Sophie Germain", "Charles Babbage", "Ada Lovelace"]
    expect_good_looks(page, "directory-search")

    page.locator("#found").get_by_text("Columns").click()
    page.get_by_label("Department").uncheck()
    page.get_by_label("Another attribute").press_sequentially("whenCr")
    expect(page.locator("#attribute-names option").first).to_have_attribute("value", "whenCreated")
    page.get_by_label("Another attribute").fill("whenCreated")
    expect_good_looks(page, "directory-columns")
    page.get_by_role("button", name="Show these").click()
    expect(page.locator("#found thead")).to_contain_text("Created")
    expect(page.locator("#found thead")).not_to_contain_text("Department")
    expect(page.locator("#found tbody")).to_contain_text("just now")

    page.goto(f"{page.url}&pageSize=2")
    assert objects(page) == ["Sophie Germain", "Charles Babbage"]
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("#found")).to_contain_text("Ada Lovelace")
    assert objects(page) == ["Ada Lovelace"]


def test_what_is_found_is_taken_away_as_csv(administrator: Page, directory: Directory, company: str) -> None:
    page = administrator
    page.goto(f"/console/directory/?base={directory.guid(company)}&kind=users&scope=subtree&attributes=title,mail")
    shown = zip(objects(page), texts(page, "Job title"), texts(page, "E-mail"), strict=True)
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename == "users.csv"
    with download.value.path().open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert [(row["name"], row["title"], row["mail"]) for row in rows] == list(shown)
    assert [row["name"] for row in rows] == ["Ada Lovelace", "Charles Babbage", "Sophie Germain"]


def test_a_filter_is_built_mended_saved_and_run(administrator: Page, directory: Directory, company: str) -> None:
    page = administrator
    page.goto(f"/console/directory/?base={directory.guid(company)}")
    objects(page)
    page.get_by_text("LDAP filter").click()
    page.get_by_label("Filter", exact=True).fill("(&(title=Clerk)(mail=ada*)")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".filter-stop mark")).to_have_text("◂ end")
    expect_good_looks(page, "directory-filter-malformed")
    page.get_by_label("Filter", exact=True).fill("(&(title=Clerk)(mail=ada*))")
    page.get_by_role("button", name="Search").click()
    assert objects(page) == ["Ada Lovelace"]

    page.get_by_role("button", name="Build it from conditions").click()
    expect(page.get_by_label("Value")).to_have_count(2)
    page.get_by_label("Value").nth(1).fill("sophie")
    expect(page.locator("#filter-made")).to_contain_text("(&(title=Clerk)(mail=sophie*))")
    page.get_by_role("button", name="Add a group").click()
    expect(page.get_by_label("Attribute")).to_have_count(3)
    page.get_by_label("Objects for which").nth(1).select_option("none of these holds")
    page.get_by_label("Attribute").nth(2).fill("department")
    page.get_by_label("Comparison").nth(2).select_option("has a value")
    expect(page.locator("#filter-made")).to_contain_text("(&(&(title=Clerk)(mail=sophie*))(!(department=*)))")
    expect_good_looks(page, "filter-builder")
    page.get_by_role("button", name="Search with it").first.click()
    page.wait_for_url("**/console/directory/?*")
    assert objects(page) == ["Sophie Germain"]

    page.get_by_role("button", name="Save as a filter").click()
    name = random_name("Clerks")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Columns").fill("title, nonsense")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#attributes-error")).to_be_visible()
    expect_good_looks(page, "saved-filter-refused")
    page.get_by_label("Columns").fill("title, mail")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert objects(page) == ["Sophie Germain"]
    expect_good_looks(page, "saved-filter-run")
    page.get_by_role("link", name="Saved filters").first.click()
    expect(page.get_by_role("row", name=name)).to_contain_text("you")
    expect_good_looks(page, "saved-filters")
    page.get_by_role("link", name=f"Edit {name}").click()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete the filter").click()
    expect(page.locator("main")).to_contain_text(f"{name} is deleted.")
    expect(page.get_by_role("row", name=name)).to_have_count(0)


def test_accounts_are_found_by_their_state(administrator: Page, directory: Directory, company: str) -> None:
    user = directory.add_user("Mary Somerville", parent=company)
    directory.modify(user, lastLogonTimestamp=filetime(-200 * 86_400))
    page = administrator
    page.get_by_role("link", name="Account states").click()
    expect_good_looks(page, "account-states")
    page.get_by_role("link", name="Inactive").click()
    page.get_by_text("Below a container").click()
    page.get_by_text("Choose from the tree").click()
    page.locator(".tree-choice").get_by_role("button", name=name_of(company), exact=True).click()
    expect(page.locator("#base")).to_have_value(company)
    page.get_by_label("For days").fill("150")
    page.get_by_role("button", name="Search").click()
    assert objects(page) == ["Mary Somerville"]
    expect(page.locator("#found")).to_contain_text("more than 150 days ago")
    expect_good_looks(page, "account-state")
    page.goto("/console/service-accounts/")
    objects(page)
    expect_good_looks(page, "service-accounts")


def test_somebody_deleted_is_brought_back_elsewhere(administrator: Page, directory: Directory, company: str) -> None:
    name = random_name("Ada")
    user = directory.add_user(name, parent=f"OU=London,{company}", title="Countess")
    directory.delete(user)
    directory.add_group(name, parent=f"OU=London,{company}")
    page = administrator
    page.get_by_role("link", name="Deleted objects").click()
    page.get_by_label("Name or account").fill(name)
    page.get_by_role("button", name="Search").click()
    assert objects(page) == [name]
    expect_good_looks(page, "deleted-objects")
    page.get_by_role("link", name=name).click()
    expect(page.locator("#preview")).to_contain_text("It would be refused.")
    expect(page.locator("main")).to_contain_text("Countess")
    page.get_by_role("button", name="Restore", exact=True).click()
    expect(page.locator("#problem")).to_contain_text(f"There is an object with the name '{name}'")
    expect_good_looks(page, "deleted-object-refused")

    page.get_by_text("Choose from the tree").click()
    choice = page.locator(".tree-choice")
    expect(choice.locator("[aria-current]")).to_have_text("London")  # where it was is open
    choice.get_by_role("button", name="Paris").click()
    expect(page.locator("#parent")).to_have_value(f"OU=Paris,{company}")
    expect(page.locator("#preview")).to_contain_text("The recycle bin has kept")
    expect(page.locator("#preview ins", has_text=f"CN={name},OU=Paris")).to_be_visible()
    expect_good_looks(page, "deleted-object")
    page.get_by_role("button", name="Restore", exact=True).click()
    page.wait_for_url(f"**/console/directory/objects/{user}")
    expect(page.locator("main .notice")).to_contain_text("is restored")
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert directory.dn(user) == f"CN={name},OU=Paris,{company}"
