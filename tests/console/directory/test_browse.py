"""Browsing and searching the directory in the console: what the pages show, keep and export, and what they refuse."""

import csv
import io
import json
from urllib.parse import urlencode

import pytest

from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.console.pages import PART, download, found, get_objects, heads_in, names_in, post, text_of
from tests.support.cast import Console, make_person
from tests.support.markup import markup_of

pytestmark = pytest.mark.django_db

PATH = "/console/directory/"


@pytest.fixture
def console(connection: DirectoryConnection) -> Console:
    return Console(make_person(may=["directory.read_object"]))


@pytest.fixture
def unit(directory: Directory, organizational_unit: str) -> str:
    """A unit with two people, a group, and a unit with somebody in it."""
    directory.add_user("Ada Lovelace", parent=organizational_unit, title="Countess", mail="ada@corp.example.test")
    directory.add_user("Charles Babbage", parent=organizational_unit, title="Professor", enabled=False)
    directory.add_group("Analysts", parent=organizational_unit)
    below = directory.add_unit("Below", parent=organizational_unit)
    directory.add_user("Mary Somerville", parent=below, title="Writer")
    return organizational_unit


def test_a_container_shows_what_is_directly_in_it(console: Console, unit: str) -> None:
    page = console.get(f"{PATH}?{urlencode({'base': unit})}")
    assert page.status == 200
    # The page is there before its objects, and says where they are to be fetched.
    assert names_in(page) == []
    assert found(r'id="found"[^>]*hx-get="([^"]*)"', page) == [f"{PATH}?{urlencode({'base': unit})}"]
    assert found(r'<a href="[^"]*"[^>]*aria-current="true">([^<]*)</a>', page) == [unit.partition(",")[0][3:]]
    objects = get_objects(console, PATH, base=unit)
    assert names_in(objects) == ["Ada Lovelace", "Analysts", "Below", "Charles Babbage"]
    for shown in ("4 objects directly in it", "Disabled", "global security group, 0 members"):
        assert shown in text_of(objects)


def test_what_is_found_links_to_the_object(console: Console, directory: Directory, unit: str) -> None:
    objects = get_objects(console, PATH, base=unit)
    ada = directory.guid(f"CN=Ada Lovelace,{unit}")
    assert f'<a href="/console/directory/objects/{ada}">Ada Lovelace</a>' in text_of(objects)
    below = directory.guid(f"OU=Below,{unit}")
    assert f'href="{PATH}?base={below}"' in text_of(objects)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"kind": "users", "scope": "subtree"}, ["Ada Lovelace", "Charles Babbage", "Mary Somerville"]),
        ({"q": "Mary"}, ["Mary Somerville"]),  # who seeks means everything below
        ({"q": "Mary", "scope": "one-level"}, []),
        ({"filter": "(title=*)", "sort": "-title"}, ["Mary Somerville", "Charles Babbage", "Ada Lovelace"]),
        ({"kind": "groups", "filter": "(cn=A*)"}, ["Analysts"]),
        ({"kind": "organization-units"}, ["Below"]),
        ({"kind": "contacts"}, []),
        ({"scope": "base", "kind": "users"}, []),
    ],
)
def test_the_parameters_are_those_of_the_api(
    console: Console, unit: str, query: dict[str, str], names: list[str]
) -> None:
    assert names_in(get_objects(console, PATH, base=unit, **query)) == names


def test_pages_follow_one_another(console: Console, unit: str) -> None:
    first = get_objects(console, PATH, base=unit, pageSize="3")
    assert names_in(first) == ["Ada Lovelace", "Analysts", "Below"]
    assert "4 objects" in text_of(first)
    (following,) = found(r'<a class="button" href="([^"]*)" hx-get="\1"', first)
    second = console.call("GET", PATH + following, **PART)
    assert names_in(second) == ["Charles Babbage"]
    assert found(r'<a class="button" href="([^"]*)"', second) == []


def test_heads_sort_upwards_and_then_downwards(console: Console, unit: str) -> None:
    by_title = get_objects(console, PATH, base=unit, kind="users", sort="title")
    assert 'aria-sort="ascending"' in text_of(by_title)
    assert any("sort=-title" in address for address in found(r'class="sorts" href="([^"]*)"', by_title))
    downwards = get_objects(console, PATH, base=unit, kind="users", sort="-title")
    assert 'aria-sort="descending"' in text_of(downwards)
    assert names_in(downwards) == ["Charles Babbage", "Ada Lovelace"]


