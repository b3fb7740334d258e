"""A change that keeps the domain controller busy: the page says so while it waits, and follows it afterwards."""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from audit.models import OperationRecord
from lab.directory import Directory, random_name
from lab.domain import Domain
from lab.gateway import LiveGateway
from lab.samba.database import busy_with_a_write
from tests.browser.looks import expect_good_looks
from tests.support.cast import PASSWORD, make_connection, make_person
from tests.support.database import gateway_at

OBJECTS = "/console/directory/objects"
TELLS = """setInterval(() => {
  const notice = document.querySelector("form .under-way");
  if (!notice) return;
  const [shown, told] = [...notice.querySelectorAll("span span")].map((place) => place.textContent);
  const pressable = document.querySelectorAll("form.card button:enabled").length;
  console.debug(JSON.stringify({ says: notice.innerText, shown, told, pressable }));
}, 200)"""
"""Chromium lets nobody look at a page that waits for the answer to its form; the page itself goes on."""
PUT_THERE = 'document.querySelector("form.card").append(document.getElementById("under-way").content.cloneNode(true))'


@pytest.fixture
def web(transactional_db: None, tmp_path: Path) -> Iterator[LiveGateway]:
    """A web server that waits as long as it takes for a move, and for nothing else."""
    patience = {"Directory__OperationSeconds": "6", "Directory__SubtreeSeconds": "3600"}
    web = gateway_at(tmp_path, patience, processes=1)
    web.web.start_and_wait()
    yield web
    web.stop()


@pytest.fixture
def administrator(browser: Browser, web: LiveGateway, domain: Domain) -> Iterator[Page]:
    make_connection(domain)
    context = browser.new_context(base_url=web.base_url)
    context.set_default_timeout(120_000)
    person = make_person("grace", superuser=True)
    assert context.request.post("/rest/session", data={"username": person.username, "password": PASSWORD}).ok
    yield context.new_page()
    context.close()


def test_the_page_says_how_long_it_takes_already(
    administrator: Page, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    unit = directory.guid(directory.add_unit(random_name("large"), parent=organizational_unit))
    name = random_name("renamed")
    page = administrator
    page.goto(f"{OBJECTS}/{unit}/rename")
    page.get_by_label("New name").fill(name)
    page.get_by_role("button", name="Preview").click()
    button = page.get_by_role("button", name="Rename", exact=True)
    expect(button).to_be_visible()
    page.evaluate(PUT_THERE)
    expect_good_looks(page, "change-under-way")
    page.locator("form .under-way").evaluate("notice => notice.remove()")
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
    page.evaluate(TELLS)
    place = button.bounding_box()
    assert place is not None
    with busy_with_a_write(domain) as finish:
        with page.expect_console_message() as heard:
            with page.expect_request(lambda request: request.method == "POST"):
                page.mouse.click(place["x"] + 5, place["y"] + 5)
            page.mouse.click(place["x"] + 5, place["y"] + 5)
        first = json.loads(heard.value.text)
        assert "The domain controller is still working on it." in first["says"]
        assert first["told"] == "4 seconds"
        assert first["pressable"] == 0
        later = page.wait_for_event(
            "console", predicate=lambda message: json.loads(message.text)["shown"] != first["shown"]
        )
        assert json.loads(later.text)["told"] == "4 seconds", "not every second is read aloud"
        finish()
        page.wait_for_url(f"**/{unit}")
    expect(page.locator("main")).to_contain_text(f"is now called {name}.")
    assert len(sent) == 1
    assert OperationRecord.objects.filter(operation="organization-units.rename").count() == 1


def test_a_change_that_is_not_answered_is_followed(
    administrator: Page, domain: Domain, directory: Directory, ada: UUID
) -> None:
    page = administrator
    page.goto(f"{OBJECTS}/{ada}/disable")
    with busy_with_a_write(domain):
        page.get_by_role("button", name="Disable", exact=True).click(no_wait_after=True)
        page.wait_for_url("**/console/directory/changes/*")
        became = page.locator("#became")
        expect(became).to_contain_text("The domain controller has not answered yet.")
        counter = became.locator("[aria-hidden] span")
        began = counter.text_content()
        expect(counter).not_to_have_text(began or "")
        expect_good_looks(page, "change-not-answered")
        log = page.context.new_page()
        log.goto(page.get_by_role("link", name="See its log record").get_attribute("href") or "")
        expect(log.locator("main")).to_contain_text("The domain controller has not answered yet.")
        expect_good_looks(log, "log-record-not-answered")
    expect(became).to_contain_text("The change was made.")
    expect(log.locator("main")).to_contain_text("What was done")
    expect_good_looks(page, "change-answered")
    page.get_by_role("link", name="To the object").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Ada Lovelace")
    assert not directory.is_enabled(ada)


def test_chosen_objects_are_followed(
    administrator: Page, domain: Domain, directory: Directory, organizational_unit: str, ada: UUID
) -> None:
    page = administrator
    page.goto(f"/console/directory/?base={directory.guid(organizational_unit)}&now=yes")
    page.get_by_role("row").filter(has_text="Ada Lovelace").get_by_role("checkbox").check()
    page.get_by_label("What to do with the chosen").select_option("disable")
    page.get_by_role("button", name="With the chosen…").click()
    with busy_with_a_write(domain):
        page.get_by_role("button", name="Disable", exact=True).click()
        progress = page.locator("#progress")
        expect(progress.locator(".under-way")).to_be_visible()
        expect(progress).to_contain_text("1 not answered yet")
        expect_good_looks(page, "chosen-not-answered")
    expect(progress).to_contain_text("1 disabled.")
    assert not directory.is_enabled(ada)
