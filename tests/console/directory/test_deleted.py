"""Deleted objects in the console: found, looked at, previewed and restored; refused where it cannot be."""

from uuid import UUID

import pytest

from directory.models import DirectoryConnection
from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.console.pages import download, found, get_objects, names_in, post, text_of
from tests.support.cast import Console, make_connection, make_person

pytestmark = pytest.mark.django_db

PATH = "/console/deleted/"
MAY_ALL = ["directory.read_object", "directory.read_deleted", "directory.restore_deleted"]


@pytest.fixture
def console(connection: DirectoryConnection) -> Console:
    return Console(make_person(may=MAY_ALL))


def make_deleted(directory: Directory, parent: str, name: str | None = None) -> tuple[UUID, str]:
    """Somebody of a name that no other test deletes."""
    name = name or random_name("Gone")
    user = directory.add_user(name, parent=parent, title="Clerk")
    directory.delete(user)
    return user, name


def test_it_works(console: Console, directory: Directory, organizational_unit: str) -> None:
    user, name = make_deleted(directory, organizational_unit)
    assert console.get(PATH).status == 200
    objects = get_objects(console, PATH, base=organizational_unit)
    assert names_in(objects) == [name]
    for shown in (organizational_unit.partition(",")[0][3:], "just now", "Everything"):
        assert shown in text_of(objects)
    page = console.get(f"{PATH}{user}")
    assert name in text_of(page)
    assert "Clerk" in text_of(page)
    assert found(r'name="parent" value="([^"]*)"', page) == [organizational_unit]

    preview = post(console, f"{PATH}{user}/preview", parent=organizational_unit, name=name)
    assert "The recycle bin has kept" in text_of(preview)
    assert f"CN={name},{organizational_unit}" in text_of(preview)
    assert not directory.exists(user)

    answer = post(console, f"{PATH}{user}", parent=organizational_unit, name=name)
    assert (answer.status, answer.headers["Location"]) == (302, f"/console/directory/objects/{user}")
    assert directory.dn(user) == f"CN={name},{organizational_unit}"
    assert directory.text(user, "title") == "Clerk"


def test_another_place_and_name(console: Console, directory: Directory, organizational_unit: str) -> None:
    user, _ = make_deleted(directory, organizational_unit)
    other = directory.add_unit("Other", parent=organizational_unit)
    assert post(console, f"{PATH}{user}", parent=str(directory.guid(other)), name="Ada, again").status == 302
    assert directory.dn(user) == f"CN=Ada\\, again,{other}"


def test_without_scripts_the_preview_is_a_button(
    console: Console, directory: Directory, organizational_unit: str
) -> None:
    user, _ = make_deleted(directory, organizational_unit)
    page = post(console, f"{PATH}{user}", parent=organizational_unit, name="Ada", preview="yes")
    assert page.status == 200
    assert "The recycle bin has kept" in text_of(page)
    assert found(r'name="name" value="([^"]*)"', page) == ["Ada"]
    assert not directory.exists(user)


def test_a_name_that_is_taken_is_told(console: Console, directory: Directory, organizational_unit: str) -> None:
    user, name = make_deleted(directory, organizational_unit)
    directory.add_group(name, parent=organizational_unit)
    fields = {"parent": organizational_unit, "name": name}
    assert "It would be refused." in text_of(post(console, f"{PATH}{user}/preview", **fields))
    answer = post(console, f"{PATH}{user}", **fields)
    assert answer.status == 409
    assert f"There is an object with the name '{name}' in this container already" in text_of(answer)
    assert found(r'name="parent" value="([^"]*)"', answer) == [organizational_unit]
    assert post(console, f"{PATH}{user}", parent=organizational_unit, name=random_name("Free")).status == 302


@pytest.mark.parametrize(
    ("fields", "status", "told"),
    [
        ({"name": "x" * 65}, 400, 'id="name-error"'),
        ({"parent": "nonsense"}, 400, 'id="parent-error"'),
        ({"parent": "OU=gone,DC=nowhere"}, 404, "AD.Object.NotFound"),
    ],
)
def test_what_is_wrong_is_told(
    console: Console,
    directory: Directory,
    organizational_unit: str,
    fields: dict[str, str],
    status: int,
    told: str,
) -> None:
    user, _ = make_deleted(directory, organizational_unit)
    answer = post(console, f"{PATH}{user}", **fields)
    assert answer.status == status
    assert told in text_of(answer)
    assert not directory.exists(user)


def test_a_container_that_is_gone_has_to_be_replaced(
    console: Console, directory: Directory, organizational_unit: str
) -> None:
    below = directory.add_unit("Below", parent=organizational_unit)
    user, name = make_deleted(directory, below)
    directory.delete(below)
    page = console.get(f"{PATH}{user}")
    assert found(r'name="parent" value="([^"]*)"', page) == [""]
    assert "DEL:" not in found(r"<dt>It was in</dt><dd>(.*?)</dd>", page)[0]
    refused = post(console, f"{PATH}{user}", parent="", name=name)
    assert refused.status == 409
    assert "name another parent" in text_of(refused)
    assert post(console, f"{PATH}{user}", parent=organizational_unit, name=name).status == 302


def test_a_tombstone_says_what_is_lost(domain_without_recycle_bin: Domain, tombstone_directory: Directory) -> None:
    make_connection(domain_without_recycle_bin)
    console = Console(make_person(may=MAY_ALL))
    unit = tombstone_directory.add_unit(random_name("unit"))
    user, name = make_deleted(tombstone_directory, unit)
    assert "Identity" in text_of(get_objects(console, PATH, base=unit))
    preview = text_of(post(console, f"{PATH}{user}/preview", parent=unit, name=name))
    assert "It is a tombstone" in preview
    assert "The password is lost" in preview


def test_the_list_is_searched_and_exported(console: Console, directory: Directory, organizational_unit: str) -> None:
    _, first = make_deleted(directory, organizational_unit)
    _, second = make_deleted(directory, organizational_unit)
    assert names_in(get_objects(console, PATH, q=first)) == [first]
    assert set(names_in(get_objects(console, PATH, base=organizational_unit))) == {first, second}
    text, called = download(console, f"{PATH}result.csv", base=organizational_unit)
    assert first in text
    assert second in text
    assert called == 'attachment; filename="deleted-objects.csv"'
    assert console.get(f"{PATH}?filter=(cn").status == 400
    refused = console.get(f"{PATH}?filter=(accountExpires<=tomorrow)")
    assert refused.status == 400
    assert ">t</mark>omorrow)" in refused.body.decode()


def test_each_may_do_what_their_permissions_say(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    user, name = make_deleted(directory, organizational_unit)
    reader = Console(make_person(may=["directory.read_object", "directory.read_deleted"]))
    assert "Restore it" not in text_of(reader.get(f"{PATH}{user}"))
    assert post(reader, f"{PATH}{user}", parent=organizational_unit, name=name).status == 403
    assert not directory.exists(user)
    stranger = Console(make_person(may=["directory.read_object"]))
    assert PATH not in text_of(stranger.get("/console/directory/"))
    for path in (PATH, f"{PATH}{user}", f"{PATH}result.csv"):
        assert stranger.get(path).status == 403
