"""Change requests in Django admin, in a real browser: everything is to be seen without scrolling sideways."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from approvals import queue
from approvals.models import ChangeRequest
from directory.shapes.proposal import AttributeChange, Target
from tests.approvals.proposals import SECURITY, make_proposal
from tests.audit.calls import make_call
from tests.browser.conftest import SignIn
from tests.support.cast import make_person

LONG = "CN=Augusta Ada King\\, Countess of Lovelace,OU=Analytical Engines and Difference Engines,OU=Staff,OU=London"


@pytest.fixture
def held(transactional_db: None) -> ChangeRequest:
    target = Target(id=None, kind="user", distinguished_name=f"{LONG},DC=corp,DC=example,DC=test")
    changes = (
        AttributeChange("servicePrincipalName", ("HTTP/old.corp.example.test",), ("HTTP/new.corp.example.test",)),
        AttributeChange("member", (), tuple(f"CN=member {number},{LONG}" for number in range(5))),
    )
    call = make_call(reason="Ticket 4711: the new engine needs another name, as discussed with its owner on Monday")
    request = queue.hold(
        call,
        operation="organization-units.disable-accounts",
        arguments={},
        query={},
        document={},
        proposal=make_proposal(*changes, target=target, protected=True),
        assessment=SECURITY,
    )
    ChangeRequest.objects.filter(id=request.id).update(
        first_approved_by="grace.murray.hopper",
        first_approved_by_id=7,
        first_approved_at=timezone.now() - timedelta(hours=1),
        first_comment="Seen with the owner",
        requester="CORP\\augusta.ada.king",
        key_name="the human resources department's nightly synchronisation",
    )
    return request


def expect_to_fit(page: Page) -> None:
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 1280, f"{page.url} is {width} wide"
    for table in page.locator("#content table").all():
        sizes = table.evaluate("table => [table.scrollWidth, table.parentElement.clientWidth]")
        assert sizes[0] <= sizes[1], f"a table of {page.url} is {sizes[0]} wide in {sizes[1]}"


def test_the_list_and_a_request_fit(sign_in: SignIn, held: ChangeRequest) -> None:
    page = sign_in(make_person(superuser=True), "/admin/")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("/admin/approvals/changerequest/")
    row = page.get_by_role("row", name="organization-units.disable-accounts")
    for text in (
        "Pending",
        "security",
        "CORP\\augusta.ada.king",
        "key the human",
    ):
        expect(row).to_contain_text(text)
    expect_to_fit(page)
    row.get_by_role("link").first.click()
    for text in ("grace.murray.hopper", "Ticket 4711"):
        expect(page.locator("#content")).to_contain_text(text)
    expect_to_fit(page)
    expect(page.get_by_role("link", name="In the console")).to_have_attribute("href", f"/console/changes/{held.id}")
