"""Directory connections in the console: their settings, their test, and to whom they are shown."""

import pytest

from directory.models import DirectoryConnection
from lab.domain import Domain
from tests.console.access_pages import fields_of, followed, make_unreachable, text_of
from tests.support.cast import Console, make_connection, make_integration, make_person

pytestmark = pytest.mark.django_db

SEES = "directory.view_directoryconnection"
FIELDS = {
    "name": "Lab",
    "urls": "ldaps://127.0.0.1:1\nldaps://127.0.0.1:2",
    "baseDn": "DC=lab,DC=example,DC=test",
    "bindDn": "gateway@lab.example.test",
    "bindPassword": "the secret of it",
    "caCertificate": "",
    "enabled": "on",
}


@pytest.fixture
def console() -> Console:
    return Console(make_person("grace", superuser=True))


@pytest.fixture
def connection() -> DirectoryConnection:
    return make_unreachable(name="Corp", bind_password="the secret of it")


@pytest.fixture
def path(connection: DirectoryConnection) -> str:
    return f"/console/connections/{connection.id}"


def version_of(console: Console, connection: DirectoryConnection) -> str:
    version: str = console.get(f"/rest/directories/{connection.id}").body["version"]
    return version


@pytest.mark.sqlite
def test_a_connection_is_made_and_changed_and_its_password_never_shown(console: Console) -> None:
    for field, value in (("name", ""), ("urls", "http://dc1"), ("baseDn", "lab"), ("caCertificate", "x")):
        wrong = console.submit("/console/connections/new", **{**FIELDS, field: value})
        assert (wrong.status, f'id="{field}-error"' in fields_of(wrong)) == (400, True), field
        assert ">ldaps://127.0.0.1:1" in fields_of(wrong) or field == "urls"
    untested = console.submit("/console/connections/new", **FIELDS)
    assert (untested.status, "nothing listens on port 1" in text_of(untested)) == (400, True)
    assert not DirectoryConnection.objects.exists()
    told = followed(console, console.submit("/console/connections/new", **FIELDS, anyway="on"))
    assert "The connection was created." in told
    made = DirectoryConnection.objects.get()
    assert (made.urls, made.enabled, made.bind_password) == (
        *(["ldaps://127.0.0.1:1", "ldaps://127.0.0.1:2"], True, "the secret of it"),
    )
    path = f"/console/connections/{made.id}"
    seen = version_of(console, made)
    changed = {**FIELDS, "name": "Laboratory", "bindPassword": "", "version": seen}
    assert "Saved." in followed(console, console.submit(f"{path}/edit", **changed))
    stale = console.submit(f"{path}/edit", **{**changed, "name": "Mine"})
    assert (stale.status, "Somebody else changed the connection" in text_of(stale)) == (412, True)
    made.refresh_from_db()
    assert (made.name, made.bind_password) == ("Laboratory", "the secret of it")
    for place in (path, f"{path}/edit", "/console/connections/"):
        assert "the secret of it" not in fields_of(console.get(place))
    assert "the secret of it" not in fields_of(wrong)


@pytest.mark.sqlite
def test_what_is_linked_is_disabled_rather_than_deleted(
    console: Console, connection: DirectoryConnection, path: str
) -> None:
    key = make_integration(connection).key
    page = text_of(console.get(path))
    assert key.name in page
    assert "1 valid key is answered 403" in page
    refused = console.submit(f"{path}/delete")
    assert (refused.status, "is in use" in text_of(refused)) == (409, True)
    assert "Disabled." in followed(console, console.submit(f"{path}/disable"))
    assert not DirectoryConnection.objects.get().enabled
    assert "Enabled." in followed(console, console.submit(f"{path}/enable"))
    key.delete()
    assert "The connection is deleted." in followed(console, console.submit(f"{path}/delete"))
    assert console.get(path).status == 404


def test_a_test_tells_what_it_reached(console: Console, domain: Domain, connection: DirectoryConnection) -> None:
    works = make_connection(domain, name="Works")
    report = console.submit(f"/console/connections/{works.id}/test")
    assert report.status == 200
    for shown in ("The connection works.", "reached and signed in", "Functional level", "attributes,", "may create"):
        assert shown in text_of(report), shown
    lost = text_of(console.submit(f"/console/connections/{connection.id}/test"))
    assert "The connection does not work." in lost
    assert "ldaps://127.0.0.1:1" in lost


def test_what_its_account_has_beside_what_is_needed(console: Console, domain: Domain) -> None:
    works = make_connection(domain, name="Works")
    helper = make_person(may=["directory.reset_password"])
    shown = text_of(console.submit(f"/console/connections/{works.id}/rights"))
    for expected in (
        "Reset passwords",
        helper.username,
        "has what it takes",
        "The account is in Domain Admins.",
        "Deleted objects",
        "may read it",
    ):
        assert expected in shown, expected
    nowhere = console.submit(f"/console/connections/{works.id}/rights", base="OU=Nowhere,DC=x")
    assert "There is no object OU=Nowhere,DC=x in the directory." in text_of(nowhere)


@pytest.mark.sqlite
def test_who_may_only_look_sees_no_forms(path: str) -> None:
    reader = Console(make_person(may=[SEES]))
    page = fields_of(reader.get(path))
    assert "ldaps://127.0.0.1:1" in page
    assert "<form" not in page.split("<main")[1]
    assert "/console/connections/new" not in fields_of(reader.get("/console/connections/"))
    for form in ("edit", "test", "rights", "enable", "disable", "delete"):
        assert reader.submit(f"{path}/{form}", **FIELDS).status == 403, form
    assert reader.submit("/console/connections/new", **FIELDS).status == 403


@pytest.mark.sqlite
def test_who_may_not_see_connections_gets_neither_link_nor_page(path: str) -> None:
    stranger = Console(make_person(may=["keys.view_apikey"]))
    assert "/console/connections/" not in fields_of(stranger.get("/console/"))
    for place in ("/console/connections/", "/console/connections/new", path, f"{path}/edit"):
        assert stranger.get(place).status == 403, place
