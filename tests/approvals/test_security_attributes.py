"""The review of the schema is whole, and what it says counts through the front door."""

import re
from uuid import UUID

import pytest

from active_directory.constants import is_credential
from approvals.supervision import REVIEWED, security_meaning
from core.call import SupervisionLevel
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.shapes.kinds import Kind
from directory.shapes.modifications import unwritable_reason
from directory.shapes.value_rules import SIGN_IN_RULES
from lab.directory import Directory
from tests.support.cast import Integration, make_integration
from tests.support.configuration import Configure

VERDICTS = {"security", "ordinary", "effect", "unwritable"}
SINCE_THE_TESTS_DOMAIN = """
    msDS-DelegatedMSAState msDS-ManagedAccountPrecededByLink msDS-SupersededManagedAccountLink
    msDS-SupersededServiceAccountState msDS-KeyCredentialLink msDS-ShadowPrincipalSid msDS-StrongNTLMPolicy
    msLAPS-Password msLAPS-EncryptedPassword msLAPS-PasswordExpirationTime
"""
PEOPLE_AND_PLACES = {
    *("user", "person", "organizationalPerson", "inetOrgPerson", "mailRecipient", "contact", "top", "posixAccount"),
    *("group", "computer", "organizationalUnit", "organization", "locality", "country", "room", "device", "printQueue"),
    *("document", "meeting", "msDS-CloudExtensions"),
}


def test_every_attribute_of_the_schema_is_reviewed(connection: DirectoryConnection) -> None:
    """A schema that has grown shows here what nobody has looked at."""
    schema = get_client(connection.id).schema
    unreviewed = [name for name in schema.attributes if name not in REVIEWED]
    assert not unreviewed
    mistaken = [
        known.name
        for known in schema.attributes.values()
        if REVIEWED[known.name.lower()].verdict == "unwritable"
        and unwritable_reason(known, Kind.OBJECT) is None
        and not is_credential(known.name)
    ]
    assert not mistaken, "these are written by whoever names them"
    misspelt = [
        known.name for known in schema.attributes.values() if REVIEWED[known.name.lower()].attribute != known.name
    ]
    assert not misspelt


def test_the_table_is_well_formed() -> None:
    names = [review.attribute for review in REVIEWED.values()]
    assert names == sorted(names, key=str.lower)
    for review in REVIEWED.values():
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", review.attribute), review
        assert review.verdict in VERDICTS, review
        assert re.fullmatch(r"[A-Za-z].{8,}[a-z]", review.reason), review
        assert (review.verdict in ("security", "unwritable")) is (security_meaning(review.attribute) is not None), (
            review
        )
    assert all(REVIEWED[name.lower()].verdict != "ordinary" for name in SINCE_THE_TESTS_DOMAIN.split())


def test_what_is_judged_by_its_effect_is_not_ordinary() -> None:
    by_effect = {name for name, review in REVIEWED.items() if review.verdict == "effect"}
    assert by_effect <= SIGN_IN_RULES.keys()
    assert all(REVIEWED[name].verdict in ("effect", "security") for name in SIGN_IN_RULES)


def test_ordinary_attributes_tell_of_people_and_places(connection: DirectoryConnection, directory: Directory) -> None:
    """What stands only in classes that configure a service is read by that service; secrets are no person's data."""
    client = get_client(connection.id)
    classes = directory.search(
        "(objectClass=classSchema)",
        *("lDAPDisplayName", "mayContain", "systemMayContain", "mustContain", "systemMustContain"),
        base=client.schema_naming_context,
    )
    holders: dict[str, set[str]] = {}
    for found in classes.values():
        name = found.pop("lDAPDisplayName")[0].decode()
        for attribute in (value.decode().lower() for values in found.values() for value in values):
            holders.setdefault(attribute, set()).add(name)
    for name, review in REVIEWED.items():
        known = client.schema.attribute(name)
        if review.verdict != "ordinary" or known is None:
            continue
        assert not known.is_confidential, name
        assert not holders.get(name) or holders[name] & PEOPLE_AND_PLACES, (name, holders[name])


@pytest.fixture
def careful(connection: DirectoryConnection) -> Integration:
    return make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("loginShell", "/bin/bash"),
        ("unixHomeDirectory", "/root"),
        ("homeDirectory", r"\\elsewhere\ada"),
        ("homeDrive", "H:"),
        ("profilePath", r"\\elsewhere\ada"),
        ("msTSInitialProgram", "cmd.exe"),
        ("msTSProfilePath", r"\\elsewhere\ada"),
        ("msTSHomeDirectory", r"\\elsewhere\ada"),
        ("msTSHomeDrive", "H:"),
        ("msTSWorkDirectory", r"C:\elsewhere"),
        ("shadowExpire", "1"),
        ("shadowLastChange", "0"),
        ("uidNumber", "0"),
        ("gidNumber", "0"),
        ("proxyAddresses", "SMTP:ceo@example.test"),
        ("userPrincipalName", "ceo@corp.example.test"),
        ("flags", "3"),
    ],
)
def test_held_at_the_default_level(
    careful: Integration, ada: UUID, directory: Directory, attribute: str, value: str
) -> None:
    before = directory.read(ada)
    for update in ("replace", "add"):
        answer = careful.patch(f"/api/ad/users/{ada}", {update: {attribute: value}})
        assert (answer.status, answer.body["changeRequest"]["risk"]) == (202, "security"), answer
    item = {"id": str(ada), "replace": {attribute: value}}
    results = careful.post("/api/ad/users/batch/update", {"items": [item]}).body["results"]
    assert results[0]["status"] == 202
    assert directory.read(ada) == before


def test_a_site_adds_attributes_of_its_own(careful: Integration, ada: UUID, configure: Configure) -> None:
    path, body = f"/api/ad/users/{ada}?dryRun=true", {"replace": {"mail": "ceo@example.test"}}
    assert careful.patch(path, body).body["risk"] == "ordinary"
    configure("Supervision", SecurityAttributes=("MAIL",))
    answer = careful.patch(path, body).body
    assert (answer["risk"], answer["wouldQueue"]) == ("security", True)
    why = "it writes mail, which the configuration counts among those that decide about security"
    assert answer["warnings"] == [f"This is a security change: {why}."]
