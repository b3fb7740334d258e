"""The list of service accounts: the types, and what each record says besides."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from active_directory import Entry
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.queries.account_searches import search_by_type
from lab.directory import WORKSTATION, Directory, Values, random_name
from tests.support.cast import Answer, Integration
from tests.support.descriptors import pack

EVERY = {"Managed", "GroupManaged", "Served"}


def search(integration: Integration, **parameters: Any) -> Answer:
    return integration.get(f"/api/ad/service-accounts?{urlencode(parameters)}")


def names(answer: Answer) -> set[str]:
    assert answer.status == 200, answer.body
    return {item["name"] for item in answer.body["items"]}


@pytest.fixture
def accounts(directory: Directory, organizational_unit: str) -> dict[str, UUID]:
    """One of each type there is in Samba's schema, on a host; and accounts that are none."""
    made: dict[str, UUID] = {}

    def add(name: str, attributes: dict[str, Values]) -> None:
        entry: dict[str, Values] = {
            "objectClass": f"msDS-{name}ServiceAccount",
            "sAMAccountName": f"{random_name('m')}$",
            "userAccountControl": str(WORKSTATION),
        }
        made[name] = directory.add(f"CN={name},{organizational_unit}", entry | attributes)

    made["Readers"] = directory.add_group("Readers", parent=organizational_unit)
    sid = _sid(directory, made["Readers"])
    readers = pack(f"O:BAD:(A;;RPLC;;;{sid})(A;;0xf01ff;;;S-1-5-21-1-2-3-4)(D;;RP;;;BG)(A;;WP;;;BU)(A;IO;RP;;;WD)")[0]
    add("Managed", {"servicePrincipalName": f"http/{random_name('web')}"})
    add("GroupManaged", {"msDS-ManagedPasswordInterval": "45", "msDS-GroupMSAMembership": readers})
    made["PC"] = directory.add_computer("PC", parent=organizational_unit)
    directory.add_values(made["PC"], **{"msDS-HostServiceAccount": directory.dn(made["Managed"])})
    spns = [f"MSSQLSvc/{random_name('db')}", f"http/{random_name('web')}"]
    made["Served"] = directory.add_user("Served", parent=organizational_unit, servicePrincipalName=spns)
    made["Ada"] = directory.add_user("Ada", parent=organizational_unit)
    return made


def _sid(directory: Directory, target: UUID) -> str:
    value = directory.read(target, "objectSid")["objectSid"][0]
    parts = [str(int.from_bytes(value[start : start + 4], "little")) for start in range(8, len(value), 4)]
    return "-".join(["S-1-5", *parts])


def test_it_works(
    integration: Integration, accounts: dict[str, UUID], directory: Directory, organizational_unit: str
) -> None:
    answer = search(integration, base=organizational_unit)
    assert names(answer) == EVERY
    records = {item["name"]: item for item in answer.body["items"]}
    parts = {name: record.pop("serviceAccount") for name, record in records.items()}
    assert records["Served"] == integration.get(f"/api/ad/users/{accounts['Served']}").body
    assert {name: record["kind"] for name, record in records.items()} == {
        "Managed": "serviceAccount",
        "GroupManaged": "serviceAccount",
        "Served": "user",
    }
    assert parts["Managed"] == {
        "type": "managed",
        "servicePrincipalNames": [directory.text(accounts["Managed"], "servicePrincipalName")],
        "hosts": [f"CN=PC,{organizational_unit}"],
        "passwordReaders": [],
        "passwordChangeIntervalDays": None,
    }
    assert parts["GroupManaged"] == {
        "type": "group-managed",
        "servicePrincipalNames": [],
        "hosts": [],
        "passwordReaders": [
            {"sid": _sid(directory, accounts["Readers"]), "name": "Readers", "id": str(accounts["Readers"])},
            {"sid": "S-1-5-21-1-2-3-4", "name": None, "id": None},
        ],
        "passwordChangeIntervalDays": 45,
    }
    served = parts["Served"]
    stored = directory.read(accounts["Served"], "servicePrincipalName")["servicePrincipalName"]
    assert sorted(served.pop("servicePrincipalNames")) == sorted(value.decode() for value in stored)
    assert served == {
        "type": "user-with-spn",
        "hosts": [],
        "passwordReaders": [],
        "passwordChangeIntervalDays": None,
    }


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ("managed", {"Managed"}),
        ("group-managed", {"GroupManaged"}),
        ("user-with-spn", {"Served"}),
        ("managed,user-with-spn", {"Managed", "Served"}),
        # Samba's schema, like that of Windows before 2025, does not know the class: none, and no error.
        ("delegated-managed", set()),
        ("delegated-managed,managed", {"Managed"}),
    ],
)
def test_types(
    integration: Integration, accounts: dict[str, UUID], organizational_unit: str, types: str, expected: set[str]
) -> None:
    assert names(search(integration, base=organizational_unit, types=types)) == expected


def test_delegated_ones_of_windows_2025(connection: DirectoryConnection) -> None:
    extend = search_by_type(get_client(connection.id), ["delegated-managed"]).extend
    assert extend is not None
    classes = [b"top", b"person", b"organizationalPerson", b"user", b"computer", b"msDS-DelegatedManagedServiceAccount"]
    entry = Entry("CN=Delegated", {"objectClass": classes, "msDS-ManagedPasswordInterval": [b"30"]})
    part = extend(entry, entry)["serviceAccount"]
    assert (part["type"], part["passwordChangeIntervalDays"]) == ("delegated-managed", 30)


def test_the_key_of_all_tickets_serves_nobody(integration: Integration, directory: Directory) -> None:
    krbtgt = f"CN=krbtgt,CN=Users,{directory.base_dn}"
    assert directory.text(krbtgt, "servicePrincipalName")
    assert "krbtgt" not in names(search(integration, base=f"CN=Users,{directory.base_dn}"))


def test_it_is_a_search_like_any_other(
    integration: Integration, accounts: dict[str, UUID], organizational_unit: str
) -> None:
    parameters = {"base": organizational_unit, "sort": "-name", "pageSize": 2, "attributes": "cn"}
    first = search(integration, **parameters).body
    assert ([item["name"] for item in first["items"]], first["total"]) == (["Served", "Managed"], 3)
    assert first["items"][0]["attributes"] == {"cn": ["Served"]}
    second = search(integration, **parameters, cursor=first["nextCursor"]).body
    assert [item["name"] for item in second["items"]] == ["GroupManaged"]
    answer = search(integration, base=organizational_unit, filter="(msDS-ManagedPasswordInterval>=40)")
    assert names(answer) == {"GroupManaged"}


@pytest.mark.parametrize(
    ("parameters", "code", "offender"),
    [
        ({"types": "users"}, "Request.Invalid", "types"),
        ({"types": ""}, "Request.Invalid", "types"),
        ({"type": "managed"}, "Request.UnknownParameter", "type"),
    ],
)
def test_what_is_refused(integration: Integration, parameters: dict[str, str], code: str, offender: str) -> None:
    answer = search(integration, **parameters)
    assert (answer.status, answer.code) == (400, code)
    assert {item["parameter"] for item in answer.body["errors"]} == {offender}