def test_columns_are_chosen_and_kept_for_each_kind(console: Console, unit: str) -> None:
    assert heads_in(get_objects(console, PATH, base=unit, kind="users"))[1:] == [
        "sAMAccountName",
        "title",
        "department",
        "mail",
    ]
    there = f"{PATH}?kind=users"
    answer = post(
        console, f"{PATH}columns", kind="users", column=["title"], more="mail, whenCreated", **{"from": there}
    )
    assert (answer.status, answer.headers["Location"]) == (302, there)
    objects = get_objects(console, PATH, base=unit, kind="users")
    assert heads_in(objects)[1:] == ["title", "mail", "whenCreated"]
    for shown in ("Countess", 'href="mailto:ada@corp.example.test"', "just now"):
        assert shown in text_of(objects)
    assert heads_in(get_objects(console, PATH, base=unit, kind="groups"))[1:] == [
        "sAMAccountName",
        "description",
        "managedBy",
    ]
    # The address wins over what is kept, and the usual ones come back.
    assert heads_in(get_objects(console, PATH, base=unit, kind="users", attributes="sn"))[1:] == ["sn"]
    post(console, f"{PATH}columns", kind="users", usual="yes")
    assert "department" in heads_in(get_objects(console, PATH, base=unit, kind="users"))


@pytest.mark.parametrize("name", ["nonsense", "unicodePwd"])
def test_a_column_that_cannot_be_shown_is_not_kept(console: Console, unit: str, name: str) -> None:
    post(console, f"{PATH}columns", kind="users", column=["title", name], **{"from": PATH})
    assert f"{name}" in text_of(console.get(PATH))
    assert "department" in heads_in(get_objects(console, PATH, base=unit, kind="users"))
    answer = post(console, f"{PATH}columns", kind="users", column=["title"], **{"from": "https://evil.example/"})
    assert answer.headers["Location"] == PATH


@pytest.mark.parametrize(
    ("text", "before", "mark"),
    [("(&(mail=*)(title)", "(&amp;(mail=*)(title", ")"), ("(mail=*", "(mail=*", "◂ end"), ("mail=*", "", "m")],
)
def test_a_malformed_filter_is_marked_where_it_stops(console: Console, text: str, before: str, mark: str) -> None:
    page = console.get(f"{PATH}?{urlencode({'filter': text})}")
    assert page.status == 400
    assert f"up to here: </span>{before}<mark>{mark}</mark>" in markup_of(page.body)
    assert found(r'<textarea[^>]*aria-invalid="true">([^<]*)</textarea>', page) == [text]
    assert 'id="found"' not in text_of(page)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"filter": "(nonsense=1)"}, "The directory has no attribute nonsense."),
        ({"filter": "(unicodePwd=*)"}, "unicodePwd is never shown"),
        ({"sort": "nonsense"}, "Sort: The directory has no attribute"),
        ({"pageSize": "5000"}, "Page size: Choose 1000 or less."),
        ({"kind": "robots"}, "Kind: Is not a searchable kind."),
        ({"base": "OU=gone,DC=nowhere"}, "There is no such object in the directory"),
        ({"base": "nonsense"}, "Base: Write a distinguished name or an id."),
    ],
)
def test_what_is_wrong_with_a_search_is_told_in_its_page(console: Console, query: dict[str, str], told: str) -> None:
    page = console.get(f"{PATH}?{urlencode(query)}")
    assert page.status in (400, 404)
    assert told.lower() in text_of(page).lower()  # as a sentence it may begin with a capital
    for name, value in query.items():
        if name != "kind":
            assert value in text_of(page)  # what was asked for is still there to be mended


def test_all_that_is_found_is_exported(console: Console, unit: str) -> None:
    query = {"base": unit, "kind": "users", "scope": "subtree", "pageSize": "1", "sort": "name"}
    text, called = download(console, f"{PATH}result.csv", **query)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["name"] for row in rows] == ["Ada Lovelace", "Charles Babbage", "Mary Somerville"]
    assert [row["title"] for row in rows] == ["Countess", "Professor", "Writer"]
    assert called == 'attachment; filename="users.csv"'
    lines, called = download(console, f"{PATH}result.ndjson", **query)
    assert [json.loads(line)["name"] for line in lines.splitlines()] == [row["name"] for row in rows]
    assert called == 'attachment; filename="users.ndjson"'


