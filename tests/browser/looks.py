"""How a page looks: it fits a desk and a telephone, and axe finds nothing that would keep somebody from using it."""

import os
import time
from pathlib import Path

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Locator, Page, expect

WIDTHS = (1280, 390)
KEPT_IN = os.environ.get("GATEWAY_SCREENSHOTS")
"""A folder for pictures of every page looked at; none are made without it."""
_LOOK = Path(__file__).with_name("look.js").read_text()
_readable: set[str] = set()
"""How text may be dressed: known from the pages before, for all pages of this process."""


def expect_good_looks(page: Page, name: str) -> None:
    """Look at the page in both widths, with all its files; `name` is its picture's."""
    page.wait_for_load_state()
    before = page.viewport_size
    page.evaluate(AXE_SCRIPT)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.evaluate("document.documentElement.scrollWidth")
        if KEPT_IN:
            Path(KEPT_IN).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=Path(KEPT_IN) / f"{name}-{width}.png", full_page=True)
        assert wide <= width, f"{page.url} is {wide} wide in {width}"
        found = page.evaluate(_LOOK, sorted(_readable))
        assert found["violations"] == [], f"{page.url} in {width}: {found['violations']}"
        _readable.update(found["readable"])
    if before is not None:
        page.set_viewport_size(before)


def press(page: Page, *keys: str) -> None:
    """Press keys that scripts take, one after the other, once the page has its scripts."""
    page.wait_for_load_state()
    for key in keys:
        page.keyboard.press(key)


def open_own_menu(page: Page) -> None:
    """Open what is behind the initials of whoever is signed in."""
    page.get_by_role("banner").locator("details.you > summary").click()


def expect_on_reload(page: Page, sight: Locator) -> None:
    """Reload until it is there: the worker applies a change, and a buffer writes reads, a moment later."""
    deadline = time.monotonic() + 120
    while not sight.is_visible() and time.monotonic() < deadline:
        time.sleep(0.3)
        page.reload()
    expect(sight).to_be_visible()
