"""Whoever holds the domain by access control is protected, from the moment that they do."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from active_directory import Client
from active_directory.codecs import sid_to_text
from core.call import SupervisionLevel
from directory.protection import domain_control
from directory.protection.domain_control import critical_containers, domain_owners, unreadable_access_lists
from directory.protection.rules import is_protected
from directory.protection.state import administrative_groups
from directory.shapes.record import PROTECTION_ATTRIBUTES
from lab.directory import Directory
from tests.directory.protection.protected_kinds import ACCOUNT_RESTRICTIONS, GET_CHANGES_ALL, RESET_PASSWORD, USER
from tests.support.cast import Console, Integration, all_permissions, make_integration, make_person
from tests.support.delegated import Delegated
from tests.support.descriptors import add_entries

pytestmark = pytest.mark.django_db

Grant = Callable[..., None]


@pytest.fixture
def bind(delegated: Delegated) -> dict[str, Any]:
    """The gateway's account has its rights by delegation."""
    return {"bind_dn": delegated.bind_dn, "bind_password": delegated.password}


@pytest.fixture
def grant(directory: Directory) -> Iterator[Grant]:
    """Add an entry to the list of the domain, or of an object below it, until the end of the test."""
    before: dict[str, bytes] = {}

    def apply(entry: str, *, to: UUID | None = None, on: str = "") -> None:
        place = f"{on}{directory.base_dn}"
        before.setdefault(place, directory.descriptor(place))
        sid = directory.sid(to) if to is not None else ""
        add_entries(directory, place, entry.format(sid=sid), domain_sid=directory.sid(directory.base_dn))

    yield apply
    for place, descriptor in before.items():
        directory.set_access_control(place, descriptor)


@pytest.fixture
def ordinary(connection: Any) -> Integration:
    """May do everything but write protected objects."""
    return make_integration(connection, may=set(all_permissions()) - {"directory.manage_protected"})


def status_of_update(caller: Integration, account: UUID, query: str = "?dryRun=true") -> int:
    return caller.patch(f"/api/ad/objects/{account}{query}", {"replace": {"description": "x"}}).status


def test_at_once_and_no_longer_than_it_lasts(
    ordinary: Integration, directory: Directory, ada: UUID, organizational_unit: str, grant: Grant
) -> None:
    member = directory.add_user(parent=organizational_unit)
    inner = directory.add_group(parent=organizational_unit, members=[member])
    group = directory.add_group(parent=organizational_unit, members=[inner])
    everybody = (ada, member, inner, group)
    before = directory.descriptor(directory.base_dn)
    assert [status_of_update(ordinary, each) for each in everybody] == [200] * 4
    grant(f"(OA;;CR;{GET_CHANGES_ALL};;{{sid}})", to=ada)
    grant(f"(OA;CIIO;CR;{RESET_PASSWORD};;{{sid}})", to=group)
    assert [status_of_update(ordinary, each) for each in everybody] == [403] * 4
    page = ordinary.get(f"/api/ad/objects?base={directory.guid(organizational_unit)}").body["items"]
    assert {item["id"] for item in page if item["protected"]} == {str(each) for each in everybody}
    results = ordinary.post(
        "/api/ad/users/batch/update", {"items": [{"id": str(each), "clear": ["title"]} for each in (ada, member)]}
    ).body["results"]
    assert [result["status"] for result in results] == [403, 403]
    directory.set_access_control(directory.base_dn, before)
    assert [status_of_update(ordinary, each) for each in everybody] == [200] * 4


def test_on_admin_sd_holder(ordinary: Integration, ada: UUID, grant: Grant) -> None:
    grant("(A;;GW;;;{sid})", to=ada, on="CN=AdminSDHolder,CN=System,")
    assert status_of_update(ordinary, ada) == 403


@pytest.mark.parametrize(
    "entry",
    [
        "(OA;;CR;1131f6aa-9c07-11d1-f79f-00c04fc2dcd2;;{sid})",  # DS-Replication-Get-Changes, no secrets among them
        f"(OD;;CR;{GET_CHANGES_ALL};;{{sid}})",
        "(A;CI;LCRPLORC;;;{sid})",
        "(OA;;RPWP;f30e3bbe-9ff0-11d1-b603-0000f80367c1;;{sid})",  # gPLink
        "(OA;CI;CCDC;bf967aba-0de6-11d0-a285-00aa003049e2;;{sid})",  # creating users
        f"(OA;CIIO;WP;{ACCOUNT_RESTRICTIONS};{USER};{{sid}})",  # enabling and disabling users
    ],
)
def test_lesser_rights_protect_nobody(ordinary: Integration, ada: UUID, grant: Grant, entry: str) -> None:
    grant(entry, to=ada)
    assert status_of_update(ordinary, ada) == 200


@pytest.mark.parametrize("sid", ["WD", "AU", "SY", "PS", "CO", "ED"])
def test_those_who_are_no_accounts_make_nobody_an_administrator(
    ordinary: Integration, ada: UUID, grant: Grant, sid: str
) -> None:
    grant(f"(OA;CI;CR;{RESET_PASSWORD};;{sid})")
    assert status_of_update(ordinary, ada) == 200


