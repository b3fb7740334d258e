"""`expand=manager`: whom the manager names, in lists, reads and streams, and for confined callers."""

from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest

from audit.models import OperationRecord
from audit.read_buffer import reads
from core.paging import CursorInvalid, open_cursor, seal_cursor
from directory.models import DirectoryConnection
from directory.queries.managers import SearchUsers
from directory.queries.searches.definitions import SearchQuery
from lab.directory import Directory, random_name
from tests.audit.calls import CALL
from tests.support.cast import Integration, make_confined


@pytest.fixture
def boss(directory: Directory, organizational_unit: str, ada: UUID) -> UUID:
    boss = directory.add_user(parent=organizational_unit, mail="boss@example.test")
    directory.modify(ada, manager=directory.dn(boss))
    return boss


def test_it_works(
    integration: Integration, directory: Directory, organizational_unit: str, ada: UUID, boss: UUID
) -> None:
    expected = {
        "id": str(boss),
        "kind": "user",
        "distinguishedName": directory.dn(boss),
        "name": directory.text(boss, "name"),
        "displayName": None,
        "samAccountName": directory.text(boss, "sAMAccountName"),
        "userPrincipalName": None,
        "mail": "boss@example.test",
    }
    read = integration.get(f"/api/ad/users/{ada}?expand=manager&attributes=title").body
    assert read["manager"] == expected
    assert read["attributes"] == {"title": ["Analyst"]}
    for path in (
        f"by-dn?dn={quote(directory.dn(ada))}&",
        f"by/samAccountName/{directory.text(ada, 'sAMAccountName')}?",
    ):
        assert integration.get(f"/api/ad/users/{path}expand=manager&attributes=title").body == read
    path = f"/api/ad/users?base={quote(organizational_unit)}&attributes=title"
    for page in ("", "&pageSize=1"):
        listed: list[Any] = []
        cursor = ""
        while cursor is not None:
            answer = integration.get(f"{path}&expand=manager{page}{cursor and f'&cursor={quote(cursor)}'}").body
            listed, cursor = listed + answer["items"], answer["nextCursor"]
        assert {item["id"]: item["manager"] for item in listed} == {str(ada): expected, str(boss): None}
    assert all("manager" not in item for item in integration.get(path).body["items"])
    reads.flush()
    shown = OperationRecord.objects.filter(operation="users.read").values_list("target_id", flat=True)
    assert set(shown) == {ada, boss}


def test_refusals(integration: Integration, ada: UUID) -> None:
    for path in (f"users/{ada}?", "users?", "users/by-dn?dn=x&", "users/by/sid/x?"):
        answer = integration.get(f"/api/ad/{path}expand=mail")
        assert (answer.status, answer.body["errors"][0]["parameter"]) == (400, "expand")
    assert integration.get(f"/api/ad/objects/{ada}?expand=manager").code == "Request.UnknownParameter"


def test_nobody_outside_is_shown(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str, ada: UUID, boss: UUID
) -> None:
    inside = directory.add_unit(random_name("inside"), parent=organizational_unit)
    led = directory.add_user(parent=inside, manager=directory.dn(boss))
    confined = make_confined("role", connection, directory.guid(inside))
    read = confined.get(f"/api/ad/users/{led}?expand=manager").body
    (listed,) = confined.get("/api/ad/users?expand=manager").body["items"]
    assert read["manager"] is listed["manager"] is None
    directory.modify(ada, manager=[])


def test_a_list_that_the_release_before_began_goes_on() -> None:
    """That release does not know `expand`."""
    query = type("SearchQuery", (SearchUsers,), {})
    cursor = seal_cursor(CALL, SearchQuery(), ["here"])
    assert open_cursor(CALL, query(), cursor) == ["here"]
    with pytest.raises(CursorInvalid):
        open_cursor(CALL, query(expand="manager"), cursor)
