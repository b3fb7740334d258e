"""The history of an object: its records newest first, in pages, inside the caller's scopes, beyond its deletion."""

from uuid import UUID, uuid4

from audit.read_buffer import reads
from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import Answer, Integration, make_connection, make_integration


def history(integration: Integration, guid: UUID, query: str = "") -> Answer:
    return integration.get(f"/api/ad/objects/{guid}/history{query}")


def operations(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [item["operation"] for item in answer.body["items"]]


def test_it_works(integration: Integration, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    other = directory.add_user(parent=organizational_unit)
    integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}})
    integration.patch(f"/api/ad/users/{other}", {"replace": {"title": "Baron"}})
    integration.post(f"/api/ad/users/{ada}/disable")
    integration.patch(f"/api/ad/users/{ada}", {"replace": {"nosuch": "x"}})
    integration.get(f"/api/ad/users/{ada}")
    reads.flush()
    answer = history(integration, ada)
    assert operations(answer) == ["users.read", "users.update", "users.disable", "users.update"]
    assert [item["outcome"] for item in answer.body["items"]] == ["succeeded", "failed", "succeeded", "succeeded"]
    oldest = answer.body["items"][-1]
    assert oldest["changes"] == [{"attribute": "title", "before": ["Analyst"], "after": ["Countess"]}]
    assert oldest == integration.get(f"/api/operations/{oldest['id']}").body
    assert (answer.body["nextCursor"], answer.body["total"]) == (None, None)


def test_pages(integration: Integration, ada: UUID) -> None:
    for title in "abcde":
        integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": title}})
    answer = history(integration, ada, "?pageSize=2")
    cursor = answer.body["nextCursor"]
    seen = answer.body["items"]
    assert history(integration, uuid4(), f"?pageSize=2&cursor={cursor}").code == "Search.CursorInvalid"
    while cursor:
        answer = history(integration, ada, f"?pageSize=2&cursor={cursor}")
        seen += answer.body["items"]
        cursor = answer.body["nextCursor"]
    assert [item["changes"][0]["after"] for item in seen] == [["e"], ["d"], ["c"], ["b"], ["a"]]


def test_a_deleted_object_has_its_history_still(integration: Integration, organizational_unit: str) -> None:
    made = integration.post("/api/ad/users", {"name": "Ada", "parent": organizational_unit}).body
    integration.delete(f"/api/ad/users/{made['id']}")
    assert operations(history(integration, made["id"])) == ["users.delete", "users.create"]


def test_what_was_deleted_along_with_its_container_has_an_empty_one(
    integration: Integration, connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    unit = directory.guid(directory.add_unit("Inner", parent=organizational_unit))
    user = directory.add_user(parent=directory.dn(unit))
    assert integration.delete(f"/api/ad/organization-units/{unit}?recursive=true").status == 204
    assert operations(history(integration, user)) == []
    confined = make_integration(connection, scopes=[directory.guid(organizational_unit)])
    assert operations(history(confined, user)) == []
    elsewhere = make_integration(connection, scopes=[directory.guid(f"CN=Users,{directory.base_dn}")])
    assert history(elsewhere, user).code == "Auth.Forbidden"


def test_nothing_recorded_and_nothing_there(integration: Integration, ada: UUID) -> None:
    assert operations(history(integration, ada)) == []
    unknown = history(integration, uuid4())
    assert (unknown.status, unknown.code) == (404, "AD.Object.NotFound")


def test_it_needs_the_logs_permission(connection: DirectoryConnection, ada: UUID) -> None:
    assert history(make_integration(connection, may=["directory.read_object"]), ada).status == 403
    assert history(make_integration(connection, may=["audit.read_log"]), ada).status == 200


def test_a_role_with_scopes_sees_what_happened_inside_them(
    integration: Integration,
    connection: DirectoryConnection,
    ada: UUID,
    directory: Directory,
    organizational_unit: str,
) -> None:
    inner = directory.add_unit("Inner", parent=organizational_unit)
    integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "outside"}})
    confined = make_integration(connection, scopes=[directory.guid(inner)])
    assert history(confined, ada).status == 403
    directory.move(ada, parent=inner)
    assert operations(history(confined, ada)) == []
    integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "inside"}})
    assert [item["changes"][0]["after"] for item in history(confined, ada).body["items"]] == [["inside"]]


def test_another_directory_has_other_histories(integration: Integration, ada: UUID, domain: Domain) -> None:
    integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}})
    elsewhere = make_integration(make_connection(domain))
    assert operations(history(elsewhere, ada)) == []
