"""An approver's day: a queue of two hundred changes of one batch, of which two differ, and a few others besides."""

from uuid import UUID

import pytest
from playwright.sync_api import Locator, Page, expect

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from lab.directory import Directory
from lab.domain import Domain
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks, press
from tests.support.cast import Integration, make_connection, make_integration, make_person

UNITS, PEOPLE = 200, 60


@pytest.fixture
def careful(transactional_db: None, domain: Domain) -> Integration:
    return make_integration(make_connection(domain), level=SupervisionLevel.ASK_EVERY_CHANGE)


class Keyboard:
    """The keys that a person presses, counted."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.count = 0

    def press(self, *keys: str) -> None:
        press(self._page, *keys)
        self.count += len(keys)

    def type(self, text: str) -> None:
        self._page.keyboard.type(text)
        self.count += len(text)


class Thumb:
    """The taps and typed letters of a person with a telephone, counted; what is tapped is never hidden."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.count = 0

    def tap(self, *places: Locator) -> None:
        for place in places:
            place.click()
            self.count += 1

    def decide(self, name: str, comment: str = "") -> None:
        """Press a button of the decision, which is in sight without scrolling and large enough."""
        decision = self._page.locator(".decision")
        button = decision.get_by_role("button", name=name)
        expect(button).to_be_in_viewport(ratio=1)
        box = button.bounding_box()
        assert box is not None
        assert box["height"] >= 44, box
        if comment:
            self.tap(decision.get_by_role("textbox", name="Comment"))
            self._page.keyboard.type(comment)
            self.count += len(comment)
        self.tap(button)


def hold_three_hundred(careful: Integration, directory: Directory, parent: str) -> list[UUID]:
    """Three batches, and 38 single calls. In each crowd are some that differ from the others."""
    units = [directory.guid(directory.add_unit(f"Team {n:03}", parent=parent)) for n in range(UNITS)]
    people = [
        directory.add_user(f"Person {n:02}", parent=parent, department="Legal" if n == 7 else "IT")
        for n in range(PEOPLE)
    ]
    groups = [directory.add_group(name, parent=parent) for name in ("Analysts", "Vault")]
    domain_admins = f"CN=Domain Admins,CN=Users,{directory.base_dn}"
    directory.add_values(domain_admins, member=[directory.dn(groups[1])])
    cities = [{"id": str(unit), "replace": {"l": "London"}} for unit in units]
    cities[31]["replace"] = {"l": "Lisbon"}
    cities[77]["replace"] = {"l": "London", "gPOptions": "1"}
    departments = [{"id": str(person), "replace": {"department": "Sales"}} for person in people[:40]]
    for path, items, why in (
        ("organization-units/batch/update", cities, "The offices have moved"),
        ("users/batch/update", departments, "One department"),
        ("users/batch/delete", [{"id": str(person)} for person in people[40:]], "They have left"),
    ):
        answer = careful.post(f"/api/ad/{path}", {"items": items}, **{"X-Change-Reason": why})
        assert answer.body["queued"] == len(items), answer
    singles = [
        *((f"users/{person}/reset-password", {"generate": True}, "Forgotten") for person in people[:14]),
        *((f"groups/{groups[n == 5]}/members", {"add": [str(people[n])]}, "Joiners") for n in range(20)),
        *((f"users/{person}/disable", None, "On leave") for person in people[20:26]),
    ]
    for path, body, why in singles:
        answer = careful.post(f"/api/ad/{path}", body, **{"X-Change-Reason": why})
        assert answer.status == 202, answer
    for operation in ("users.reset-password", "groups.change-members", "users.disable"):
        alike = ChangeRequest.objects.filter(operation=operation)
        alike.update(created_at=alike.earliest("id").created_at)  # in the same hour at any time
    directory.modify(people[20], userAccountControl="514")
    assert ChangeRequest.objects.filter(status="pending").count() == 300
    return units


