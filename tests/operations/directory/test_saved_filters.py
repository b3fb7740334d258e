"""Saved filters: who sees, changes and runs one, what one may hold, and that a run is a search like any other."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import pytest
from django.test import Client

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from directory.models.filters_and_templates import SavedFilter
from keys.models import Person
from lab.directory import Directory
from tests.support.cast import Answer, Console, Integration, make_connection, make_integration, make_person

PATH = "/api/ad/saved-filters"
READ, RUN, MANAGE = "directory.read_object", "directory.run_savedfilter", "directory.manage_savedfilter"


@pytest.fixture
def people(directory: Directory, organizational_unit: str) -> dict[str, UUID]:
    made = {name: directory.add_user(name, parent=organizational_unit) for name in ("Ada", "Blaise", "Charles")}
    directory.add_group("Analysts", parent=organizational_unit)
    return made


@pytest.fixture
def other(connection: DirectoryConnection) -> Integration:
    """Somebody else's key that may do everything."""
    return make_integration(connection)


def save(integration: Integration, **members: Any) -> Any:
    answer = integration.post(PATH, {"name": "Everybody", "kind": "users", "filter": "(objectClass=*)", **members})
    assert answer.status == 201, answer.body
    return answer.body


def run(integration: Integration, saved: Any, **parameters: Any) -> Answer:
    return integration.get(f"{PATH}/{saved['id']}/run?{urlencode(parameters)}")


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return sorted(item["name"] for item in answer.body["items"])


def test_it_works(
    integration: Integration, people: dict[str, UUID], directory: Directory, organizational_unit: str
) -> None:
    answer = integration.post(
        PATH,
        {
            "name": "Not Ada",
            "kind": "users",
            "filter": "(!(cn=Ada))",
            "base": organizational_unit.upper(),
            "attributes": ["CN", "mail"],
        },
    )
    assert answer.status == 201, answer.body
    saved = answer.body
    assert answer.headers["Location"] == f"{PATH}/{saved['id']}"
    assert saved == {
        "id": saved["id"],
        "version": saved["version"],
        "name": "Not Ada",
        "kind": "users",
        "filter": "(!(cn=Ada))",
        "base": organizational_unit,
        "baseId": str(directory.guid(organizational_unit)),
        "scope": "subtree",
        "attributes": ["CN", "mail"],
        "shared": False,
        "owner": integration.key.owner.username,
        "createdAt": saved["createdAt"],
        "changedAt": saved["changedAt"],
    }
    assert integration.get(f"{PATH}/{saved['id']}").body == saved
    assert integration.get(PATH).body["items"] == [saved]
    found = run(integration, saved)
    assert names(found) == ["Blaise", "Charles"]
    assert found.body["items"][0]["attributes"].keys() == {"cn", "mail"}

    changed = integration.patch(f"{PATH}/{saved['id']}", {"filter": "(cn=Ada)", "attributes": []})
    assert (changed.status, changed.body["filter"], changed.body["name"]) == (200, "(cn=Ada)", "Not Ada")
    assert changed.body["changedAt"] > saved["changedAt"]
    assert names(run(integration, saved)) == ["Ada"]

    assert integration.delete(f"{PATH}/{saved['id']}").status == 204
    assert integration.get(f"{PATH}/{saved['id']}").status == 404
    recorded = OperationRecord.objects.order_by("id").values_list("operation", "outcome", "target_kind", "target_id")
    assert list(recorded) == [
        ("saved-filters.create", "succeeded", "saved-filters", UUID(saved["id"])),
        ("saved-filters.update", "succeeded", "saved-filters", UUID(saved["id"])),
        ("saved-filters.delete", "succeeded", "saved-filters", UUID(saved["id"])),
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("users", ["Ada", "Blaise", "Charles"]),
        ("user", ["Ada", "Blaise", "Charles"]),
        ("groups", ["Analysts"]),
        ("group", ["Analysts"]),
        ("computers", []),
        ("organization-units", 1),
        ("organizationalUnit", 1),
        ("objects", 5),
        ("object", 5),
    ],
)
def test_kinds(
    integration: Integration, people: dict[str, UUID], organizational_unit: str, kind: str, expected: Any
) -> None:
    saved = save(integration, kind=kind, base=organizational_unit)
    assert saved["kind"] == kind
    found = names(run(integration, saved))
    assert (len(found) if isinstance(expected, int) else found) == expected


