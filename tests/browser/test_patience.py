"""The limit of an address at the console: the page counts down, goes on by itself, and nothing typed is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from redis import Redis

from approvals.models import ChangeRequest
from lab.gateway import LiveGateway
from lab.redis import RedisServer
from tests.approvals.proposals import hold
from tests.browser.looks import expect_good_looks
from tests.support.cast import PASSWORD, make_person
from tests.support.database import gateway_at

QUOTA, WINDOW = 100_000, 600
LIMIT = f"gateway:limit:Global::{QUOTA}:{WINDOW}:127.0.0.1"


@pytest.fixture
def limited_web(transactional_db: None, tmp_path: Path) -> Iterator[LiveGateway]:
    """A web server that counts."""
    web = gateway_at(
        tmp_path,
        {
            "RateLimiting__Enabled": "true",
            "RateLimiting__Global": f'{{"Requests": {QUOTA}, "WindowSeconds": {WINDOW}}}',
        },
        processes=1,
    )
    web.web.start_and_wait()
    yield web
    web.stop()


@pytest.fixture
def approver(browser: Browser, limited_web: LiveGateway) -> Iterator[Page]:
    context = browser.new_context(base_url=limited_web.base_url)
    context.set_default_timeout(120_000)
    person = make_person("grace", superuser=True)
    assert context.request.post("/rest/session", data={"username": person.username, "password": PASSWORD}).ok
    page = context.new_page()
    page.clock.install()
    yield page
    context.close()


def use_up(redis_server: RedisServer, seconds: int) -> None:
    """So many others at this address that nobody there gets an answer for these seconds."""
    Redis.from_url(redis_server.url).set(LIMIT, QUOTA + 1, ex=seconds)


def test_a_decision_at_the_limit_is_not_lost(approver: Page, redis_server: RedisServer) -> None:
    request = hold()
    approver.goto(f"/console/changes/{request.id}")
    approver.get_by_label("Comment").fill("Not before Monday")
    use_up(redis_server, WINDOW)
    approver.get_by_role("button", name="Reject").click()
    expect(approver.get_by_role("heading", level=1)).to_have_text("One moment")
    expect_good_looks(approver, "patience")
    Redis.from_url(redis_server.url).delete(LIMIT)
    approver.clock.fast_forward(1000 * WINDOW)
    approver.wait_for_url(f"**/console/changes/{request.id}")
    expect(approver.locator("main")).to_contain_text("Rejected.")
    assert ChangeRequest.objects.get(id=request.id).comment == "Not before Monday"

    use_up(redis_server, 2)
    approver.goto("/console/changes/?status=rejected")
    expect(approver.locator("tbody tr")).to_have_count(1)
