"""Saved filters in the console: made, changed, run and deleted, with what is wrong with one told beside its field."""

import csv
import io
from urllib.parse import urlencode
from uuid import UUID

import pytest

from directory.models import DirectoryConnection, SavedFilter
from lab.directory import Directory
from tests.console.pages import download, found, get_objects, heads_in, names_in, post, text_of
from tests.support.cast import Console, make_person

pytestmark = pytest.mark.django_db

PATH = "/console/filters/"
MAY_ALL = ["directory.read_object", "directory.run_savedfilter", "directory.manage_savedfilter"]
FIELDS = {
    "name": "Clerks",
    "kind": "users",
    "filter": "(title=Clerk)",
    "base": "",
    "scope": "subtree",
    "attributes": "",
}


@pytest.fixture
def console(connection: DirectoryConnection) -> Console:
    return Console(make_person(may=MAY_ALL))


def make_filter(console: Console, **fields: str) -> UUID:
    """Save a filter by the form and return its id."""
    answer = post(console, f"{PATH}new", **{**FIELDS, **fields})
    assert answer.status == 302, text_of(answer)
    return UUID(answer.headers["Location"].split("/")[-2])


def test_it_works(console: Console, directory: Directory, organizational_unit: str) -> None:
    directory.add_user("Ada", parent=organizational_unit, title="Clerk", mail="ada@corp.example.test")
    directory.add_user("Bob", parent=organizational_unit, title="Writer")
    id = make_filter(console, base=organizational_unit, attributes="mail, title")
    listed = text_of(console.get(PATH))
    assert "Clerks" in listed
    assert "(title=Clerk)" in listed
    page = console.get(f"{PATH}{id}/run")
    assert page.status == 200
    assert names_in(page) == []
    objects = get_objects(console, f"{PATH}{id}/run")
    assert names_in(objects) == ["Ada"]
    assert heads_in(objects) == ["Name", "mail", "title"]
    assert names_in(console.get(f"{PATH}{id}/run?now=yes")) == ["Ada"]
    text, called = download(console, f"{PATH}{id}/run.csv")
    assert [row["mail"] for row in csv.DictReader(io.StringIO(text))] == ["ada@corp.example.test"]
    assert called == 'attachment; filename="Clerks.csv"'


def test_a_search_is_saved_with_what_it_asked_for(console: Console, organizational_unit: str) -> None:
    query = {"filter": "(mail=*)", "kind": "groups", "base": organizational_unit, "scope": "one-level"}
    page = console.get(f"{PATH}new?{urlencode(query)}")
    assert found(r'<textarea[^>]*name="filter"[^>]*>([^<]*)<', page) == ["(mail=*)"]
    assert found(r'name="base" value="([^"]*)"', page) == [organizational_unit]
    assert set(found(r'<option value="([^"]*)" selected', page)) == {"groups", "one-level"}


def test_one_is_changed_and_deleted(console: Console) -> None:
    id = make_filter(console)
    page = console.get(f"{PATH}{id}")
    assert found(r'name="name" value="([^"]*)"', page) == ["Clerks"]
    answer = post(console, f"{PATH}{id}", **{**FIELDS, "name": "Writers", "filter": "(title=Writer)", "shared": "on"})
    assert answer.status == 302
    row = SavedFilter.objects.get()
    assert (row.name, row.filter, row.shared) == ("Writers", "(title=Writer)", True)
    assert post(console, f"{PATH}{id}/delete").status == 302
    assert not SavedFilter.objects.exists()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"filter": "(title=Clerk"}, "<mark>◂ end</mark>"),
        ({"filter": "(nonsense=1)"}, "The directory has no attribute nonsense."),
        ({"base": "OU=gone,DC=nowhere"}, "There is no such object"),
        ({"base": "nonsense"}, 'id="base-error"'),
        ({"attributes": "nonsense"}, 'id="attributes-error"'),
        ({"name": ""}, 'id="name-error"'),
    ],
)
def test_what_is_wrong_is_told_beside_its_field(console: Console, fields: dict[str, str], told: str) -> None:
    answer = post(console, f"{PATH}new", **{**FIELDS, **fields})
    assert answer.status in (400, 404)
    assert told in text_of(answer)
    assert fields.get("filter", FIELDS["filter"]) in text_of(answer)
    assert not SavedFilter.objects.exists()


def test_a_name_is_used_once(console: Console) -> None:
    make_filter(console)
    answer = post(console, f"{PATH}new", **FIELDS)
    assert answer.status == 409
    assert "You have a saved filter called Clerks" in text_of(answer)


def test_others_see_and_run_what_is_shared_but_do_not_change_it(
    console: Console, directory: Directory, organizational_unit: str
) -> None:
    directory.add_user("Ada", parent=organizational_unit, title="Clerk")
    mine = make_filter(console)
    shared = make_filter(console, name="Shared", base=organizational_unit, shared="on")
    other = Console(make_person(may=MAY_ALL))
    listed = text_of(other.get(PATH))
    assert "Shared" in listed
    assert "Clerks" not in listed
    page = other.get(f"{PATH}{shared}")
    assert page.status == 200
    assert "<textarea" not in text_of(page)
    assert names_in(get_objects(other, f"{PATH}{shared}/run")) == ["Ada"]
    assert post(other, f"{PATH}{shared}", **FIELDS).status == 403
    assert post(other, f"{PATH}{shared}/delete").status == 403
    assert other.get(f"{PATH}{mine}").status == 404


def test_each_may_do_what_their_permissions_say(console: Console) -> None:
    id = make_filter(console, shared="on")
    reader = Console(make_person(may=["directory.run_savedfilter", "directory.read_object"]))
    assert "New filter" not in text_of(reader.get(PATH))
    assert reader.get(f"{PATH}new").status == 403
    assert reader.get(f"{PATH}{id}/run").status == 200
    stranger = Console(make_person(may=["directory.read_object"]))
    assert PATH not in text_of(stranger.get("/console/directory/"))
    for path in (PATH, f"{PATH}new", f"{PATH}{id}", f"{PATH}{id}/run", f"{PATH}{id}/run.csv"):
        assert stranger.get(path).status == 403, path