def test_what_is_left_out(integration: Integration) -> None:
    answer = integration.post(PATH, {"name": "All", "filter": "(cn=*)"})
    assert answer.status == 201
    body = answer.body
    assert (body["kind"], body["base"], body["baseId"], body["scope"]) == ("objects", None, None, "subtree")
    assert (body["attributes"], body["shared"]) == ([], False)


def test_a_rename_of_the_base_neither_breaks_nor_captures(
    integration: Integration, people: dict[str, UUID], directory: Directory, organizational_unit: str
) -> None:
    inner = directory.add_unit("Inner", parent=organizational_unit)
    guid = directory.guid(inner)
    directory.add_user("Dorothy", parent=inner)
    saved = save(integration, base=inner)
    directory.rename(guid, "Renamed")
    captured = directory.add_unit("Inner", parent=organizational_unit)
    directory.add_user("Eve", parent=captured)
    assert names(run(integration, saved)) == ["Dorothy"]
    renamed = f"OU=Renamed,{organizational_unit}"
    assert integration.get(f"{PATH}/{saved['id']}").body["base"] == renamed
    assert integration.get(PATH).body["items"][0]["base"] == renamed
    directory.delete(guid, recursive=True)
    answer = run(integration, saved)
    assert (answer.status, answer.code) == (404, "AD.Object.NotFound")
    # What it was called is still shown, so that its owner knows what is to be mended.
    assert integration.get(f"{PATH}/{saved['id']}").body["base"] == inner
    mended = integration.patch(f"{PATH}/{saved['id']}", {"base": None})
    assert (mended.body["base"], mended.body["baseId"]) == (None, None)
    assert run(integration, saved).status == 200


def test_pages_and_order(integration: Integration, people: dict[str, UUID], organizational_unit: str) -> None:
    saved = save(integration, base=organizational_unit)
    answer = run(integration, saved, pageSize=2, sort="-cn")
    found = [item["name"] for item in answer.body["items"]]
    assert (found, answer.body["total"]) == (["Charles", "Blaise"], 3)
    answer = run(integration, saved, pageSize=2, sort="-cn", cursor=answer.body["nextCursor"])
    assert [item["name"] for item in answer.body["items"]] == ["Ada"]
    assert answer.body["nextCursor"] is None


@pytest.mark.parametrize("media_type", ["application/x-ndjson", "text/csv"])
def test_the_whole_result_is_streamed(
    integration: Integration, people: dict[str, UUID], organizational_unit: str, media_type: str
) -> None:
    saved = save(integration, base=organizational_unit, attributes=["cn"])
    streamed = integration.client.get(
        f"{PATH}/{saved['id']}/run?sort=cn", headers={"X-API-Key": integration.value, "Accept": media_type}
    )
    assert streamed.headers["Content-Type"].startswith(media_type)
    text = b"".join(streamed).decode()
    places = [text.find(f"CN={name},") for name in people]
    assert -1 < places[0] < places[1] < places[2]


def test_a_cursor_belongs_to_the_filter_as_it_was(
    integration: Integration, people: dict[str, UUID], organizational_unit: str
) -> None:
    saved = save(integration, base=organizational_unit)
    twin = save(integration, base=organizational_unit, name="Twin")
    cursor = run(integration, saved, pageSize=2).body["nextCursor"]
    assert run(integration, saved, pageSize=2, cursor=cursor).status == 200
    assert run(integration, twin, pageSize=2, cursor=cursor).code == "Search.CursorInvalid"
    for change in ({"filter": "(cn=A*)"}, {"filter": "(objectClass=*)"}):  # and back
        assert integration.patch(f"{PATH}/{saved['id']}", change).status == 200
        answer = run(integration, saved, pageSize=2, cursor=cursor)
        assert (answer.status, answer.code) == (400, "Search.CursorInvalid")


def test_others_see_what_is_shared_and_change_nothing(
    integration: Integration, other: Integration, people: dict[str, UUID], organizational_unit: str
) -> None:
    private = save(integration, base=organizational_unit)
    shared = save(integration, name="Shared", shared=True, base=organizational_unit)
    assert [item["id"] for item in other.get(PATH).body["items"]] == [shared["id"]]
    for method, path, body in (
        ("GET", private["id"], None),
        ("GET", f"{private['id']}/run", None),
        ("PATCH", private["id"], {"name": "Mine now"}),
        ("DELETE", private["id"], None),
        ("GET", str(uuid4()), None),
    ):
        answer = other.call(method, f"{PATH}/{path}", body)
        assert (answer.status, answer.code) == (404, "Request.NotFound"), (method, path)
    assert other.get(f"{PATH}/{shared['id']}").body == shared
    assert names(run(other, shared)) == sorted(people)
    for method in ("PATCH", "DELETE"):
        answer = other.call(method, f"{PATH}/{shared['id']}", {"name": "Mine"} if method == "PATCH" else None)
        assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    assert SavedFilter.objects.get(id=shared["id"]).name == "Shared"


