"""The list of the schema's attributes."""

from typing import Any

import pytest

from tests.support.cast import Integration

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


def listed(integration: Integration, query: str) -> list[dict[str, Any]]:
    answer = integration.get(f"/api/ad/attributes?{query}")
    assert answer.status == 200, answer
    return list(answer.body["items"])


def test_it_works(integration: Integration) -> None:
    known = {item["name"]: item for item in listed(integration, "names=MAIL,member,memberOf,whenCreated,pwdLastSet")}
    assert known["mail"] == {
        "name": "mail",
        "syntax": "text",
        "singleValued": True,
        "indexed": True,
        "computed": False,
        "systemOnly": False,
    }
    assert (known["member"]["syntax"], known["member"]["singleValued"]) == ("distinguishedName", False)
    assert known["memberOf"]["systemOnly"]
    assert (known["whenCreated"]["syntax"], known["pwdLastSet"]["syntax"]) == ("time", "fileTime")


@pytest.mark.parametrize(
    ("name", "syntax"),
    [
        ("objectGUID", "guid"),
        ("objectSid", "sid"),
        ("thumbnailPhoto", "octets"),
        ("isDeleted", "boolean"),
        ("userAccountControl", "integer"),
        ("uSNChanged", "integer"),
    ],
)
def test_what_a_value_is(integration: Integration, name: str, syntax: str) -> None:
    assert [item["syntax"] for item in listed(integration, f"names={name}")] == [syntax]


def test_what_begins_with_the_text_comes_first(integration: Integration) -> None:
    names = [item["name"] for item in listed(integration, "q=Mail&pageSize=1000")]
    assert names[0] == "mail"
    assert "otherMailbox" in names
    begins = [name.lower().startswith("mail") for name in names]
    assert begins == sorted(begins, reverse=True)
    assert all("mail" in name.lower() for name in names)


def test_all_of_them_in_pages(integration: Integration) -> None:
    whole = listed(integration, "pageSize=1000")
    answer = integration.get("/api/ad/attributes?pageSize=600")
    pages = answer.body["items"]
    while answer.body["nextCursor"]:
        answer = integration.get(f"/api/ad/attributes?pageSize=600&cursor={answer.body['nextCursor']}")
        pages += answer.body["items"]
    assert len(pages) == answer.body["total"] > 1000
    assert pages[:1000] == whole
    other = integration.get(f"/api/ad/attributes?q=a&cursor={'x' * 20}")
    assert (other.status, other.code) == (400, "Search.CursorInvalid")


def test_secrets_are_not_even_listed(integration: Integration) -> None:
    assert listed(integration, "names=unicodePwd,userPassword,supplementalCredentials") == []