def test_three_hundred_by_keyboard(
    sign_in: SignIn, careful: Integration, directory: Directory, organizational_unit: str
) -> None:
    """Whoever decides them sees all that differs, and presses at most 150 keys."""
    units = hold_three_hundred(careful, directory, organizational_unit)
    page = sign_in(make_person("grace", superuser=True), "/console/changes/")
    main, keys, heading = page.locator("main"), Keyboard(page), page.get_by_role("heading", level=1)
    exceptions = main.get_by_role("region", name="not like the other")
    lines = main.locator("tbody tr")
    expect(lines).to_have_count(6)
    expect(lines.nth(2)).to_contain_text("Change the members of 2 groups Analysts, Vault")
    page.set_viewport_size({"width": 1440, "height": 900})
    heights = [box["height"] for line in lines.all() if (box := line.bounding_box())]
    assert max(heights) < 70, f"two rows of text for each line: {heights}"
    expect_good_looks(page, "inbox")
    ticked, boxes = main.locator("[data-ticks]"), lines.get_by_role("checkbox")
    keys.press("*")
    expect(ticked).to_have_text("6 of 6 ticked.")
    keys.press("*", "j", "x", "j", "j", "X")
    expect(ticked).to_have_text("3 of 6 ticked.")
    boxes.nth(3).click()
    boxes.last.click(modifiers=["Shift"])
    expect(ticked).to_have_text("6 of 6 ticked.")
    keys.press("*", "x", "k", "x", "t")
    expect(main).to_contain_text("What you have ticked. 46 wait;")
    keys.press("b")
    expect(lines).to_have_count(6)

    keys.press("/")
    keys.type("offices")
    keys.press("Enter")
    expect(lines).to_have_count(1)
    for text in ("Change city and inheritance of group policies of 200 organizational units", "199 ordinary"):
        expect(lines).to_contain_text(text)
    keys.press("j", "Enter")
    expect(exceptions.get_by_role("row", name="Team 031")).to_contain_text("City: Lisbon instead of London")
    expect(exceptions.get_by_role("row", name="Team 077")).to_contain_text("Security instead of ordinary")
    expect(exceptions.get_by_role("row", name="Team 077")).to_contain_text("Also changes Inheritance of group policies")
    expect(main.get_by_role("region", name="Everything they would change")).to_contain_text("London (199), Lisbon (1)")
    expect(main).to_contain_text("they would be applied")
    expect(main).to_contain_text("198 of 200 ticked")
    expect_good_looks(page, "together")
    keys.press("r")
    keys.type("Agreed")
    keys.press("Tab", "a", "Enter")
    expect(main).to_contain_text("198 of 198 approved.")
    expect(exceptions.get_by_role("row")).to_have_count(3)
    keys.press("j", "x", "r")
    keys.type("Closed")
    keys.press("Tab", "Tab", "Enter")  # past the button that approves
    expect(main).to_contain_text("1 of 1 rejected.")
    keys.press("j", "x", "a", "Enter")
    expect(main).to_contain_text("None of them waits any more.")
    expect(main.locator("#progress")).to_contain_text("Applied 199")
    expect_good_looks(page, "together-left")
    assert (directory.text(units[5], "l"), directory.text(units[31], "l")) == ("London", None)
    assert ChangeRequest.objects.filter(status="applied", comment="Agreed", decided_by="grace").count() == 198

    keys.press("b")
    expect(main).to_contain_text("There is no such change request.")
    keys.press("/", "Delete", "Enter")
    expect(lines).to_have_count(5)
    keys.press("j", "Enter")
    expect(heading).to_have_text("Reset the password of 14 users")
    expect(main).to_contain_text("14 of 14 ticked.")
    keys.press("a", "Enter")
    expect(main).to_contain_text("14 of 14 approved.")
    main.get_by_role("button", name="Show the 14 generated passwords once").click()
    expect(main.get_by_role("row", name="Person 13")).to_be_visible()
    expect_good_looks(page, "passwords")

    keys.press("b")
    expect(lines).to_have_count(4)
    keys.press("j", "Enter")
    memberships = main.get_by_role("table", name="Memberships").locator("tbody tr")
    expect(memberships.first).to_contain_text("Vault protected")
    expect(memberships.first).to_contain_text("Person 05")
    expect(memberships.last).to_contain_text("Person 00, Person 01")
    expect(exceptions.get_by_role("row", name="Vault")).to_contain_text("A protected object")
    expect_good_looks(page, "together-memberships")
    keys.press("a", "Enter")
    expect(main).to_contain_text("19 of 19 approved.")
    keys.press("j", "x", "a", "Enter")
    expect(main).to_contain_text("1 of 1 approved.")

    keys.press("n")
    expect(main.get_by_role("region", name="What is lost")).to_be_visible()
    expect(main.get_by_role("listitem").filter(has_text="Person 59")).to_be_visible()
    expect(main).to_contain_text("they would be applied")
    expect_good_looks(page, "together-deletions")
    keys.press("a", "Enter")
    expect(main).to_contain_text("20 of 20 approved.")

    keys.press("n")
    expect(main).to_contain_text("1 would not be applied now:")
    expect(main).to_contain_text("5 of 6 ticked.")
    expect_good_looks(page, "together-stale")
    main.get_by_role("button", name="Reject the stale one").click()
    expect(main).to_contain_text("1 of 1 rejected.")
    expect(main).to_contain_text("5 of 5 ticked.")
    keys.press("a", "Enter")
    expect(main).to_contain_text("5 of 5 approved.")

    keys.press("n")
    expect(exceptions.get_by_role("row", name="Person 07")).to_contain_text("Department so far: Legal instead of IT")
    keys.press("a", "Enter")
    expect(main).to_contain_text("39 of 39 approved.")
    keys.press("j", "x", "r")
    keys.type("Why?")
    keys.press("Tab", "Tab", "Enter")
    expect(main).to_contain_text("1 of 1 rejected.")
    expect(main.locator("#progress")).to_contain_text("Applied 39")
    assert not ChangeRequest.objects.filter(status="pending").exists()
    assert ChangeRequest.objects.filter(status="applied").count() == 297
    assert keys.count <= 100, keys.count


