"""Searches: text, filter, place, order, pages, scopes of the role."""

import json
import time
from typing import Any
from uuid import UUID

import pytest

from active_directory import Client, json_templates, streaming
from active_directory.connections import inspection
from directory.shapes.encoded import encoder_of
from directory.shapes.record import Renderer, unreadable_reason
from lab.directory import Directory
from lab.domain import Domain
from tests.directory.queries.searches.asking import search
from tests.support.cast import Answer, Integration, make_connection, make_integration


@pytest.fixture
def people(directory: Directory, organizational_unit: str) -> dict[str, UUID]:
    """Five users, two of them in a unit below; surnames differ in case, one is missing."""
    inner = directory.add_unit("Inner", parent=organizational_unit)
    surnames = {"Ada": "byron", "Blaise": "PASCAL", "Charles": "Babbage", "Dorothy": None, "Émilie": "Pascal"}

    def add(name: str, sn: str | None) -> UUID:
        surname: dict[str, Any] = {"sn": sn} if sn else {}
        parent = inner if name in ("Dorothy", "Émilie") else organizational_unit
        return directory.add_user(name, parent=parent, **surname)

    return {name: add(name, sn) for name, sn in surnames.items()}


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [item["name"] for item in answer.body["items"]]


def test_it_works(integration: Integration, people: dict[str, UUID], organizational_unit: str) -> None:
    answer = search(integration, base=organizational_unit)
    assert sorted(names(answer)) == sorted(people)
    assert (answer.body["total"], answer.body["truncated"], answer.body["nextCursor"]) == (5, False, None)
    single = integration.get(f"/api/ad/users/{people['Ada']}").body
    assert next(item for item in answer.body["items"] if item["name"] == "Ada") == single


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How the directory was asked by each search: in one pass, or for identifiers first and then for the objects."""
    noted: list[str] = []
    find, read = Client.search, Client.read_each

    def note_search(self: Client, base: Any, scope: Any, filter: Any, attributes: Any = None, **options: Any) -> Any:
        if options.get("patient"):
            noted.append("all" if "displayName" in attributes else "identifiers")
        return find(self, base, scope, filter, attributes, **options)

    def note_read(self: Client, guids: Any, attributes: Any = None, **options: Any) -> Any:
        if "displayName" in attributes:
            noted.append("objects")
        return read(self, guids, attributes, **options)

    monkeypatch.setattr(Client, "search", note_search)
    monkeypatch.setattr(Client, "read_each", note_read)
    return noted


def test_what_is_known_to_fit_on_a_page_is_read_in_one_pass(
    integration: Integration,
    people: dict[str, UUID],
    directory: Directory,
    organizational_unit: str,
    passes: list[str],
) -> None:
    """Where it is not known, Samba might read all of a large domain before it sends a page, and admit no write."""
    wanted: dict[str, Any] = {
        "base": organizational_unit,
        "pageSize": 5,
        "attributes": "displayName,cn,objectSid,whenCreated",
    }
    first = search(integration, **wanted)
    assert passes == ["identifiers", "objects"]
    passes.clear()
    assert search(integration, **wanted).body == first.body
    assert passes == ["all"]
    directory.add_user("Fanny", parent=organizational_unit)
    passes.clear()
    answer = search(integration, **wanted)
    assert (len(names(answer)), answer.body["total"]) == (5, 6)
    assert passes == ["all", "identifiers", "objects"]
    passes.clear()
    following = search(integration, **wanted, cursor=answer.body["nextCursor"])
    assert len({*names(answer), *names(following)}) == 6
    assert search(integration, **wanted).body["items"] == answer.body["items"]
    assert "all" not in passes


def test_what_is_known_already_is_not_asked_for(
    integration: Integration,
    people: dict[str, UUID],
    directory: Directory,
    organizational_unit: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The objectGUID of the base, which is the parent of what lies in it, and, for a minute, what Samba is like."""
    asked: list[str] = []
    make = streaming.Query.__init__

    def note(query: streaming.Query, *given: Any, **named: Any) -> None:
        make(query, *given, **named)
        if query.attributes == ["vendorName"] or "parentGUID" in query.attributes:
            asked.append("parentGUID" if "parentGUID" in query.attributes else "vendorName")

    monkeypatch.setattr(streaming.Query, "__init__", note)

    def parents(**wanted: str) -> set[str]:
        asked.clear()
        answer = search(integration, base=organizational_unit, **wanted)
        assert names(answer)
        return {item["parentId"] for item in answer.body["items"]}

    unit = str(directory.guid(organizational_unit))
    parents()
    assert parents(scope="one-level") == {unit}
    assert asked == []
    assert len(parents()) == 2
    assert asked == ["parentGUID"]
    later = time.monotonic() + 61
    monkeypatch.setattr(inspection, "monotonic", lambda: later)
    parents(scope="one-level")
    assert asked == ["vendorName"]


