"""What a record shows for a value finds that record when a filter asks for it; what is no value is refused."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from active_directory import Client, Equals, Syntax
from lab.directory import Directory
from tests.directory.queries.searches.asking import found, search
from tests.support.cast import Integration

AUGUST = "2026-08-01T00:00:00Z"
FILETIME = 134_300_160_000_000_000
_MAX_OCTETS = 1_000
"""Of a value in the test of all attributes: a longer one does not fit into an address."""


@pytest.fixture
def people(directory: Directory, organizational_unit: str) -> dict[str, UUID]:
    """Four users by when their accounts expire; Never and Zero do not."""
    expiry = {"Before": FILETIME - 1, "Then": FILETIME, "Never": 2**63 - 1, "Zero": 0}
    return {
        name: directory.add_user(name, parent=organizational_unit, accountExpires=str(at), enabled=name != "Zero")
        for name, at in expiry.items()
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"(accountExpires={AUGUST})", {"Then"}),
        ("(accountExpires=2026-08-01T02:00:00+02:00)", {"Then"}),
        ("(accountExpires=2026-07-31T23:59:59.9999999Z)", {"Before"}),
        ("(accountExpires=20260801000000.0Z)", {"Then"}),
        (f"(accountExpires={FILETIME})", {"Then"}),
        (f"(accountExpires<={AUGUST})", {"Before", "Then"}),
        (f"(accountExpires>={AUGUST})", {"Then"}),
        (f"(!(accountExpires>={AUGUST}))", {"Before", "Never", "Zero"}),
        ("(accountExpires=never)", {"Never", "Zero"}),
        ("(!(accountExpires=never))", {"Before", "Then"}),
        (f"(accountExpires>={FILETIME})", {"Then", "Never"}),  # as it is kept
        ("(whenCreated>=2020-01-01T00:00:00.5+01:00)", {"Before", "Then", "Never", "Zero"}),
        ("(whenCreated<=2020-01-01T00:00:00Z)", set()),
        ("(userAccountControl:1.2.840.113556.1.4.803:=2)", {"Zero"}),
        ("(objectCategory=person)", {"Before", "Then", "Never", "Zero"}),
    ],
)
def test_a_value_is_read_as_it_is_shown(
    integration: Integration, people: dict[str, UUID], organizational_unit: str, text: str, expected: set[str]
) -> None:
    assert found(search(integration, base=organizational_unit, filter=text)) == expected


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        ("(accountExpires<=tomorrow)", "Search.FilterInvalid", 17),
        ("(&(cn=x)(!(userAccountControl=abc)))", "Search.FilterInvalid", 30),
        ("(memberOf=Announcements)", "Search.FilterInvalid", 10),
        ("(memberOf:1.2.840.113556.1.4.1941:=Announcements)", "Search.FilterInvalid", 35),
        ("(objectClass=usr)", "Search.FilterInvalid", 13),
        (r"(anr=\ff)", "Search.FilterInvalid", 5),
        ("(memberOf=CN=Announcements*)", "AD.Filter.Unsupported", 10),
        ("(whenCreated=2026*)", "AD.Filter.Unsupported", 13),
        ("(objectClass=us*)", "AD.Filter.Unsupported", 13),
        ("(objectCategory=1.2.840.113556.1.5.9)", "Search.FilterInvalid", 16),
    ],
)
def test_what_would_find_nothing_is_refused(integration: Integration, text: str, code: str, position: int) -> None:
    answer = search(integration, filter=text)
    assert (answer.status, answer.code, answer.body["position"]) == (400, code, position), answer.body
    assert answer.body["errors"][0]["parameter"] == "filter"
    stream = integration.call("GET", f"/api/ad/users?{urlencode({'filter': text})}", Accept="application/x-ndjson")
    assert (stream.status, stream.code) == (400, code)


def test_names_of_objects_are_read(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    directory.add_user("Doe = 1, Ada", parent=organizational_unit)
    ada = rf"CN=Doe \3D 1\, Ada,{organizational_unit}"
    group = directory.guid(directory.add_group("Band", parent=organizational_unit, member=[ada]))
    for name in (f"CN=Band,{organizational_unit}", f"cn = band , {organizational_unit}", f"<GUID={group}>"):
        assert found(search(integration, filter=f"(memberOf={name})")) == {"Doe = 1, Ada"}, name
    for name in (ada, ada.replace(",OU", " , OU")):
        assert found(search(integration, "groups", filter=str(Equals("member", name)))) == {"Band"}, name


def test_every_value_that_is_shown_is_found(integration: Integration, client: Client, people: dict[str, UUID]) -> None:
    """A value of every attribute of the schema that an object of the domain has."""
    asked: set[str] = set()
    parameters: dict[str, Any] = {"attributes": "*", "pageSize": 1000}
    for record in search(integration, "objects", **parameters).body["items"]:
        terms = []
        for name, (value, *_) in record["attributes"].items():
            attribute = client.schema.attribute(name)
            is_asked = attribute is not None and not attribute.constructed and name not in asked
            if is_asked and value and len(value) <= _MAX_OCTETS and attribute.syntax is not Syntax.SECURITY_DESCRIPTOR:
                terms.append(str(Equals(name, value)))
                asked.add(name)
        for place in range(0, len(terms), 5):
            some = terms[place : place + 5]
            answer = search(integration, "objects", base=record["id"], scope="base", filter=f"(&{''.join(some)})")
            assert [item["id"] for item in answer.body["items"]] == [record["id"]], some
    assert len(asked) > 80
