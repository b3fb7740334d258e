"""The tree of containers that forms choose from: one level at a time, and no further than the person may look."""

from typing import Any
from urllib.parse import urlencode

import pytest

from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.console.pages import found
from tests.support.cast import Answer, Console, make_person

pytestmark = pytest.mark.django_db

MAY_READ = ["directory.read_object"]


@pytest.fixture
def console(connection: DirectoryConnection) -> Console:
    return Console(make_person(may=MAY_READ))


def choices(answer: Answer) -> list[str]:
    """The distinguished names that can be chosen, from the top."""
    return found(r'data-fills="place" data-value="([^"]*)"', answer)


def pick(console: Console, value: str = "", **more: Any) -> Answer:
    return console.get(f"/console/directory/tree-picker?{urlencode({'field': 'place', 'place': value, **more})}")


def test_it_works(console: Console, directory: Directory, organizational_unit: str) -> None:
    above = directory.add_unit("Above", parent=organizational_unit)
    below = directory.add_unit("Below", parent=above)
    directory.add(f"CN=Box,{above}", {"objectClass": "container"})
    directory.add_user("Nobody's container", parent=above)
    answer = pick(console, above)
    assert answer.status == 200
    assert choices(answer)[0] == directory.base_dn
    assert f"CN=Users,{directory.base_dn}" in choices(answer)
    assert [name for name in choices(answer) if name.endswith(f",{above}")] == [below, f"CN=Box,{above}"]
    assert found(r'data-value="([^"]*)" aria-current="true"', answer) == [above]


def test_what_the_field_says_may_be_an_id_or_nonsense(
    console: Console, directory: Directory, organizational_unit: str
) -> None:
    assert organizational_unit in choices(pick(console, str(directory.guid(organizational_unit))))
    for nonsense in ("OU=gone,DC=nowhere", "((", "6f2e1b1e-0000-4000-8000-000000000000"):
        assert directory.base_dn in choices(pick(console, nonsense))


def test_units_alone_are_offered_where_only_they_will_do(
    console: Console, directory: Directory, organizational_unit: str
) -> None:
    answer = pick(console, organizational_unit, only="units")
    assert organizational_unit in choices(answer)
    assert all(name.startswith("OU=") for name in choices(answer))


def test_a_level_comes_by_itself_and_in_parts(
    console: Console, directory: Directory, organizational_unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.directory.browse._LEVEL_PAGE_SIZE", 2)
    names = [directory.add_unit(name, parent=organizational_unit) for name in ("One", "Two", "Three")]
    query = {"base": str(directory.guid(organizational_unit)), "field": "place"}
    answer = console.get(f"/console/directory/tree?{urlencode(query)}")
    assert choices(answer) == [names[0], names[2]]  # by name
    (more,) = found(r'hx-get="(/console/directory/tree\?[^"]*cursor=[^"]*)"', answer)
    assert choices(console.get(more)) == [names[1]]


def test_names_that_need_escaping_are_chosen_as_they_are(
    console: Console, directory: Directory, organizational_unit: str
) -> None:
    strange = directory.add_unit('R&D, "special" <x>', parent=organizational_unit)
    assert directory.dn(strange) in choices(pick(console, strange))


def test_whoever_may_not_search_gets_no_tree(connection: DirectoryConnection) -> None:
    stranger = Console(make_person(may=["directory.run_savedfilter"]))
    for path in ("/console/directory/tree?base=x", "/console/directory/tree-picker?field=place"):
        assert stranger.get(path).status == 403