@pytest.mark.parametrize("is_large", [True, False])
def test_an_index_of_nearly_everything_is_not_used_in_a_large_domain(
    integration: Integration,
    people: dict[str, UUID],
    organizational_unit: str,
    monkeypatch: pytest.MonkeyPatch,
    is_large: bool,
) -> None:
    """Samba takes four times as long for what it leads to; an index that the caller asks for is always used."""
    sent: list[str] = []
    find = Client.search

    def note(self: Client, base: Any, scope: Any, filter: Any, *given: Any, **options: Any) -> Any:
        sent.append(str(filter))
        return find(self, base, scope, filter, *given, **options)

    monkeypatch.setattr(Client, "search", note)
    # The first account that anybody creates in a domain is the 1000th or a later one.
    monkeypatch.setattr(inspection, "_MANY_ACCOUNTS", 1000 if is_large else 1_000_000)
    asked = "(|(&(objectClass=user)(cn=Ada))(&(objectClass=user)(cn=Blaise)))"
    answer = search(integration, base=organizational_unit, filter=asked)
    assert sorted(names(answer)) == ["Ada", "Blaise"]
    users = "(!(!(objectClass=user)))" if is_large else "(objectClass=user)"
    assert f"(&{users}(!(objectClass=computer)){asked})" in sent
    state = integration.get(f"/api/ad/accounts?state=enabled&base={organizational_unit}")
    assert sorted(names(state)) == sorted(people)
    assert any("(!(!(|" in filter for filter in sent) is is_large


