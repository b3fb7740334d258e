"""What holds for every template: a person can read it, and no comment of ours is shown to anybody."""

import re
from collections.abc import Iterator

from django.template import TemplateSyntaxError
from django.template.loader import get_template

from console.templatetags.console import STATUS_COLOURS
from lab.commands import PROJECT

LONGEST = 120
ASK_FOR_OBJECTS = {"base", "parent", "place", "unit", "scopes", "group", "joins", "leaves", "colleague", "about", "add"}
"""Fields that ask for objects of the directory, besides those whose name is an attribute's or a placeholder's."""
_FIELD = re.compile(r'<(?:input|textarea)\s(?![^>]*type="(?:hidden|checkbox)")[^>]*?\bname="([\w.]+)"')
_EMPTY = re.compile(r'<(\w+) class="[^"]*\bempty\b[^"]*">(.*?)</\1>', re.DOTALL)
_BADGE = re.compile(r'<span class="badge ?([\w ]*)">\s*\{% translate "([^"]+)"(?: context "\w+")? %\}')
_ENDS = (("{#", "#}"), ("{%", "%}"), ("{{", "}}"))


def lines() -> Iterator[tuple[str, str]]:
    """Every line of every template, and where it is."""
    for template in sorted((PROJECT / "templates").rglob("*.*")):
        for number, line in enumerate(template.read_text("utf-8").splitlines(), 1):
            yield f"{template.relative_to(PROJECT)}:{number}", line


def test_a_person_can_read_them() -> None:
    found = list(lines())
    assert len(found) > 5000
    assert [place for place, line in found if len(line) > LONGEST] == []


def test_tags_and_comments_end_on_their_line() -> None:
    """Django takes `{#` and `{%` whose ends are on another line for text, and shows them."""
    unended = [place for place, line in lines() if any(line.count(begin) != line.count(end) for begin, end in _ENDS)]
    assert unended == []


def test_they_compile() -> None:
    """A filter that is not loaded shows only when the page is asked for, and then as a failure."""
    broken = []
    for template in sorted((PROJECT / "templates").rglob("*.html")):
        try:
            get_template(str(template.relative_to(PROJECT / "templates")))
        except TemplateSyntaxError as error:
            broken.append(f"{template.relative_to(PROJECT)}: {error}")
    assert broken == []


def test_every_empty_list_begins_something() -> None:
    console = PROJECT / "templates/console"
    found = [(each, text) for each in console.rglob("*.html") for _, text in _EMPTY.findall(each.read_text("utf-8"))]
    assert len(found) > 20
    assert [str(each) for each, text in found if 'class="button"' not in text] == []


def test_every_list_says_when_it_is_empty() -> None:
    """A page of a list has a next one, so it may have nothing, too."""
    console = PROJECT / "templates/console"
    texts = {str(each.relative_to(console)): each.read_text("utf-8") for each in console.rglob("*.html")}
    lists = {name for name, text in texts.items() if 'include "console/_next_page' in text}
    assert {name for name in lists if not _EMPTY.search(texts[name])} == {
        *("directory/objects/history.html", "directory/objects/who_can.html"),  # nothing begins there
    }


def test_one_state_has_one_colour() -> None:
    """In every list and on every page; those of statuses are in one table."""
    colours: dict[str, set[str]] = {}
    for status, colour in STATUS_COLOURS.items():
        colours.setdefault(status.replace("-", " ").casefold(), set()).add(colour)
    for template in (PROJECT / "templates/console").rglob("*.html"):
        for colour, label in _BADGE.findall(template.read_text("utf-8")):
            colours.setdefault(label.casefold(), set()).add(colour.strip())
    assert len(colours) > 40
    assert {label: sorted(found) for label, found in colours.items() if len(found) > 1} == {}


def test_every_field_that_asks_for_objects_is_the_same() -> None:
    """It takes names, and shows what it finds. Elsewhere stands only the base of one connection, of any directory."""
    console = PROJECT / "templates/console"
    texts = {str(each.relative_to(console)): each.read_text("utf-8") for each in console.rglob("*.html")}
    names = {(place, name) for place, text in texts.items() for name in _FIELD.findall(text)}
    asking = {(place, name) for place, name in names if name in ASK_FOR_OBJECTS}
    assert asking == {("access/connection.html", "base")}
    included = {
        name for text in texts.values() for name in re.findall(r'_object_field.html" with[^%]*?\bname="?([\w.]+)', text)
    }
    assert included == {*ASK_FOR_OBJECTS - {"joins", "leaves"}, "member", "person", "with", "field.key", "item.key"}