def test_three_hundred_on_a_telephone(
    sign_in: SignIn, careful: Integration, directory: Directory, organizational_unit: str
) -> None:
    """The same day by thumb, with at most 150 taps and letters."""
    hold_three_hundred(careful, directory, organizational_unit)
    page = sign_in(make_person("grace", superuser=True), "/console/changes/")
    page.set_viewport_size({"width": 390, "height": 844})
    main, thumb = page.locator("main"), Thumb(page)
    exceptions = main.get_by_role("region", name="not like the other")
    lines = main.locator("tbody tr")
    expect(lines).to_have_count(6)
    for line in lines.all():
        box = line.bounding_box()
        assert box is not None
        assert box["height"] < 200, "four lines of the inbox are seen at once"

    def open_first(headline: str) -> None:
        thumb.tap(lines.first.get_by_role("link"))
        expect(page.get_by_role("heading", level=1)).to_have_text(headline)

    def tick(name: str) -> None:
        thumb.tap(exceptions.get_by_role("row", name=name).get_by_role("checkbox"))

    def next_waiting() -> None:
        thumb.tap(main.get_by_role("link", name="Next waiting"))

    open_first("Change city and inheritance of group policies of 200 organizational units")
    expect(main).to_contain_text("198 of 200 ticked")
    expect(exceptions.get_by_role("row", name="Team 031")).to_contain_text("City: Lisbon instead of London")
    expect_good_looks(page, "thumb-together")
    thumb.decide("Approve the ticked ones")
    expect(main).to_contain_text("198 of 198 approved.")
    tick("Team 031")
    thumb.decide("Reject the ticked ones", "Closed")
    expect(main).to_contain_text("1 of 1 rejected.")
    tick("Team 077")
    thumb.decide("Approve the ticked ones")
    expect(main).to_contain_text("None of them waits any more.")

    next_waiting()
    expect(main).to_contain_text("14 of 14 ticked.")
    thumb.decide("Approve the ticked ones")
    expect(main).to_contain_text("14 of 14 approved.")
    thumb.tap(main.get_by_role("button", name="Show the 14 generated passwords once"))
    expect(main.get_by_role("row", name="Person 13")).to_be_visible()
    page.go_back()
    thumb.tap(main.get_by_role("link", name="Approvals", exact=True))

    open_first("Change the members of 2 groups")
    expect(exceptions.get_by_role("row", name="Vault")).to_contain_text("A protected object")
    thumb.decide("Approve the ticked ones")
    expect(main).to_contain_text("19 of 19 approved.")
    tick("Vault")
    thumb.decide("Approve the ticked ones")
    expect(main).to_contain_text("1 of 1 approved.")

    next_waiting()
    expect(main.get_by_role("region", name="What is lost")).to_be_visible()
    thumb.decide("Approve the ticked ones")
    expect(main).to_contain_text("20 of 20 approved.")

    next_waiting()
    expect(main).to_contain_text("1 would not be applied now:")
    thumb.tap(main.get_by_role("button", name="Reject the stale one"))
    expect(main).to_contain_text("5 of 5 ticked.")
    thumb.decide("Approve the ticked ones")
    expect(main).to_contain_text("5 of 5 approved.")

    next_waiting()
    expect(exceptions.get_by_role("row", name="Person 07")).to_contain_text("Department so far: Legal instead of IT")
    thumb.decide("Approve the ticked ones")
    expect(main).to_contain_text("39 of 39 approved.")
    tick("Person 07")
    thumb.decide("Reject the ticked ones", "Why?")
    expect(main.locator("#progress")).to_contain_text("Applied 39")
    assert not ChangeRequest.objects.filter(status="pending").exists()
    assert ChangeRequest.objects.filter(status="applied").count() == 297
    assert thumb.count <= 50, thumb.count