def test_values_are_told_as_when_one_is_read(
    integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    """In lists the octets of text go into the JSON as they are."""
    texts: dict[str, Any] = {
        "description": '"quoted" \\ \u2028 <é> 😀\ttab',
        "info": "one\r\ntwo",
        "postOfficeBox": ["a", "ä"],
    }
    guid = directory.add_user("Zoë", parent=organizational_unit, **texts, jpegPhoto=b"\xff\xd8\x00")
    record = integration.get(f"/api/ad/users/{guid}?attributes=*").body
    (found,) = search(integration, base=organizational_unit, attributes="*").body["items"]
    assert found == record
    assert sorted(found["attributes"]["postOfficeBox"]) == ["a", "ä"]
    assert found["attributes"]["description"] == [texts["description"]]


def test_c_encodes_the_accounts_of_a_domain_as_python_does(
    integration: Integration, client: Client, people: dict[str, UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = sorted(
        attribute.name
        for attribute in client.schema.attributes.values()
        if not (attribute.constructed or unreadable_reason(attribute.name, attribute, confidential=True))
    )
    selections = [
        [],
        *(
            ["attributes", ",".join(part)]
            for part in (known[start : start + 300] for start in range(0, len(known), 300))
        ),
    ]

    def bodies() -> list[str]:
        """With the members in their order."""
        return [
            json.dumps(search(integration, resource, pageSize=1000, **dict([selection] if selection else [])).body)
            for resource in ("users", "computers", "service-accounts")
            for selection in selections
        ]

    rendered: list[None] = []
    render = Renderer.render
    monkeypatch.setattr(Renderer, "render", lambda *given, **named: rendered.append(None) or render(*given, **named))
    by_c, left = bodies(), len(rendered)
    monkeypatch.setattr(json_templates, "_is_compiled", False)
    encoder_of.cache_clear()
    assert by_c == bodies()
    encoder_of.cache_clear()
    assert left < (len(rendered) - left) / 4
    assert '"kind": "user"' in by_c[0]


def test_place(
    integration: Integration, people: dict[str, UUID], directory: Directory, organizational_unit: str
) -> None:
    unit = directory.guid(organizational_unit)
    assert sorted(names(search(integration, base=unit, scope="one-level"))) == ["Ada", "Blaise", "Charles"]
    assert names(search(integration, base=people["Ada"], scope="base")) == ["Ada"]
    assert sorted(names(search(integration, base=f"OU=inner,{organizational_unit}"))) == ["Dorothy", "Émilie"]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("sn", ["Charles", "Ada", "Blaise|Émilie", "Dorothy"]),
        ("-sn", ["Blaise|Émilie", "Ada", "Charles", "Dorothy"]),
        ("-name", ["Émilie", "Dorothy", "Charles", "Blaise", "Ada"]),
    ],
)
@pytest.mark.parametrize("page_size", [1, 2, 100])
def test_order_and_pages(
    integration: Integration,
    people: dict[str, UUID],
    organizational_unit: str,
    sort: str,
    expected: list[str],
    page_size: int,
) -> None:
    parameters: dict[str, Any] = {"base": organizational_unit, "sort": sort, "pageSize": page_size}
    answer = search(integration, **parameters)
    found = names(answer)
    while cursor := answer.body["nextCursor"]:
        answer = search(integration, **parameters, cursor=cursor)
        assert answer.body["total"] == 5
        found += names(answer)
    assert sorted(found) == sorted(people)
    assert [name if name in expected else "Blaise|Émilie" for name in dict.fromkeys(found)] == [
        name for item in expected for name in [item] * len(item.split("|"))
    ]


def test_pages_survive_changes(
    integration: Integration, people: dict[str, UUID], directory: Directory, organizational_unit: str
) -> None:
    parameters: dict[str, Any] = {"base": organizational_unit, "pageSize": 2}
    first = search(integration, **parameters)
    gone = UUID(first.body["items"][0]["id"])
    directory.delete(gone)
    directory.add_user("Zeno", parent=organizational_unit)
    found, answer = names(first), first
    while cursor := answer.body["nextCursor"]:
        answer = search(integration, **parameters, cursor=cursor)
        found += names(answer)
    assert len(set(found)) == len(found)
    assert set(people) <= set(found)


def test_a_cursor_belongs_to_its_parameters_and_credential(
    integration: Integration, people: dict[str, UUID], connection: Any, organizational_unit: str
) -> None:
    parameters: dict[str, Any] = {"base": organizational_unit, "pageSize": 2}
    cursor = search(integration, **parameters).body["nextCursor"]
    for answer in (
        search(integration, **{**parameters, "pageSize": 3}, cursor=cursor),
        search(integration, **parameters, cursor=cursor[:-4]),
        search(integration, **parameters, cursor="x"),
        search(integration, "groups", **parameters, cursor=cursor),
        search(make_integration(connection), **parameters, cursor=cursor),
    ):
        assert (answer.status, answer.code) == (400, "Search.CursorInvalid")


def test_text_and_filter(integration: Integration, people: dict[str, UUID], organizational_unit: str) -> None:
    place = {"base": organizational_unit}
    assert names(search(integration, **place, q="char")) == ["Charles"]
    assert names(search(integration, **place, q="émil")) == ["Émilie"]
    for harmless in ("*", "*)(objectClass=*", "\\", "a*"):
        assert names(search(integration, **place, q=harmless)) == []
    assert sorted(names(search(integration, **place, filter="(&(sn=pascal)(!(name=B*)))"))) == ["Émilie"]
    assert names(search(integration, **place, filter="(|)")) == []
    assert len(names(search(integration, **place, filter="(&)"))) == 5
    control = "(userAccountControl:1.2.840.113556.1.4.803:=512)"
    assert len(names(search(integration, **place, filter=control))) == 5


@pytest.mark.parametrize("text", ["(2.5.4.4=pascal)", "(&(2.5.4.4=PASC*)(!(2.5.4.4=byron)))"])  # sn
def test_attributes_are_found_by_their_oids(
    text: str, integration: Integration, people: dict[str, UUID], organizational_unit: str
) -> None:
    assert sorted(names(search(integration, base=organizational_unit, filter=text))) == ["Blaise", "Émilie"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("(1.2.840.113556.1.4.90=x)", "AD.Attributes.NotReadable"), ("(1.2.3.4.5=x)", "AD.Filter.Unsupported")],
)
def test_an_oid_is_as_good_as_its_name(text: str, code: str, integration: Integration) -> None:
    answer = search(integration, filter=text)  # unicodePwd, and none
    assert (answer.status, answer.code) == (400, code)


