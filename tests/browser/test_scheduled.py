"""A change for a while in a real browser: times are typed as the reader's clock shows them."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from approvals.models import ChangeRequest
from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.domain import Domain
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks
from tests.support.cast import make_connection, make_integration, make_person

OBJECTS = "/console/directory/objects"
TOKYO = timedelta(hours=9)


@pytest.fixture
def connection(transactional_db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain)


@pytest.fixture
def bob(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Bob Babbage", parent=organizational_unit)


def test_disabled_until_monday(
    sign_in: SignIn, connection: DirectoryConnection, directory: Directory, bob: UUID, organizational_unit: str
) -> None:
    page = sign_in(make_person("alex", superuser=True))
    assert page.context.browser is not None
    tokyo = page.context.browser.new_context(
        base_url=page.url.split("/console")[0], timezone_id="Asia/Tokyo", storage_state=page.context.storage_state()
    )
    desk: Page = tokyo.new_page()
    desk.goto(f"{OBJECTS}/{bob}/disable")
    desk.get_by_text("When, and for how long").click()
    until = (datetime.now(UTC) + timedelta(days=3)).replace(second=0, microsecond=0)
    desk.get_by_label("Until (local time)").fill(f"{until + TOKYO:%Y-%m-%dT%H:%M}")
    desk.get_by_label("Reason").fill("On leave until Monday")
    expect_good_looks(desk, "change-for-a-while")
    desk.get_by_role("button", name="Disable").click()
    expect(desk.get_by_text("Ends by itself:")).to_be_visible()
    expect_good_looks(desk, "object-that-changes-back")
    end = ChangeRequest.objects.get()
    assert end.due_at == until
    group = directory.add_group("Engine Room", parent=organizational_unit)
    key = make_integration(connection, owner=make_person("ida", superuser=True))
    for days, user in enumerate((bob, directory.add_user("Eve Menabrea", parent=organizational_unit)), 1):
        times = {"X_Apply_At": (timezone.now() + timedelta(days=days)).isoformat(), "X_Revert_After": "PT8H"}
        assert key.post(f"/api/ad/groups/{group}/members", {"add": [str(user)]}, **times).status == 202
    ChangeRequest.objects.filter(id=end.id).update(made_at=timezone.now())
    desk.goto("/console/scheduled/")
    day = f"{until + TOKYO:%A, %B %-d, %Y}"
    expect(desk.get_by_role("rowheader", name=day)).to_be_visible()
    expect_good_looks(desk, "scheduled")
    desk.get_by_role("link", name="Enable").click()
    expect_good_looks(desk, "end-of-a-change")
    desk.get_by_label("Ends at").fill(f"{until + TOKYO + timedelta(days=7):%Y-%m-%dT%H:%M}")
    desk.get_by_role("button", name="Move the end").click()
    expect(desk.get_by_text("The end was moved.")).to_be_visible()
    end.refresh_from_db()
    assert end.due_at == until + timedelta(days=7)
    ChangeRequest.objects.filter(id=end.id).update(status="overdue")
    desk.goto("/console/scheduled/")
    expect(desk.get_by_role("heading", name="Overdue")).to_be_visible()
    expect_good_looks(desk, "scheduled-overdue")
    desk.get_by_role("button", name="New address").click()
    expect(desk.get_by_label("Secret address")).to_have_value(re.compile(r"/calendar\.ics\?secret=dgc_"))
    expect_good_looks(desk, "scheduled-calendar")
    desk.goto(f"{OBJECTS}/{group}")
    desk.get_by_role("link", name="Make a rule").click()
    desk.get_by_label("Longest duration").fill("8")
    desk.get_by_label("Default duration").fill("2")
    desk.get_by_label("Require a reason to add members").check()
    expect_good_looks(desk, "membership-rule")
    desk.get_by_role("button", name="Save").click()
    expect(desk.get_by_text("given for at most 8 hours")).to_be_visible()
    expect_good_looks(desk, "membership-rules")
    desk.get_by_role("link", name="Engine Room", exact=True).click()
    expect(desk.get_by_text("given for at most 8 hours")).to_be_visible()
    expect_good_looks(desk, "group-with-a-rule")
    desk.goto(f"{OBJECTS}/{group}/members/add?add={bob}")
    desk.get_by_role("button", name="Preview").click()
    expect(desk.get_by_text("(empty) → for 2 hours")).to_be_visible()
    ends = f"{datetime.now(UTC) + timedelta(hours=2) + TOKYO:%Y-%m-%dT%H}"
    expect(desk.get_by_label("Until (local time)")).to_have_value(re.compile(ends))
    expect_good_looks(desk, "membership-by-a-rule")