def test_one_change_is_decided_from_anywhere_on_its_page(
    sign_in: SignIn, careful: Integration, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user("Ada", parent=organizational_unit)
    held = careful.patch(f"/api/ad/users/{user}", {"replace": {"title": "Countess"}}).body["changeRequest"]["id"]
    page = sign_in(make_person("grace", superuser=True), f"/console/changes/{held}")
    for size in ((1440, 900), (390, 844)):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        for place in (0, 10_000):
            page.evaluate("top => scrollTo(0, top)", place)
            for name in ("Approve", "Reject"):
                expect(page.locator(".decision").get_by_role("button", name=name)).to_be_in_viewport(ratio=1)


def test_from_one_to_the_next(
    sign_in: SignIn, careful: Integration, directory: Directory, organizational_unit: str
) -> None:
    """A stale one is asked for anew, a question is asked and answered, a run is looked at, and what follows is told."""
    unit = directory.guid(organizational_unit)
    ada, bea = (directory.add_user(name, parent=organizational_unit) for name in ("Ada Lovelace", "Bea Example"))
    group = directory.add_group("Analysts", parent=organizational_unit, members=[bea])
    accounts = f"/api/ad/organization-units/{unit}/accounts/disable"
    for answer in (
        careful.post(f"/api/ad/groups/{group}/members", {"add": [str(ada)]}),
        careful.post(accounts, {"kinds": ["user"]}),
        careful.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}),
    ):
        assert answer.status == 202, answer
    title = ChangeRequest.objects.get(operation="users.update")
    directory.modify(ada, title="Baroness")
    page = sign_in(make_person("grace", superuser=True), "/console/")
    main = page.locator("main")
    heading = page.get_by_role("heading", level=1)
    expect(page.get_by_role("navigation", name="Console")).to_contain_text("3 wait for your decision")

    page.get_by_role("link", name="Add Ada Lovelace to Analysts (1 member, then 2)").click()
    expect(main.locator(".said-details")).to_contain_text("1 other stays")
    page.get_by_label("Ask back").fill("For which project?")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(main.get_by_role("region", name="Questions and answers")).to_contain_text("For which project?")
    page.get_by_label("For", exact=True).fill("grace")
    page.get_by_role("button", name="Assign").click()
    expect(main).to_contain_text("Assigned to grace.")
    expect_good_looks(page, "approval-asked-back")
    owner = sign_in(careful.key.owner, page.url)
    owner.get_by_role("textbox", name="Answer").fill("The engine")
    owner.get_by_role("button", name="Answer", exact=True).click()
    page.reload()
    expect(main.get_by_role("region", name="Questions and answers")).to_contain_text("The engine")
    press(page, "a", "Enter")

    expect(heading).to_have_text(f"Disable 2 accounts in {organizational_unit.partition(',')[0].removeprefix('OU=')}")
    expect(page.locator("#decided")).to_contain_text("Add Ada Lovelace to Analysts")
    expect(page.locator("#decided .badge")).to_have_text("Applied")
    expect(main.locator(".tally")).to_contain_text("2 will be disabled")
    expect(main.get_by_role("row", name="Bea Example")).to_contain_text("Will be disabled")
    expect_good_looks(page, "approval-run")
    press(page, "n")

    expect(heading).to_have_text("Change job title of Ada Lovelace")
    expect(main).to_contain_text("It is stale.")
    expect_good_looks(page, "approval-stale")
    page.get_by_role("button", name="Ask for it anew").click()
    expect(main).to_contain_text("This new request has the present values")
    expect(main.locator(".said-details")).to_contain_text("Baroness → Countess")
    expect(main).to_contain_text("it would be applied")
    title.refresh_from_db()
    assert (title.status, title.comment) == ("rejected", "The values have changed since; it was asked for anew.")
    page.get_by_role("button", name="Approve").click()
    expect(heading).to_contain_text("Disable 2 accounts")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("link", name="each account and its result")).to_be_visible()
    expect(main.locator(".heading .badge").first).to_have_text("Applied")
    assert (directory.text(ada, "title"), directory.is_enabled(bea)) == ("Countess", False)
    assert directory.dn(ada) in directory.members(group)
