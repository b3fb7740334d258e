"""What the directory would certainly refuse of an update: dry runs and held changes are refused it too."""

from typing import Any
from uuid import UUID

import pytest

from core.call import SupervisionLevel
from lab.directory import Directory, random_name
from tests.support.cast import Answer, Integration, make_integration
from tests.support.mishaps import just_before_the_write


@pytest.fixture
def group(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_group(parent=organizational_unit)


def update(integration: Integration, guid: UUID, body: Any) -> Answer:
    return integration.patch(f"/api/ad/users/{guid}", body)


@pytest.fixture
def supervised(connection: Any) -> Integration:
    return make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)


@pytest.mark.parametrize("attribute", ["sAMAccountName", "userPrincipalName", "servicePrincipalName"])
def test_an_identifier_in_use(
    integration: Integration,
    supervised: Integration,
    ada: UUID,
    directory: Directory,
    organizational_unit: str,
    attribute: str,
) -> None:
    other = directory.add_user(parent=organizational_unit)
    directory.modify(other, userPrincipalName=random_name("u"), servicePrincipalName=f"HTTP/{random_name('u')}")
    taken = directory.text(other, attribute) or ""
    for member in ("replace", "add") if attribute == "servicePrincipalName" else ("replace",):
        body = {member: {attribute: taken.upper()}}
        for caller, query in ((integration, ""), (integration, "?dryRun=true"), (supervised, "")):
            answer = caller.patch(f"/api/ad/users/{ada}{query}", body)
            assert (answer.status, answer.code) == (409, "AD.Object.AlreadyExists")
            assert attribute in answer.body["detail"]
            assert answer.body["errors"][0]["pointer"] == f"#/{member}/{attribute}"
    # Its own in another case is no other's.
    assert update(integration, other, {"replace": {attribute: taken.upper()}}).status == 200
    assert directory.text(other, attribute) == taken.upper()


@pytest.mark.parametrize("attribute", ["sAMAccountName", "userPrincipalName"])
def test_an_identifier_that_is_taken_meanwhile(
    integration: Integration,
    ada: UUID,
    directory: Directory,
    organizational_unit: str,
    monkeypatch: pytest.MonkeyPatch,
    attribute: str,
) -> None:
    other, name = directory.add_user(parent=organizational_unit), random_name("n")
    just_before_the_write(monkeypatch, lambda: directory.modify(other, **{attribute: name}))
    answer = update(integration, ada, {"replace": {attribute: name}})
    assert (answer.status, answer.code) == (409, "AD.Object.AlreadyExists")
    assert answer.body["detail"] == f"The {attribute} is in use."


def test_an_attribute_that_the_class_does_not_have(
    integration: Integration, supervised: Integration, ada: UUID, directory: Directory
) -> None:
    before = directory.read(ada)
    for member in ("replace", "add"):
        for caller, query in ((integration, ""), (integration, "?dryRun=true"), (supervised, "")):
            answer = caller.patch(f"/api/ad/users/{ada}{query}", {member: {"dnsRoot": "x"}})
            assert (answer.status, answer.code) == (422, "AD.Directory.Rejected")
            assert answer.body["errors"][0]["pointer"] == f"#/{member}/dnsRoot"
            assert "dnsRoot" in answer.body["directoryMessage"]
    assert directory.read(ada) == before
    assert update(integration, ada, {"clear": ["dnsRoot"]}).status == 200


def test_a_primary_group_is_one_that_the_account_belongs_to(
    integration: Integration, supervised: Integration, ada: UUID, group: UUID, directory: Directory
) -> None:
    relative_id = str(int.from_bytes(directory.read(group, "objectSid")["objectSid"][0][-4:], "little"))
    body = {"replace": {"primaryGroupID": relative_id}}
    for caller, query in ((integration, ""), (integration, "?dryRun=true"), (supervised, "")):
        answer = caller.patch(f"/api/ad/users/{ada}{query}", body)
        assert (answer.status, answer.code) == (422, "AD.Directory.Rejected")
        assert "belongs to" in answer.body["detail"]
        assert answer.body["errors"][0]["pointer"] == "#/replace/primaryGroupID"
    directory.add_values(group, member=directory.dn(ada))
    assert update(integration, ada, body).status == 200
    assert directory.text(ada, "primaryGroupID") == relative_id
    directory.modify(ada, primaryGroupID="513")  # or the group could not be removed


@pytest.mark.parametrize("attribute", ["sAMAccountName", "userAccountControl", "primaryGroupID", "pwdLastSet"])
def test_what_an_account_keeps_is_not_cleared(
    integration: Integration, supervised: Integration, ada: UUID, directory: Directory, attribute: str
) -> None:
    present = integration.get(f"/api/ad/users/{ada}?attributes={attribute}").body["attributes"][attribute]
    for body in ({"clear": [attribute]}, {"remove": {attribute: present}}):
        for caller, query in ((integration, ""), (integration, "?dryRun=true"), (supervised, "")):
            answer = caller.patch(f"/api/ad/users/{ada}{query}", body)
            assert (answer.status, answer.code) == (422, "AD.Directory.Rejected")
            assert answer.body["attribute"] == attribute
