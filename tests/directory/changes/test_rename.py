"""Renaming objects: names of every kind are kept exactly, and nothing but the name changes."""

from typing import Any
from uuid import UUID

import ldap.dn
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from active_directory import Client, Rename
from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.outcomes.evidence import EVIDENCE_ATTRIBUTES, evidence_of, find_outcome
from lab.directory import Directory
from lab.proxy import FaultyProxy
from tests.directory.supervised import approve
from tests.support.cast import Integration, make_integration
from tests.support.mishaps import lose_the_answer


def rename(integration: Integration, guid: UUID, name: Any, *, resource: str = "users", query: str = "") -> Any:
    return integration.post(f"/api/ad/{resource}/{guid}/rename{query}", {"name": name})


def test_it_works(integration: Integration, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    before = directory.read(ada)
    answer = rename(integration, ada, "Ada King")
    assert answer.status == 200, answer
    assert (answer.body["name"], answer.body["distinguishedName"]) == ("Ada King", f"CN=Ada King,{organizational_unit}")
    after = directory.read(ada)
    assert after["cn"] == after["name"] == [b"Ada King"]
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed <= {"cn", "name", "distinguishedName", "uSNChanged", "whenChanged"}
    (record,) = OperationRecord.objects.filter(operation="users.rename")
    assert record.changes == [
        {
            "attribute": "distinguishedName",
            "before": [f"CN=Ada Lovelace,{organizational_unit}"],
            "after": [f"CN=Ada King,{organizational_unit}"],
        }
    ]


def test_every_kind(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    kinds = {
        "groups": directory.add_group(parent=organizational_unit),
        "computers": directory.add_computer(parent=organizational_unit),
        "organization-units": directory.guid(directory.add_unit("Inner", parent=organizational_unit)),
        "objects": directory.add(f"CN=Contact,{organizational_unit}", {"objectClass": "contact"}),
    }
    for resource, guid in kinds.items():
        answer = rename(integration, guid, f"New {resource}", resource=resource)
        assert (answer.status, answer.body["name"]) == (200, f"New {resource}")
        assert directory.text(guid, "name") == f"New {resource}"
    assert directory.dn(kinds["organization-units"]) == f"OU=New organization-units,{organizational_unit}"


NAMES = [
    "Lovelace, Ada",
    "a+b=c",
    " both ends ",
    "#1",
    'back\\slash "quoted" <x>;y',
    "back\\20slash",
    "🦊 Ünïcode 漢字",
    "\u202eright to left",
    "עברית",
    "tab\there",
    "\tand there\t",
    "line\nbreak",
    "a" * 64,
    "🦊" * 64,
    "CN=x,OU=y",
    "x/y*(z)",
    "who?",
    "\\?",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_kept_exactly(integration: Integration, ada: UUID, directory: Directory, name: str) -> None:
    answer = rename(integration, ada, name)
    assert (answer.status, answer.body["name"]) == (200, name), answer
    assert directory.text(ada, "name") == directory.text(ada, "cn") == name
    by_name = integration.get("/api/ad/users/by-dn?" + _query(answer.body["distinguishedName"]))
    assert by_name.body["id"] == str(ada)


def _query(dn: str) -> str:
    from urllib.parse import urlencode

    return urlencode({"dn": dn})


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=64))
def test_any_name(integration: Integration, ada: UUID, directory: Directory, name: str) -> None:
    answer = rename(integration, ada, name)
    if not name.strip():
        assert answer.status == 400
        return
    assert answer.status == 200, answer
    assert directory.text(ada, "name") == name == answer.body["name"]
    if not {"?", "\t"} & set(name):  # which Samba does not write for other readers: see active_directory.dn
        assert ldap.dn.str2dn(directory.dn(ada))[0][0][1] == name


@pytest.mark.parametrize("name", ["", "a" * 65, "nul\0", None, 5, ["x"]])
def test_what_cannot_be_a_name(integration: Integration, ada: UUID, directory: Directory, name: Any) -> None:
    answer = rename(integration, ada, name)
    assert answer.status == 400
    assert answer.code in ("Request.Invalid", "Request.Malformed")
    assert directory.text(ada, "name") == "Ada Lovelace"


def test_the_same_name_is_no_change_and_another_case_is_one(
    integration: Integration, ada: UUID, directory: Directory
) -> None:
    assert rename(integration, ada, "Ada Lovelace").status == 200
    assert not OperationRecord.objects.filter(operation="users.rename").exists()
    dry = rename(integration, ada, "ADA LOVELACE", query="?dryRun=true").body
    assert len(dry["changes"]) == 1
    assert rename(integration, ada, "ADA LOVELACE").body["name"] == "ADA LOVELACE"
    assert directory.text(ada, "name") == "ADA LOVELACE"
    assert OperationRecord.objects.filter(operation="users.rename", outcome="succeeded").count() == 1


def test_a_name_that_is_taken(
    integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    directory.add_group("The Countess", parent=organizational_unit)
    answer = rename(integration, ada, "the  COUNTESS".replace("  ", " "))
    assert (answer.status, answer.code) == (409, "AD.Object.AlreadyExists")
    assert rename(integration, ada, "x", resource="groups").status == 404
    assert directory.text(ada, "name") == "Ada Lovelace"


def test_permission_follows_the_kind(connection: Any, ada: UUID, directory: Directory) -> None:
    for_groups = make_integration(connection, may=["directory.update_group"])
    assert rename(for_groups, ada, "x").status == 403
    assert rename(for_groups, ada, "x", resource="objects").status == 403
    for_users = make_integration(connection, may=["directory.update_user"])
    assert rename(for_users, ada, "Countess", resource="objects").status == 200
    assert directory.text(ada, "name") == "Countess"


def test_the_dry_run_says_what_stays(
    integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    body = rename(integration, ada, "x", query="?dryRun=true").body
    assert (body["risk"], body["wouldQueue"]) == ("ordinary", False)
    assert "displayName stay" in body["warnings"][0]
    computer = directory.add_computer(parent=organizational_unit)
    (warning,) = rename(integration, computer, "x", resource="computers", query="?dryRun=true").body["warnings"]
    assert "dNSHostName" in warning
    unit = directory.guid(organizational_unit)
    (warning,) = rename(integration, unit, "x", resource="organization-units", query="?dryRun=true").body["warnings"]
    assert warning == "2 objects below it get another distinguished name."
    assert directory.dn(unit) == organizational_unit


def test_renaming_is_held_at_the_strict_level(connection: Any, ada: UUID, directory: Directory) -> None:
    strict = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    held = rename(strict, ada, "Countess")
    assert held.body["changeRequest"]["risk"] == "ordinary"
    assert approve(held).status == "applied"
    assert directory.text(ada, "name") == "Countess"


def test_a_lost_answer_of_a_change_of_case(
    through_proxy: Integration,
    directory: Directory,
    directory_proxy: FaultyProxy,
    ada: UUID,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert through_proxy.get(f"/api/ad/users/{ada}").status == 200
    lose_the_answer(monkeypatch, directory_proxy)
    assert rename(through_proxy, ada, "ADA LOVELACE").status == 200
    assert directory.text(ada, "name") == "ADA LOVELACE"
    assert OperationRecord.objects.get(operation="users.rename").outcome == "succeeded"


def test_the_evidence_of_renames(client: Client, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    def evidence(rdn: str, parent: str | None = None) -> dict[str, Any]:
        entry = client.read(ada, EVIDENCE_ATTRIBUTES)
        return evidence_of(Rename(entry.dn, rdn, parent), entry=entry)

    case_only = evidence("CN=ADA LOVELACE")
    assert find_outcome(client, case_only) is False
    directory.rename(ada, "ADA LOVELACE")
    assert find_outcome(client, case_only) is True

    other = evidence("CN=Countess")
    directory.rename(ada, "Somebody")
    assert find_outcome(client, other) is False, "the only rename since gave another name"

    inner = directory.add_unit("Inner", parent=organizational_unit)
    moved = evidence("CN=Somebody", inner)
    assert find_outcome(client, moved) is False
    directory.move(ada, parent=inner)
    assert find_outcome(client, moved) is True
    directory.rename(ada, "Nobody")
    assert find_outcome(client, moved) is None, "moved, and renamed since: by whom cannot be told"