def test_names_are_unique_among_ones_own(integration: Integration, other: Integration) -> None:
    first = save(integration)
    answer = integration.post(PATH, {"name": "EVERYBODY", "filter": "(cn=*)"})
    assert (answer.status, answer.code) == (409, "Request.Conflict")
    second = save(integration, name="Second")
    assert integration.patch(f"{PATH}/{second['id']}", {"name": "everybody"}).status == 409
    assert integration.patch(f"{PATH}/{first['id']}", {"name": "EVERYBODY"}).status == 200
    save(other)


def test_a_filter_belongs_to_its_directory(
    integration: Integration, connection: DirectoryConnection, domain: Any
) -> None:
    saved = save(integration, shared=True)
    elsewhere = make_integration(make_connection(domain), owner=integration.key.owner)
    assert elsewhere.get(PATH).body["items"] == []
    assert elsewhere.get(f"{PATH}/{saved['id']}").status == 404
    save(elsewhere)


@pytest.mark.parametrize(
    ("members", "status", "code", "pointer"),
    [
        ({"filter": "(&(name=x)(sn))"}, 400, "AD.Filter.Malformed", "#/filter"),
        ({"filter": ""}, 400, "AD.Filter.Malformed", "#/filter"),
        ({"filter": "(cn=" + "x" * 8200 + ")"}, 400, "AD.Filter.Malformed", "#/filter"),
        ({"filter": "(!" * 40 + "(cn=x)" + ")" * 40}, 400, "AD.Filter.Malformed", "#/filter"),
        ({"filter": "(nosuch=x)"}, 400, "AD.Filter.Unsupported", "#/filter"),
        ({"filter": "(memberOf=CN=x*)"}, 400, "AD.Filter.Unsupported", "#/filter"),
        ({"filter": "(memberOf=x)"}, 400, "Search.FilterInvalid", "#/filter"),
        ({"filter": "(tokenGroups=*)"}, 400, "AD.Filter.Unsupported", "#/filter"),
        ({"filter": "(:caseExactMatch:=x)"}, 400, "AD.Filter.Unsupported", "#/filter"),
        ({"filter": "(|(cn=x)(unicodePwd=*))"}, 400, "AD.Attributes.NotReadable", "#/filter"),
        ({"attributes": ["mail", "nosuch"]}, 400, "AD.Attributes.Unknown", "#/attributes"),
        ({"attributes": ["ms-Mcs-AdmPwd"]}, 400, "AD.Attributes.NotReadable", "#/attributes"),
        ({"base": "nonsense"}, 400, "Request.Invalid", "#/base"),
        ({"base": ""}, 400, "Request.Invalid", "#/base"),
        ({"base": f"{uuid4()}"}, 404, "AD.Object.NotFound", "#/base"),
        ({"scope": "children"}, 400, "Request.Invalid", "#/scope"),
        ({"kind": "printers"}, 400, "Request.Invalid", "#/kind"),
        ({"name": " "}, 400, "Request.Invalid", "#/name"),
        ({"name": None}, 400, "Request.Invalid", "#/name"),
        ({"shared": "true"}, 400, "Request.Invalid", "#/shared"),
        ({"owner": "ada"}, 400, "Request.UnknownMember", "#/owner"),
    ],
)
def test_what_is_refused(
    integration: Integration, members: dict[str, Any], status: int, code: str, pointer: str | None
) -> None:
    saved = save(integration)
    whole = {"name": "New", "kind": "users", "filter": "(cn=*)", **members}
    for answer in (integration.post(PATH, whole), integration.patch(f"{PATH}/{saved['id']}", members)):
        assert (answer.status, answer.code) == (status, code), answer.body
        assert [error["pointer"] for error in answer.body.get("errors", [])] == ([pointer] if pointer else [])
    assert integration.get(f"{PATH}/{saved['id']}").body == saved
    assert SavedFilter.objects.count() == 1


def test_a_malformed_filter_tells_where(integration: Integration) -> None:
    answer = integration.post(PATH, {"name": "x", "filter": "(&(name=x)(sn))"})
    assert answer.body["position"] == 13


def test_a_run_checks_the_filter_anew(integration: Integration) -> None:
    saved = save(integration)
    # What the schema no longer knows, as after a restored forest: only the table can be made to hold it.
    SavedFilter.objects.filter(id=saved["id"]).update(filter="(goneWithTheSchema=x)")
    answer = run(integration, saved)
    assert (answer.status, answer.code) == (400, "AD.Filter.Unsupported")


