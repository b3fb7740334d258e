"""How many clicks and keys a day's tasks take, at a desk and on a telephone."""

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from directory.models import ChangeTemplate
from lab.directory import Directory
from lab.domain import Domain
from tests.browser.conftest import SignIn
from tests.browser.looks import press
from tests.support.cast import make_connection, make_integration, make_person

SIZES: tuple[ViewportSize, ...] = ({"width": 1440, "height": 900}, {"width": 390, "height": 844})


class Hands:
    """The clicks and keys of one task, counted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = self.keys = 0

    def click(self, *places: Locator) -> None:
        for place in places:
            place.click()
            self.clicks += 1

    def press(self, *keys: str) -> None:
        press(self.page, *keys)
        self.keys += len(keys)


@pytest.mark.parametrize("size", SIZES, ids=("desk", "telephone"))
def test_counts(
    sign_in: SignIn,
    transactional_db: None,
    domain: Domain,
    directory: Directory,
    organizational_unit: str,
    size: ViewportSize,
) -> None:
    connection = make_connection(domain, identity_questions="Who is your boss?")
    unit = directory.guid(organizational_unit)
    crowd = [directory.add_user(f"Member {n}", parent=organizational_unit) for n in range(3)]
    directory.lock_out(crowd[0])
    asks = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    for name, value in (("l", "London"), ("title", "Analyst")):
        items = [{"id": str(each), "replace": {name: value}} for each in crowd]
        assert asks.post("/api/ad/users/batch/update", {"items": items}).body["queued"] == len(crowd)
    page = sign_in(make_person("grace", superuser=True), "/console/")
    page.set_viewport_size(size)
    main = page.locator("main")

    def button(name: str) -> Locator:
        return main.get_by_role("button", name=name)

    # A crowd of requests, however many, is read, approved, and the next one is there.
    page.goto("/console/changes/")
    hands = Hands(page)
    hands.click(main.locator("tbody a").first)
    for left in (3, 0):
        hands.click(button("Approve the ticked ones"))
        expect(main).to_contain_text("3 of 3 approved.")
        assert ChangeRequest.objects.filter(status="pending").count() == left
        if left:
            hands.click(main.get_by_role("link", name="Next waiting"))
    assert hands.clicks <= 4

    # A caller is locked out.
    page.goto("/console/")
    hands = Hands(page)
    caller = main.get_by_role("link", name="Member 0", exact=True)
    hands.click(caller, main.get_by_role("checkbox"), button("Unlock"))
    expect(main).to_contain_text("Unlock Member 0.")
    assert directory.text(crowd[0], "lockoutTime") == "0"
    assert hands.clicks <= 3

    # Five begin. Names are typed, too, and not counted.
    hire = ChangeTemplate.objects.create(
        name="Joiner",
        occasion="joiner",
        account="enable",
        connection=connection,
        parent_guid=unit,
        parent_dn=organizational_unit,
        attributes={"department": ["Sales"]},
    )
    page.goto(f"/console/templates/{hire.id}/use")
    hands = Hands(page)
    expect(page.get_by_label("First name")).to_be_focused()
    for first in ("Ada", "Bea", "Cem", "Dov", "Eve"):
        page.keyboard.type(first)
        hands.press("Tab")
        page.keyboard.type("Novak")
        hands.press("Enter")
        expect(button("Make the change")).to_be_visible()
        hands.press("a", "Enter")
        expect(main.get_by_role("status")).to_contain_text("1 change made.")
        assert directory.is_enabled(directory.guid(f"CN={first} Novak,{organizational_unit}"))
        hands.press("b")
        expect(page.get_by_label("First name")).to_be_focused()  # a page on its way would interrupt the next visit
    assert hands.keys <= 25

    # An incident: everybody of the unit, and all of them again.
    everybody = 8
    page.goto(f"/console/directory/objects/{unit}")
    hands = Hands(page)
    hands.click(main.get_by_role("link", name="Incident: disable everybody"), button(f"Disable {everybody} accounts"))
    expect(button(f"Undo exactly these {everybody}")).to_be_visible()
    assert not any(map(directory.is_enabled, crowd))
    assert hands.clicks <= 5
    hands = Hands(page)
    hands.click(button(f"Undo exactly these {everybody}"))
    expect(main).to_contain_text(f"{everybody} enabled")
    assert all(map(directory.is_enabled, crowd))
    assert hands.clicks == 1