def test_what_the_server_may_not_know_is_said_otherwise(
    integration: Integration, people: dict[str, UUID], organizational_unit: str
) -> None:
    for condition in ("(cn~=ada)", "(!(!(cn~=Ada)))", "(&(cn=Ada)(userAccountControl:1.2.840.113556.1.4.804:=514))"):
        assert names(search(integration, base=organizational_unit, filter=condition)) == ["Ada"]


def test_each_kind_finds_its_own(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    directory.add_user("user", parent=organizational_unit)
    directory.add_group("group", parent=organizational_unit)
    directory.add_computer("computer", parent=organizational_unit)
    directory.add_unit("unit", parent=organizational_unit)
    directory.add(f"CN=contact,{organizational_unit}", {"objectClass": "contact"})
    place = {"base": organizational_unit, "scope": "one-level"}
    for resource, name in (
        ("users", "user"),
        ("groups", "group"),
        ("computers", "computer"),
        ("organization-units", "unit"),
        ("contacts", "contact"),
    ):
        assert names(search(integration, resource, **place)) == [name]
    assert len(names(search(integration, "objects", **place))) == 5


@pytest.mark.parametrize(
    ("parameters", "status", "code"),
    [
        ({"filter": "(name=x"}, 400, "AD.Filter.Malformed"),
        ({"filter": ""}, 400, "AD.Filter.Malformed"),
        ({"filter": "(userPassword=a*)"}, 400, "AD.Attributes.NotReadable"),
        ({"filter": "(&(name=x)(!(unicodePwd=*)))"}, 400, "AD.Attributes.NotReadable"),
        ({"filter": "(2.5.4.35=a*)"}, 400, "AD.Attributes.NotReadable"),
        ({"filter": "(nosuch=x)"}, 400, "AD.Filter.Unsupported"),
        ({"filter": "(tokenGroups=x)"}, 400, "AD.Filter.Unsupported"),
        ({"filter": "(:caseExactMatch:=x)"}, 400, "AD.Filter.Unsupported"),
        ({"filter": "(userAccountControl:1.2.840.113556.1.4.803:=abc)"}, 400, "Search.FilterInvalid"),
        ({"filter": "(userAccountControl:1.2.840.113556.1.4.804:=)"}, 400, "Search.FilterInvalid"),
        ({"filter": "(cn:1.2.840.113556.1.4.803:=2)"}, 400, "AD.Filter.Unsupported"),
        ({"filter": "(cn:1.2.840.113556.1.4.1941:=CN=x)"}, 400, "AD.Filter.Unsupported"),
        ({"attributes": "unicodePwd"}, 400, "AD.Attributes.NotReadable"),
        ({"attributes": "cn,tokengroups"}, 400, "AD.Attributes.NotReadable"),
        ({"sort": "tokenGroups"}, 400, "AD.Attributes.NotReadable"),
        ({"sort": "-unicodePwd"}, 400, "AD.Attributes.NotReadable"),
        ({"sort": "nosuch"}, 400, "AD.Attributes.Unknown"),
        ({"base": "OU=nowhere,DC=corp,DC=example,DC=test"}, 404, "AD.Object.NotFound"),
        ({"base": "nonsense"}, 400, "Request.Invalid"),
        ({"scope": "children"}, 400, "Request.Invalid"),
        ({"pageSize": "0"}, 400, "Request.Invalid"),
        ({"pageSize": "1001"}, 400, "Request.Invalid"),
        ({"q": ""}, 400, "Request.Invalid"),
        *(({"pageSize": text}, 400, "Request.Invalid") for text in ("1_0", "+10", " 10", "10.0", "१०", "9" * 5000)),
        ({"limit": "5"}, 400, "Request.UnknownParameter"),
    ],
)
def test_what_is_refused(integration: Integration, parameters: Any, status: int, code: str) -> None:
    answer = search(integration, **parameters)
    assert (answer.status, answer.code) == (status, code)


def test_what_is_wrong_is_named(integration: Integration, organizational_unit: str) -> None:
    absent = f"OU=nowhere,{organizational_unit}"
    answer = search(integration, base=absent)
    assert [(error["parameter"], absent in error["detail"]) for error in answer.body["errors"]] == [("base", True)]
    answer = search(integration, "accounts", state="enabled", kinds="x,user")
    (error,) = answer.body["errors"]
    assert error["parameter"] == "kinds"
    assert error["detail"] == "Input should be 'user', 'computer' or 'serviceAccount'"


def test_never_is_no_time_to_sort_by(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    for name, expires in (("zero", "0"), ("greatest", str(2**63 - 1)), ("early", "132000000000000000")):
        directory.add_user(name, parent=organizational_unit, accountExpires=expires)
    directory.add_user("late", parent=organizational_unit, accountExpires="139000000000000000")
    place = {"base": organizational_unit}
    assert names(search(integration, sort="accountExpires", **place))[:2] == ["early", "late"]
    assert names(search(integration, sort="-accountExpires", **place))[:2] == ["late", "early"]


def test_a_malformed_filter_tells_where(integration: Integration) -> None:
    assert search(integration, filter="(&(name=x)(sn))").body["position"] == 13


def test_a_role_with_scopes_finds_nothing_outside(
    connection: Any, people: dict[str, UUID], directory: Directory, organizational_unit: str
) -> None:
    inner = directory.guid(f"OU=Inner,{organizational_unit}")
    confined = make_integration(connection, scopes=[inner])
    assert sorted(names(search(confined))) == ["Dorothy", "Émilie"]
    assert sorted(names(search(confined, base=organizational_unit))) == ["Dorothy", "Émilie"]
    assert names(search(confined, base=organizational_unit, scope="one-level")) == []
    assert names(search(confined, "organization-units", base=organizational_unit, scope="one-level")) == ["Inner"]
    assert names(search(confined, base=f"CN=Users,{directory.base_dn}")) == []
    directory.rename(inner, "Renamed")
    assert sorted(names(search(confined))) == ["Dorothy", "Émilie"]
    directory.delete(inner, recursive=True)
    assert names(search(confined)) == []


def test_nested_scopes_find_once(
    connection: Any, people: dict[str, UUID], directory: Directory, organizational_unit: str
) -> None:
    scopes = [directory.guid(organizational_unit), directory.guid(f"OU=Inner,{organizational_unit}")]
    assert sorted(names(search(make_integration(connection, scopes=scopes)))) == sorted(people)


@pytest.mark.parametrize("page_size", [3, 1000])
@pytest.mark.parametrize("confined", [False, True])
def test_the_forests_configuration_is_searched_too(
    connection: Any, directory: Directory, page_size: int, confined: bool
) -> None:
    """It is a naming context of its own, which no search of the domain comes to."""
    place = f"CN=Services,CN=Configuration,{directory.base_dn}"
    integration = make_integration(connection, scopes=[directory.guid(place)] if confined else [])
    found: list[str] = []
    more: dict[str, str] = {}
    while True:
        answer = search(integration, "objects", base=place, pageSize=page_size, **more)
        found += [item["distinguishedName"] for item in answer.body["items"]]
        if answer.body["nextCursor"] is None:
            break
        more = {"cursor": answer.body["nextCursor"]}
    assert sorted(found) == sorted(directory.search("(objectClass=*)", "cn", base=place))
    assert len(found) == answer.body["total"] > 5


def test_a_directory_that_is_down_is_no_empty_list(db: None, domain: Domain) -> None:
    integration = make_integration(make_connection(domain, url="ldaps://127.0.33.250"))
    answer = search(integration)
    assert (answer.status, answer.code) == (503, "AD.Directory.Unavailable")
    assert int(answer.headers["Retry-After"]) >= 1
