"""What holds for every template: a person can read it, and no comment of ours is shown to anybody."""

import re
from collections.abc import Iterator

from django.template import TemplateSyntaxError
from django.template.loader import get_template

from lab.commands import PROJECT

LONGEST = 120
ASK_FOR_OBJECTS = {"base", "parent", "place", "unit", "scopes", "group", "joins", "leaves", "colleague", "about", "add"}
"""Fields that ask for objects of the directory, besides those whose name is an attribute's or a placeholder's."""
_FIELD = re.compile(r'<(?:input|textarea)\s(?![^>]*type="(?:hidden|checkbox)")[^>]*?\bname="([\w.]+)"')
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
