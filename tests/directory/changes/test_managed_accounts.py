"""Creating group-managed service accounts, and whatever else has attributes that are set at creation alone."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import ldap
import pytest

from active_directory import Client, error_from
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import WORKSTATION, Directory, random_name
from tests.support.cast import Answer, Integration, make_integration

_SERVICE = "CN=Group Key Distribution Service"
INTERVAL = "msDS-ManagedPasswordInterval"


def body_of(parent: str, **update: Any) -> dict[str, Any]:
    return {
        "objectClass": "msDS-GroupManagedServiceAccount",
        "name": random_name("gmsa"),
        "parent": parent,
        "add": {"sAMAccountName": f"{random_name('g')}$", "dNSHostName": "web.corp.example.test", **update},
    }


def create(integration: Integration, body: dict[str, Any], *, dry: bool = False) -> Answer:
    return integration.post(f"/api/ad/objects{'?dryRun=true' if dry else ''}", body)


@pytest.fixture
def root_key(directory: Directory) -> Iterator[UUID]:
    """A root key of the forest, as far as its presence goes: Samba 4.17 makes no passwords of it."""
    place = f"CN=Services,CN=Configuration,{directory.base_dn}"
    service, keys = (f"{name},{place}" for name in (_SERVICE, f"CN=Master Root Keys,{_SERVICE}"))
    for dn in (service, keys):
        directory.add(dn, {"objectClass": "container"})
    attributes = {"Version": "1", "CreateTime": "0", "UseStartTime": "0", "PrivateKeyLength": "512"}
    attributes |= {"PublicKeyLength": "2048", "KDFAlgorithmID": "SP800_108_CTR_HMAC", "RootKeyData": "x" * 64}
    attributes |= {"SecretAgreementAlgorithmID": "DH", "DomainID": directory.base_dn}
    key = directory.add(
        f"CN={random_name('key')},{keys}",
        {"objectClass": "msKds-ProvRootKey"} | {f"msKds-{name}": value for name, value in attributes.items()},
    )
    yield key
    directory.delete(service, recursive=True)


def test_it_works(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    body = body_of(organizational_unit, **{INTERVAL: "45", "userAccountControl": str(WORKSTATION)})
    dry = create(integration, body, dry=True)
    assert dry.status == 200, dry.body
    assert {"attribute": INTERVAL, "before": [], "after": ["45"]} in dry.body["changes"]
    answer = create(integration, body)
    assert answer.status == 201, answer.body
    guid = UUID(answer.body["id"])
    assert answer.body["kind"] == "serviceAccount"
    assert answer.body["account"]["enabled"] is True
    assert directory.read(guid, INTERVAL)[INTERVAL] == [b"45"]
    found = integration.get(f"/api/ad/service-accounts?types=group-managed&base={organizational_unit}")
    assert [item["serviceAccount"]["passwordChangeIntervalDays"] for item in found.body["items"]] == [45]


def test_the_interval_stays(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    guid = create(integration, body_of(organizational_unit, **{INTERVAL: "30"})).body["id"]
    for updates in ({"replace": {INTERVAL: "60"}}, {"add": {INTERVAL: "60"}}, {"clear": [INTERVAL]}):
        for query in ("", "?dryRun=true"):
            answer = integration.patch(f"/api/ad/objects/{guid}{query}", updates)
            assert (answer.status, answer.code) == (400, "AD.Attributes.NotWritable")
            assert "can be set only when" in answer.body["errors"][0]["detail"]
    assert directory.text(UUID(guid), INTERVAL) == "30"


def test_no_other_class_takes_it(integration: Integration, organizational_unit: str) -> None:
    body = {"objectClass": "container", "name": "x", "parent": organizational_unit, "add": {INTERVAL: "30"}}
    for dry in (True, False):
        answer = create(integration, body, dry=dry)
        assert (answer.status, answer.code) == (400, "AD.Attributes.NotWritable")


@pytest.mark.parametrize("days", ["0", "-1", "x", "1.5"])
def test_an_interval_that_is_none(integration: Integration, organizational_unit: str, days: str) -> None:
    for dry in (True, False):
        answer = create(integration, body_of(organizational_unit, **{INTERVAL: days}), dry=dry)
        assert (answer.status, answer.code) == (400, "AD.Attributes.InvalidValue")
        assert answer.body["errors"][0]["pointer"] == f"#/add/{INTERVAL}"


@pytest.mark.parametrize("attribute", ["instanceType", "objectSid", "uSNCreated", "msDS-KeyVersionNumber"])
def test_what_the_directory_gives_is_not_taken(
    integration: Integration, organizational_unit: str, attribute: str
) -> None:
    answer = create(integration, body_of(organizational_unit, **{INTERVAL: "30", attribute: "4"}))
    assert (answer.status, answer.code) == (400, "AD.Attributes.NotWritable")


def test_a_dry_run_misses_what_the_directory_would_miss(
    integration: Integration, connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    """Of classes that require something and such as only the directory gives something to, every answer is the same."""
    supervised = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    required = {
        "msDS-GroupManagedServiceAccount": INTERVAL,
        "printQueue": "printerName, serverName, shortServerName, uNCName, versionNumber",
        "volume": "uNCName",
        "groupOfNames": "member",
        "applicationEntity": "presentationAddress",
        "nisMap": "nisMapName",
    }
    for object_class, missing in required.items():
        body = {"objectClass": object_class, "name": random_name("x"), "parent": organizational_unit}
        refused = [create(integration, body), create(integration, body, dry=True), create(supervised, body)]
        assert {(answer.status, answer.code) for answer in refused} == {(422, "AD.Directory.Rejected")}, object_class
        assert {answer.body["detail"] for answer in refused} == {f"{object_class} requires {missing}"}
        with pytest.raises(Exception, match="mandatory attribute"):
            directory.add(f"CN={object_class},{organizational_unit}", {"objectClass": object_class})
    unasking = ("user", "computer", "group", "msDS-ManagedServiceAccount", "inetOrgPerson", "contact", "device")
    for object_class in unasking:
        body = {"objectClass": object_class, "name": random_name("x"), "parent": organizational_unit}
        assert create(integration, body, dry=True).status == 200, object_class
        assert create(integration, body).status == 201, object_class


def warnings_of_keys(answer: Answer) -> list[str]:
    return [text for text in answer.body["warnings"] if "root key" in text]


def test_the_missing_root_key_is_told_of(
    integration: Integration, organizational_unit: str, root_key: UUID, directory: Directory
) -> None:
    body = body_of(organizational_unit, **{INTERVAL: "30"})
    assert warnings_of_keys(create(integration, body, dry=True)) == []
    directory.delete(root_key)
    (warning,) = warnings_of_keys(create(integration, body, dry=True))
    assert "Add-KdsRootKey" in warning
    user = {"objectClass": "user", "name": "x", "parent": organizational_unit}
    assert warnings_of_keys(create(integration, user, dry=True)) == []


@pytest.mark.parametrize(
    ("kind", "result", "info"),
    [
        (ldap.UNWILLING_TO_PERFORM, 53, "8009000D: SvcErr: DSID-031A1261, problem 5003 (WILL_NOT_PERFORM), data 0"),
        (ldap.NO_SUCH_OBJECT, 32, "no root keys found"),
    ],
)
def test_what_other_domain_controllers_say_of_it(
    integration: Integration,
    organizational_unit: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[ldap.LDAPError],
    result: int,
    info: str,
) -> None:
    """Windows and newer versions of Samba refuse the account, each in words that tell little."""

    def refuse(*_: object) -> None:
        raise error_from(kind({"result": result, "desc": "refused", "info": info}), writing=True)

    monkeypatch.setattr(Client, "write", refuse)
    answer = create(integration, body_of(organizational_unit, **{INTERVAL: "30"}))
    assert (answer.status, answer.code) == (422, "AD.Directory.Rejected")
    assert "KDS root key" in answer.body["detail"]
    assert "DSID" not in answer.body["directoryMessage"]