def test_it_works_without_scripts(console: Console, unit: str) -> None:
    page = console.get(f"{PATH}?{urlencode({'base': unit})}")
    (link,) = found(r'<noscript><a class="button" href="([^"]*)"', page)
    assert names_in(console.get(PATH + link)) == ["Ada Lovelace", "Analysts", "Below", "Charles Babbage"]


def test_a_filter_is_built_without_scripts(console: Console, unit: str) -> None:
    builder = f"{PATH}filter"
    page = console.get(f"{builder}?{urlencode({'filter': '(title=Countess)', 'base': unit, 'kind': 'users'})}")
    assert found(r'name="(?:attribute|value)-0" value="([^"]*)"', page) == ["title", "Countess"]
    fields = [
        ("base", unit),
        ("kind", "users"),
        ("group", "0"),
        ("match-0", "any"),
        *(("attribute-0", "title"), ("operator-0", "is"), ("value-0", "Countess")),
    ]
    more = console.get(f"{builder}?{urlencode([*fields, ('do', 'add-0')])}")
    assert len(found(r'name="(attribute-0)"', more)) == 2
    row = [("attribute-0", "cn"), ("operator-0", "begins"), ("value-0", "Mary")]
    answer = console.get(f"{builder}?{urlencode([*fields, *row, ('do', 'search')])}")
    assert answer.status == 302
    assert names_in(console.call("GET", answer.headers["Location"], **PART)) == ["Ada Lovelace", "Mary Somerville"]
    save = console.get(f"{builder}?{urlencode([*fields, ('do', 'save')])}")
    assert save.headers["Location"].startswith("/console/filters/new?")
    fewer = console.get(f"{builder}?{urlencode([*fields, *row, ('do', 'remove-0-0')])}")
    assert found(r'name="attribute-0" value="([^"]*)"', fewer) == ["cn"]


def test_a_condition_that_cannot_be_keeps_the_builder_open(console: Console) -> None:
    fields = {"group": "0", "attribute-0": "title", "operator-0": "is", "value-0": "", "do": "search"}
    page = console.get(f"{PATH}filter?{urlencode(fields)}")
    assert page.status == 200
    assert "Needs a value" in text_of(page)


def test_a_filter_that_conditions_cannot_say_is_shown(console: Console) -> None:
    page = console.get(f"{PATH}filter?{urlencode({'filter': '(cn=a*b*c)'})}")
    assert "says more than conditions can" in text_of(page)
    assert "(cn=a*b*c)" in text_of(page)


def test_attributes_are_suggested_while_typing(console: Console) -> None:
    answer = console.get(f"{PATH}attribute-names?attribute-0=samac")
    assert found(r'<option value="([^"]*)">', answer)[0] == "sAMAccountName"
    assert found(r'<option value="([^"]*)">', console.get(f"{PATH}attribute-names")) == []
    assert len(found(r'<option value="([^"]*)">', console.get(f"{PATH}attribute-names?x=e"))) == 25


def test_whoever_may_not_search_sees_neither_link_nor_page(connection: DirectoryConnection) -> None:
    stranger = Console(make_person(may=["audit.read_log"]))
    assert PATH not in text_of(stranger.get("/console/log/"))
    for path in (
        PATH,
        f"{PATH}?now=1",
        f"{PATH}result.csv",
        f"{PATH}filter?filter=(cn=a)",
        f"{PATH}attribute-names?x=a",
    ):
        assert stranger.get(path).status == 403, path
    assert get_objects(stranger, PATH).status == 403


def test_searches_count_against_their_limit(limited: None, connection: DirectoryConnection) -> None:
    console = Console(make_person(may=["directory.read_object"]))
    for path in (PATH, f"{PATH}tree?base={connection.base_dn}", f"{PATH}tree-picker", f"{PATH}result.csv"):
        assert '"DirectorySearch"' in console.client.get(path)["RateLimit-Policy"], path
