"""What is readable on one page is measured again where anything that matters to it is another."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import looks
from tests.browser.looks import expect_good_looks

GREY = "color: #6b6b6b; background: white"
BEHIND = "position: absolute; inset: 0; z-index: -1; background: #555"
READABLE = f'<p style="{GREY}">Grey</p><p style="color: #6b6b6b">Grey</p>'


@pytest.fixture
def page(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    monkeypatch.setattr(looks, "_readable", set())
    page = browser.new_page()
    yield page
    page.close()


def look_at(page: Page, content: str) -> None:
    page.set_content(f'<html lang="en"><title>Page</title><main><h1>Page</h1>{content}</main></html>')
    expect_good_looks(page, "page")


@pytest.mark.parametrize(
    "unreadable",
    [
        f'<p style="{GREY}; color: #b0b0b0">Grey</p>',
        f'<p style="{GREY}; background: #555">Grey</p>',
        '<div style="background: #555"><p style="color: #6b6b6b">Grey</p></div>',
        f'<div style="opacity: 0.5"><p style="{GREY}">Grey</p></div>',
        f'<div style="{BEHIND}"></div><p style="color: #6b6b6b">Grey</p>',
    ],
)
def test_what_is_unreadable_is_noticed(page: Page, unreadable: str) -> None:
    look_at(page, READABLE)
    assert looks._readable
    look_at(page, READABLE)
    with pytest.raises(AssertionError, match="color-contrast"):
        look_at(page, READABLE + unreadable)