def test_a_run_has_the_callers_rights(
    integration: Integration,
    connection: DirectoryConnection,
    people: dict[str, UUID],
    directory: Directory,
    organizational_unit: str,
) -> None:
    inner = directory.add_unit("Inner", parent=organizational_unit)
    directory.add_user("Dorothy", parent=inner)
    saved = save(integration, base=organizational_unit, shared=True)
    assert names(run(integration, saved)) == [*sorted(people), "Dorothy"]
    confined = make_integration(connection, scopes=[directory.guid(inner)])
    assert names(run(confined, saved)) == ["Dorothy"]
    for may, allowed in (([RUN], False), ([READ], False), ([MANAGE, READ], False), ([RUN, READ], True)):
        answer = run(make_integration(connection, may=may), saved)
        assert (answer.status, answer.code) == ((200, None) if allowed else (403, "Auth.Forbidden")), may


def test_permissions(integration: Integration, connection: DirectoryConnection) -> None:
    saved = save(integration, shared=True)
    runner = make_integration(connection, may=[RUN, READ])
    assert runner.get(PATH).status == runner.get(f"{PATH}/{saved['id']}").status == 200
    assert runner.post(PATH, {"name": "x", "filter": "(cn=*)"}).status == 403
    author = make_integration(connection, may=[MANAGE])
    own = save(author)
    assert author.get(f"{PATH}/{own['id']}").body == own
    assert author.patch(f"{PATH}/{own['id']}", {"shared": True}).status == 200


def test_the_person_counts_and_not_the_credential(integration: Integration, connection: DirectoryConnection) -> None:
    saved = save(integration)
    second_key = make_integration(connection, owner=integration.key.owner)
    assert second_key.patch(f"{PATH}/{saved['id']}", {"name": "Renamed"}).status == 200


def test_in_the_console(connection: DirectoryConnection, people: dict[str, UUID], organizational_unit: str) -> None:
    console = Console(make_person(superuser=True))
    answer = console.post(
        "/rest/ad/saved-filters", {"name": "Mine", "kind": "users", "filter": "(cn=Ada)", "base": organizational_unit}
    )
    assert answer.status == 201, answer.body
    found = console.get(f"/rest/ad/saved-filters/{answer.body['id']}/run")
    assert names(found) == ["Ada"]


def test_a_run_needs_no_more_than_its_own_parameters(integration: Integration) -> None:
    saved = save(integration)
    for parameter in ("filter", "base", "attributes", "q", "scope"):
        assert run(integration, saved, **{parameter: "x"}).code == "Request.UnknownParameter"
    assert run(integration, saved, sort="unicodePwd").code == "AD.Attributes.NotReadable"
    assert run(integration, saved, pageSize=0).code == "Request.Invalid"


def signed_in(person: Person) -> Client:
    Person.objects.filter(pk=person.pk).update(is_staff=True)
    client = Client()
    client.force_login(person)
    return client


def test_in_the_admin_a_person_sees_what_the_surfaces_show_and_removes_their_own(
    integration: Integration, other: Integration
) -> None:
    own = save(integration)
    private, shared = save(other, name="Private"), save(other, name="Shared", shared=True)
    listed = "/admin/directory/savedfilter/"
    page = signed_in(integration.key.owner)
    shown = page.get(listed).content.decode()
    assert "Everybody" in shown
    assert "Shared" in shown
    assert "Private" not in shown
    assert page.get(f"{listed}{private['id']}/change/").status_code == 302
    assert page.get(f"{listed}{shared['id']}/change/").status_code == 200
    assert page.get(f"{listed}add/").status_code == 403
    assert page.post(f"{listed}{shared['id']}/delete/", {"post": "yes"}).status_code == 403
    # The list's own action refuses as the page does.
    chosen = {"action": "delete_selected", "_selected_action": [shared["id"]], "post": "yes"}
    page.post(listed, chosen)
    assert SavedFilter.objects.filter(id=shared["id"]).exists()
    assert page.post(f"{listed}{own['id']}/delete/", {"post": "yes"}).status_code == 302
    superuser = signed_in(make_person(superuser=True))
    assert superuser.post(f"{listed}{private['id']}/delete/", {"post": "yes"}).status_code == 302
    assert list(SavedFilter.objects.values_list("name", flat=True)) == ["Shared"]
    assert signed_in(make_person()).get(listed).status_code == 403