def test_a_domain_has_no_holders_but_its_administrators_and_whom_rights_are_delegated_to(
    client: Client, directory: Directory, delegated: Delegated
) -> None:
    others = set(domain_owners(client)) - administrative_groups(critical_containers(client).domain_sid)
    assert {sid_to_text(sid) for sid in others} == {directory.sid(delegated.holder)}
    assert unreadable_access_lists(client) == ()


def test_the_identifiers_are_the_directorys(directory: Directory) -> None:
    configuration = f"CN=Configuration,{directory.base_dn}"
    rights = directory.search("(objectClass=controlAccessRight)", "rightsGuid", base=configuration)
    attributes = directory.search("(objectClass=attributeSchema)", "schemaIDGUID", base=f"CN=Schema,{configuration}")
    by_right = {UUID(entry["rightsGuid"][0].decode()) for entry in rights.values()}
    by_attribute = {UUID(bytes_le=entry["schemaIDGUID"][0]) for entry in attributes.values()}
    assert domain_control._EXTENDED_RIGHTS.keys() <= by_right
    since_windows_2016 = {UUID("5b47d60f-6090-40b2-9f37-2a4de88f3063")}  # which this schema is older than
    assert domain_control._ADMINISTRATOR_TAKEOVER - by_right - by_attribute <= since_windows_2016


def test_a_list_that_cannot_be_read(
    ordinary: Integration,
    connection: Any,
    delegated: Delegated,
    directory: Directory,
    ada: UUID,
    organizational_unit: str,
    grant: Grant,
) -> None:
    """What was known stays so, the other list counts, and a test of the connection tells."""
    grace = directory.add_user(parent=organizational_unit)
    grant("(A;;WD;;;{sid})", to=ada, on="CN=AdminSDHolder,CN=System,")
    assert status_of_update(ordinary, ada) == 403
    grant("(D;;RC;;;{sid})", to=directory.guid(delegated.holder), on="CN=AdminSDHolder,CN=System,")
    grant("(D;;RC;;;AU)", on="CN=AdminSDHolder,CN=System,")
    assert status_of_update(ordinary, ada) == 403
    grant("(A;;WD;;;{sid})", to=grace)
    assert status_of_update(ordinary, grace) == 403
    administrator = Console(make_person(superuser=True))
    (warning,) = administrator.post(f"/rest/directories/{connection.id}/test").body["warnings"]
    assert "CN=AdminSDHolder" in warning


def test_a_change_that_was_held_before(connection: Any, directory: Directory, ada: UUID, grant: Grant) -> None:
    """Approved when the target holds the domain by now, it fails under a key that may not change such."""
    from gateway.pipeline import apply_change_request

    held = make_integration(
        connection,
        may=set(all_permissions()) - {"directory.manage_protected"},
        level=SupervisionLevel.ASK_EVERY_CHANGE,
    )
    queued = held.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}).body["changeRequest"]
    grant("(A;;WO;;;{sid})", to=ada)
    approver = Console(make_person(superuser=True))
    digest = approver.get(f"/rest/change-requests/{queued['id']}").body["digest"]
    assert approver.post(f"/rest/change-requests/{queued['id']}/approve", {"digest": digest}).status == 200
    apply_change_request(UUID(queued["id"]))
    assert held.get(f"/api/change-requests/{queued['id']}").body["status"] == "failed"
    assert directory.text(ada, "title") == "Analyst"


def test_why_it_is_protected(
    connection: Any, directory: Directory, delegated: Delegated, ada: UUID, organizational_unit: str, grant: Grant
) -> None:
    group = directory.add_group("Backup team", parent=organizational_unit, members=[ada])
    grant(f"(OA;;CR;{GET_CHANGES_ALL};;{{sid}})", to=group)
    everything = make_integration(connection)

    def reasons(target: UUID) -> str:
        answer = everything.patch(f"/api/ad/objects/{target}?dryRun=true", {"replace": {"description": "x"}})
        assert answer.body["risk"] == "security"
        return str(answer.body["warnings"])

    assert "member of Backup team, which may replicate the secrets of the domain" in reasons(ada)
    assert "one that may replicate the secrets of the domain" in reasons(group)
    policies = directory.guid(f"CN=Policies,CN=System,{directory.base_dn}")
    assert "a part of the domain's System container" in reasons(policies)
    assert f"signs in with (connection {connection.name})" in reasons(directory.guid(delegated.bind_dn))
    assert "gives the gateway's own account its rights" in reasons(directory.guid(delegated.other))


def test_what_one_judgement_costs(client: Client, ada: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    """One search reads what decides about the domain, and one each level of the groups above an account."""
    is_protected(client, client.read(ada, PROTECTION_ATTRIBUTES))
    made = []
    for name in ("search", "read"):
        original = getattr(client, name)

        def counting(*given: Any, _original: Any = original, _name: str = name, **named: Any) -> Any:
            made.append(_name)
            return _original(*given, **named)

        monkeypatch.setattr(client, name, counting)
    entry = client.read(ada, PROTECTION_ATTRIBUTES)
    made.clear()
    assert not is_protected(client, entry)
    levels = ["Domain Users", "Users"]
    assert made == ["search", *("search" for _ in levels), "read"], [
        sid_to_text(sid) for sid in entry.values("objectSid")
    ]
