"""Reading one object: the record of each kind, selected attributes, look-up by name."""

from urllib.parse import quote
from uuid import UUID, uuid4

import pytest

from active_directory import Client
from audit.models import OperationRecord
from audit.read_buffer import reads
from directory.models import DirectoryConnection
from directory.shapes.kinds import Kind
from directory.shapes.record import renderer_for
from lab.directory import ENABLED, Directory, random_name
from tests.support.cast import Integration, make_confined, make_integration
from tests.support.sent_searches import note_searches


def test_it_works(integration: Integration, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    answer = integration.get(f"/api/ad/users/{ada}")
    assert answer.status == 200
    record = answer.body
    assert (record["id"], record["kind"], record["name"]) == (str(ada), "user", "Ada Lovelace")
    assert record["distinguishedName"] == directory.dn(ada)
    assert record["parentId"] == str(directory.guid(organizational_unit))
    assert record["objectClass"] == ["top", "person", "organizationalPerson", "user"]
    assert record["createdAt"].endswith("Z")
    assert record["protected"] is False
    assert record["group"] is None
    assert record["account"] == {
        "samAccountName": directory.text(ada, "sAMAccountName"),
        "userPrincipalName": directory.text(ada, "userPrincipalName"),
        "sid": record["account"]["sid"],
        "enabled": True,
        "lockedOut": False,
        "expiresAt": None,
        "passwordLastSetAt": record["account"]["passwordLastSetAt"],
        "passwordExpired": False,
        "mustChangePassword": record["account"]["mustChangePassword"],
        "passwordNeverExpires": False,
        "lastSignInAt": None,
    }
    assert record["account"]["sid"].startswith("S-1-5-21-")
    assert record["attributes"]["title"] == ["Analyst"]
    assert record["attributes"]["mail"] == []
    assert answer.headers["ETag"] == f'"{record["version"]}"'


def test_a_confined_caller_costs_one_search_more(
    connection: DirectoryConnection,
    ada: UUID,
    directory: Directory,
    organizational_unit: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = make_integration(connection)
    confined = make_integration(connection, scopes=[directory.guid(organizational_unit)])
    sent = note_searches(monkeypatch)

    def searches_of(caller: Integration) -> int:
        sent.clear()
        assert caller.get(f"/api/ad/users/{ada}").status == 200
        return len(sent)

    # What all callers share may have to be read again.
    assert [min(searches_of(caller) for _ in range(4)) for caller in (whole, confined)] == [1, 2]


def test_an_identifier_in_capitals_is_the_same(integration: Integration, ada: UUID) -> None:
    assert integration.get(f"/api/ad/users/{str(ada).upper()}").body["id"] == str(ada)


def test_each_kind_has_its_path(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    made = {
        "users": directory.add_user(parent=organizational_unit),
        "groups": directory.add_group(parent=organizational_unit),
        "computers": directory.add_computer(parent=organizational_unit),
        "organization-units": directory.guid(organizational_unit),
    }
    for resource in made:
        for other, guid in made.items():
            answer = integration.get(f"/api/ad/{resource}/{guid}")
            assert answer.status == (200 if resource == other else 404), (resource, other)
            assert answer.code == (None if resource == other else "AD.Object.NotFound")
    for guid in made.values():
        assert integration.get(f"/api/ad/objects/{guid}").status == 200


def test_what_is_not_there_is_404(integration: Integration) -> None:
    answer = integration.get(f"/api/ad/users/{uuid4()}")
    assert (answer.status, answer.code) == (404, "AD.Object.NotFound")
    answer = integration.get("/api/ad/users/ada")
    assert (answer.status, answer.code) == (404, "Request.NotFound")


def test_attributes_are_selected_under_their_schema_names(integration: Integration, ada: UUID) -> None:
    answer = integration.get(f"/api/ad/users/{ada}?attributes=TITLE,department,objectSid")
    assert answer.body["attributes"] == {
        "title": ["Analyst"],
        "department": [],
        "objectSid": [answer.body["account"]["sid"]],
    }


def test_what_is_computed_for_single_objects_only_is_read(integration: Integration, ada: UUID, client: Client) -> None:
    answer = integration.get(f"/api/ad/users/{ada}?attributes=tokenGroups")
    assert answer.body["attributes"]["tokenGroups"]
    asked = ((None, True), (["mail"], True), (["mail", "tokenGroups"], False), (["*"], False))
    for names, together in asked:
        renderer = renderer_for(client.schema, names, {Kind.USER}, confidential=False)
        assert renderer.may_coalesce is together, names


def test_a_list_may_be_given_with_commas_or_repeated(integration: Integration, ada: UUID) -> None:
    with_commas = integration.get(f"/api/ad/users/{ada}?attributes=title,department,objectSid")
    repeated = integration.get(f"/api/ad/users/{ada}?attributes=title,department&attributes=objectSid")
    assert (repeated.status, repeated.body) == (200, with_commas.body)
    found = integration.get(
        "/api/ad/accounts?state=disabled&kinds=user&kinds=computer&attributes=title&attributes=mail"
    )
    assert found.status == 200
    answer = integration.get("/api/ad/users?q=ada&q=bob")
    assert (answer.status, answer.body["errors"][0]["parameter"]) == (400, "q")


def test_all_attributes_never_hold_a_secret(
    integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    guid = directory.add_user(parent=organizational_unit, password="Pass-word-1x", userPassword="in the clear")
    shown = integration.get(f"/api/ad/users/{guid}?attributes=*").body["attributes"]
    assert "sAMAccountName" in shown
    assert "in the clear" not in str(shown)
    assert not {"unicodePwd", "userPassword", "nTSecurityDescriptor", "tokenGroups"} & set(shown)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("unicodePwd", "AD.Attributes.NotReadable"),
        ("userpassword", "AD.Attributes.NotReadable"),
        ("msLAPS-EncryptedPassword", "AD.Attributes.NotReadable"),
        ("nTSecurityDescriptor", "AD.Attributes.NotReadable"),
        ("nosuch", "AD.Attributes.Unknown"),
        ("2.5.4.35", "AD.Attributes.Unknown"),
        ("", "AD.Attributes.Unknown"),
    ],
)
def test_attributes_that_cannot_be_read(integration: Integration, ada: UUID, name: str, code: str) -> None:
    answer = integration.get(f"/api/ad/users/{ada}?attributes=mail,{name}")
    assert (answer.status, answer.code) == (400, code)
    assert answer.body["errors"][0]["parameter"] == "attributes"


def test_by_dn_compares_as_the_directory_does(integration: Integration, ada: UUID, directory: Directory) -> None:
    dn = directory.dn(ada).replace(",", " , ", 1).upper()
    answer = integration.client.get("/api/ad/users/by-dn", {"dn": dn}, headers={"X-API-Key": integration.value})
    assert answer.json()["id"] == str(ada)
    assert integration.get("/api/ad/users/by-dn?dn=nonsense").status == 400
    assert integration.get(f"/api/ad/users/by-dn?dn=CN=nobody,{directory.base_dn}").status == 404
    assert integration.get("/api/ad/users/by-dn").code == "Request.Invalid"


@pytest.mark.parametrize("name", ["CN=cu1+SN=x", "2.5.4.3=cu1", "CN=a\\;b,nosuch=x"])
def test_a_name_that_the_directory_could_not_give_names_nothing(
    integration: Integration, organizational_unit: str, name: str
) -> None:
    dn = f"{name},{organizational_unit}"
    found = [
        integration.client.get(f"/api/ad/users{path}", query, headers={"X-API-Key": integration.value}).json()
        for path, query in (("/by-dn", {"dn": dn}), ("", {"base": dn}))
    ]
    found.append(integration.post("/api/ad/users", {"name": "Grace", "parent": dn}).body)
    assert [(body["status"], body["code"]) for body in found] == [(404, "AD.Object.NotFound")] * 3


def test_a_group_counts_its_members(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    users = [directory.add_user(parent=organizational_unit) for _ in range(3)]
    group = directory.add_group(parent=organizational_unit, members=[directory.dn(user) for user in users])
    record = integration.get(f"/api/ad/groups/{group}").body
    assert record["group"] == {"scope": "global", "type": "security", "memberCount": 3}
    assert record["account"] is None


def test_names_are_kept_whatever_they_contain(
    integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    name = random_name('Ädä, "the" #1 +=;<>\\ 数')
    guid = directory.add_user(name, parent=organizational_unit)
    record = integration.get(f"/api/ad/users/{guid}").body
    assert record["name"] == name
    assert integration.client.get(
        "/api/ad/users/by-dn", {"dn": record["distinguishedName"]}, headers={"X-API-Key": integration.value}
    ).json()["id"] == str(guid)


@pytest.mark.parametrize("stored", ["9223372036854775806", "-5", "9223372036854775807", "0"])
def test_an_expiry_that_no_calendar_holds_is_none(
    integration: Integration, directory: Directory, ada: UUID, stored: str
) -> None:
    directory.modify(ada, accountExpires=stored)
    record = integration.get(f"/api/ad/users/{ada}?attributes=accountExpires").body
    assert record["account"]["expiresAt"] is None
    assert record["attributes"]["accountExpires"] == ["never" if stored in ("0", "9223372036854775807") else stored]


def test_who_must_change_the_password(
    integration: Integration, directory: Directory, organizational_unit: str, ada: UUID
) -> None:
    never_expires, with_smart_card = 0x10000, 0x40000
    directory.modify(ada, pwdLastSet="0")
    others = [
        directory.add_computer(parent=organizational_unit),
        *(
            directory.add_user(parent=organizational_unit, userAccountControl=str(ENABLED | bit))
            for bit in (never_expires, with_smart_card)
        ),
    ]
    for guid in others:
        directory.modify(guid, pwdLastSet="0")
    unit = directory.guid(organizational_unit)
    path = f"/api/ad/accounts?state=must-change-password&kinds=user,computer&base={unit}"
    assert [item["id"] for item in integration.get(path).body["items"]] == [str(ada)]
    for guid in (ada, *others):
        record = integration.get(f"/api/ad/objects/{guid}").body
        assert record["account"]["mustChangePassword"] is (guid == ada)
        (found,) = integration.get(f"/api/ad/objects?base={guid}").body["items"]
        assert found["account"] == record["account"]


class TestByAnotherIdentifier:
    @pytest.fixture
    def number(self, directory: Directory, ada: UUID) -> str:
        number = f"(*) {uuid4().hex[:12]}"  # at most 16 characters
        directory.modify(ada, employeeID=number, userPrincipalName=f"{uuid4().hex}@example.test")
        return number

    def test_it_works(self, integration: Integration, directory: Directory, ada: UUID, number: str) -> None:
        record = integration.get(f"/api/ad/users/{ada}").body
        account, by = record["account"], "/api/ad/users/by"
        found = [
            integration.get(f"{by}/samAccountName/{account['samAccountName'].upper()}"),
            integration.get(f"{by}/userPrincipalName/{quote(account['userPrincipalName'])}"),
            integration.get(f"{by}/sid/{account['sid']}"),
            integration.get(f"{by}/employeeID/{quote(number)}"),
            integration.get(f"/api/ad/objects/by/sid/{account['sid']}"),
        ]
        assert [answer.body for answer in found] == [record] * len(found)
        assert found[0].headers["ETag"] == f'"{record["version"]}"'
        known = integration.get(f"{by}/sid/{account['sid']}?attributes=title", If_None_Match=found[0].headers["ETag"])
        assert known.status == 304
        reads.flush()
        assert set(OperationRecord.objects.filter(operation="users.read-by").values_list("target_id")) == {(ada,)}

    def test_each_kind(
        self, integration: Integration, directory: Directory, organizational_unit: str, ada: UUID
    ) -> None:
        computer, group = (
            directory.add_computer(parent=organizational_unit),
            directory.add_group(parent=organizational_unit),
        )
        name = directory.text(computer, "sAMAccountName")
        for written in (name, name.removesuffix("$")):
            assert integration.get(f"/api/ad/computers/by/samAccountName/{written}").body["id"] == str(computer)
        assert integration.get(f"/api/ad/groups/by/sid/{directory.sid(group)}").body["id"] == str(group)
        assert integration.get(f"/api/ad/users/by/sid/{directory.sid(group)}").code == "AD.Object.NotFound"

    def test_refusals(
        self, integration: Integration, directory: Directory, organizational_unit: str, ada: UUID, number: str
    ) -> None:
        by = "/api/ad/users/by"
        assert integration.get(f"{by}/employeeID/{quote(number)[:-1]}").code == "AD.Object.NotFound"
        assert integration.get(f"{by}/employeeID/*").code == "AD.Object.NotFound"
        for path, parameter in (("sid/ada", "value"), ("mail/x", "identifier"), ("samAccountName/%00", "value")):
            answer = integration.get(f"{by}/{path}")
            assert (answer.status, answer.body["errors"][0]["parameter"]) == (400, parameter), path
        directory.add_user(parent=organizational_unit, employeeID=number)
        assert (answer := integration.get(f"{by}/employeeID/{quote(number)}")).status == 409
        assert answer.code == "AD.Object.Ambiguous"

    def test_confined_callers_find_what_is_inside(
        self, connection: DirectoryConnection, directory: Directory, organizational_unit: str, ada: UUID, number: str
    ) -> None:
        inside = directory.add_unit(random_name("inside"), parent=organizational_unit)
        confined = make_confined("role", connection, directory.guid(inside))
        path = f"/api/ad/users/by/employeeID/{quote(number)}"
        assert confined.get(path).code == "AD.Object.NotFound"
        own = directory.add_user(parent=inside, employeeID=number)
        assert confined.get(path).body["id"] == str(own)
