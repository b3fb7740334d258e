"""Links between the pages of the repository lead somewhere, and so do the references to them in code."""

import re
from pathlib import Path

import pytest

from lab.commands import PROJECT
from tests.docs.pages import anchors, pages, prose, texts

_LINK = re.compile(r"\]\((?![a-z]+:)([^)\s#]*)(?:#([^)\s]+))?\)")
_REFERENCE = re.compile(r"\b(docs/[\w/-]+\.md)(?:#([\w-]*\w))?")


def _name(path: Path) -> str:
    return str(path.relative_to(PROJECT))


@pytest.mark.parametrize("page", pages(), ids=_name)
def test_relative_links(page: Path) -> None:
    for link, anchor in _LINK.findall(prose(page)):
        target = (page.parent / link).resolve() if link else page
        assert target.exists(), f"{_name(page)} links to {link}, which does not exist"
        if anchor:
            assert anchor in anchors(target), f"{_name(page)} links to {link}#{anchor}, which is no heading there"


def test_pages_that_code_refers_to() -> None:
    found = 0
    for text in texts():
        for page, anchor in _REFERENCE.findall(text.read_text("utf-8")):
            found += 1
            assert (PROJECT / page).is_file(), f"{_name(text)} refers to {page}, which does not exist"
            assert not anchor or anchor in anchors(PROJECT / page), f"{_name(text)} refers to {page}#{anchor}"
    assert found > 20


def test_nothing_refers_to_a_page_that_its_reader_does_not_have() -> None:
    pattern = re.compile("contract sec" + "tion", re.IGNORECASE)
    assert [_name(text) for text in texts() if pattern.search(text.read_text("utf-8"))] == []


def test_every_page_is_in_the_menu_of_the_site() -> None:
    menu = (PROJECT / "mkdocs.yml").read_text("utf-8")
    missing = [page.name for page in (PROJECT / "docs").glob("*.md") if f": {page.name}\n" not in menu]
    assert missing == []
