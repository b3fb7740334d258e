"""What the domain controller computes of an account by its policy is told the same where it need not be asked."""

from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import ldap
import pytest

from active_directory import Client, Entry, Equals, GroupType
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.policies import known_policies
from lab.directory import ENABLED, GLOBAL_SECURITY_GROUP, PASSWORD, Directory, filetime
from lab.domain import Domain
from lab.samba.database import age_passwords
from tests.directory.queries.test_account_states import DAY, DOMAIN_LOCK_OUT, MINUTE, passwords, policy, user
from tests.support.cast import Integration, make_connection, make_integration

__all__ = ["passwords", "policy", "user"]  # fixtures

UNIVERSAL = (GroupType.UNIVERSAL | GroupType.SECURITY_ENABLED).signed


@pytest.fixture
def know(monkeypatch: pytest.MonkeyPatch) -> Callable[[DirectoryConnection], None]:
    """Get to know the policies, and let nothing else be known of them while the test runs."""

    def know(connection: DirectoryConnection) -> None:
        monkeypatch.setattr(known_policies, "POLICY_CACHE_SECONDS", 3600.0)
        client = get_client(connection.id)
        known_policies._cache_of(client).read(client)

    return know


@pytest.fixture
def know_policies(connection: DirectoryConnection, know: Callable[[DirectoryConnection], None]) -> Callable[[], None]:
    return lambda: know(connection)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of each read of an object: what of it the domain controller had to compute by the account's policy."""
    computed = {"msDS-User-Account-Control-Computed", "msDS-ResultantPSO"}
    noted: list[str] = []
    read = Client.read

    def note(self: Client, ref: Any, attributes: Any = None, **options: Any) -> Entry:
        noted.extend(computed.intersection(attributes or ()))
        return read(self, ref, attributes, **options)

    monkeypatch.setattr(Client, "read", note)
    return noted


def test_what_is_not_computed_is_told_the_same(
    integration: Integration,
    user: Any,
    policy: Any,
    passwords: dict[str, str],
    directory: Directory,
    organizational_unit: str,
    asked: list[str],
    know_policies: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user("unlocked", lockoutTime="0")
    user("locked", lockoutTime=filetime(-(DOMAIN_LOCK_OUT - 15) * MINUTE))
    user("over", lockoutTime=filetime(-(DOMAIN_LOCK_OUT + 1) * MINUTE))
    policy(user("over sooner", lockoutTime=filetime(-10 * MINUTE)), lock_out=9 * MINUTE)
    policy(user("until unlocked", lockoutTime=filetime(-900 * DAY)), lock_out=None)
    directory.add_user("no password", parent=organizational_unit)
    directory.add_user("disabled", parent=organizational_unit, password=PASSWORD, userAccountControl=str(ENABLED | 2))
    directory.add_computer("machine", parent=organizational_unit)
    directory.add_group("group", parent=organizational_unit)
    rows = directory.search(
        "(objectClass=*)", "name", "objectGUID", base=organizational_unit, scope=ldap.SCOPE_ONELEVEL
    )
    guids = {row["name"][0].decode(): UUID(bytes_le=row["objectGUID"][0]) for row in rows.values()}

    def read() -> dict[str, Any]:
        return {name: integration.get(f"/api/ad/objects/{guid}").body for name, guid in guids.items()}

    with monkeypatch.context() as patch:  # nobody gets to know them meanwhile
        patch.setattr(known_policies._PolicyCache, "read_soon", lambda *_: None)
        by_computing = read()
    assert len(asked) == len(guids)
    asked.clear()
    know_policies()
    assert read() == by_computing
    told = {name: record["account"] for name, record in by_computing.items() if record["account"]}
    assert {name for name, account in told.items() if account["lockedOut"]} == {"locked", "until unlocked"}
    assert {name for name, account in told.items() if account["passwordExpired"]} == {"expired", "short"}
    # The shortest age is 10 days: what is younger, keeps its password or must be changed is not asked about.
    in_doubt = {"locked", "over", "over sooner", "until unlocked", "expired", "short", "long", "endless"}
    assert len(asked) == len(in_doubt | {"expires tomorrow", "expires in a week"})


def test_groups_tell_which_policies_may_apply(
    integration: Integration,
    user: Any,
    policy: Any,
    domain: Domain,
    directory: Directory,
    organizational_unit: str,
    asked: list[str],
    know_policies: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ages = {"old": 50, "young": 20, "lonely": 20, "named": 20, "member": 100, "nested": 50, "nested too": 35}
    ages |= {"primary": 20, "universal": 20}
    guids = {name: user(name) for name in ages}
    age_passwords(domain, directory, {guids[name]: days for name, days in ages.items()})
    guids |= {name: user(name, lockoutTime=filetime(-3 * DAY)) for name in ("locked", "over")}

    def group(*members: UUID | str, group_type: int = GLOBAL_SECURITY_GROUP) -> UUID:
        return directory.add_group(parent=organizational_unit, members=members, group_type=group_type)

    def read() -> dict[str, tuple[bool, bool]]:
        asked.clear()
        accounts = {name: integration.get(f"/api/ad/users/{guid}").body["account"] for name, guid in guids.items()}
        return {name: (it["lockedOut"], it["passwordExpired"]) for name, it in accounts.items()}

    group(*(guid for name, guid in guids.items() if name != "lonely"))
    apart = group(guids["old"])
    inner = group(guids["nested"], guids["nested too"])
    outer, long = group(inner, guids["over"]), group(guids["member"], guids["locked"])
    primary = group(guids["primary"], *directory.add_contacts(1, parent=organizational_unit))
    relative_id = int.from_bytes(directory.read(primary, "objectSid")["objectSid"][0][-4:], "little")
    directory.modify(guids["primary"], primaryGroupID=str(relative_id))
    policy(guids["named"], days=10)
    policy(primary, days=10)
    policy(group(guids["universal"], group_type=UNIVERSAL), days=10)
    policy(outer, days=30)
    policy(long, days=400, lock_out=None)

    with monkeypatch.context() as patch:  # nobody gets to know them meanwhile
        patch.setattr(known_policies._PolicyCache, "read_soon", lambda *_: None)
        by_computing = read()
    assert len(asked) == len(guids)
    assert {name for name, (locked, _) in by_computing.items() if locked} == {"locked"}
    expired = {"old", "named", "nested", "nested too", "primary", "universal"}
    assert {name for name, (_, is_expired) in by_computing.items() if is_expired} == expired
    know_policies()
    assert read() == by_computing
    # Of a group in a group, and of one that is not global, only the domain controller knows whether it counts; and of
    # whom no group is seen, the groups may be hidden.
    assert len(asked) == len({"nested too", "universal", "lonely"})

    # A search tells the same, and asks about the same, and about one for the place of all.
    noted: set[UUID] = set()
    read_many = Client.read_many

    def note(self: Client, asked_about: Any, *arguments: Any, **options: Any) -> dict[UUID, Entry]:
        noted.update(asked_about)
        return read_many(self, asked_about, *arguments, **options)

    monkeypatch.setattr(Client, "read_many", note)
    items = integration.get(f"/api/ad/users?{urlencode({'base': organizational_unit})}").body["items"]
    told = {item["name"]: (item["account"]["lockedOut"], item["account"]["passwordExpired"]) for item in items}
    assert told == by_computing
    doubtful = {guids[name] for name in ("nested too", "universal", "lonely")}
    assert doubtful <= noted
    assert len(noted - doubtful) <= 1

    # A group more in a group: this one's members are looked at, and no other's again.
    looked_for: list[str] = []
    find_any = Client.find_any

    def note_names(self: Client, conditions: Iterable[Equals], *arguments: Any, **options: Any) -> Iterator[Entry]:
        some = list(conditions)
        looked_for.extend(str(each.value) for each in some)
        return find_any(self, some, *arguments, **options)

    monkeypatch.setattr(Client, "find_any", note_names)
    directory.add_values(long, member=directory.dn(apart))
    know_policies()
    assert directory.dn(apart) in looked_for
    assert directory.dn(guids["over"]) not in looked_for
    assert read() == {**by_computing, "old": (False, False)}
    assert len(asked) == len({"nested too", "universal", "lonely", "old"})

    # What cannot be looked at whole may reach everybody: a longer list, and one that shows nobody.
    with monkeypatch.context() as patch:
        patch.setattr(known_policies, "_MAX_OBJECTS", 3)
        directory.modify(apart, description="changed")
        know_policies()
        assert read() == {**by_computing, "old": (False, False)}
        assert len(asked) == len(guids)
    policy(group(), days=None)
    know_policies()
    assert read() == {**by_computing, "old": (False, False)}
    assert len(asked) == len(guids.keys() - {"young", "member", "over"})
    directory.modify(guids["primary"], primaryGroupID="513")  # or the group could not be removed


def test_a_change_of_policies_or_groups_counts_soon(
    integration: Integration,
    connection: DirectoryConnection,
    user: Any,
    policy: Any,
    domain: Domain,
    directory: Directory,
    organizational_unit: str,
) -> None:
    ada, blaise, charles = user("Ada"), user("Blaise"), user("Charles")
    age_passwords(domain, directory, dict.fromkeys((ada, blaise), 20))
    inner = directory.add_group(parent=organizational_unit, members=[ada, blaise])
    outer = directory.add_group(parent=organizational_unit, members=[charles])
    policy(outer, days=10)

    def is_expired(guid: UUID) -> bool:
        expired: bool = integration.get(f"/api/ad/users/{guid}").body["account"]["passwordExpired"]
        return expired

    known_policies.current_policies(get_client(connection.id))
    assert not is_expired(ada)
    assert not is_expired(blaise)
    changes: dict[UUID, Callable[[], object]] = {
        ada: lambda: policy(ada, days=10),
        blaise: lambda: directory.add_values(outer, member=directory.dn(inner)),
    }
    for guid, change in changes.items():
        changed_at = monotonic()
        change()
        while not is_expired(guid):
            assert monotonic() - changed_at < known_policies.POLICY_CACHE_SECONDS + 120  # a busy machine reads slowly


def test_policies_that_cannot_be_read_tell_nothing(
    db: None, user: Any, domain: Domain, directory: Directory, organizational_unit: str, asked: list[str], know: Any
) -> None:
    """By default only administrators may read them."""
    ada, plain = user("Ada"), user("plain")
    age_passwords(domain, directory, {ada: 500})
    directory.add_group(parent=organizational_unit, members=[ada])
    connection = make_connection(domain, bind_dn=directory.dn(plain), bind_password=PASSWORD)
    know(connection)
    assert make_integration(connection).get(f"/api/ad/users/{ada}").body["account"]["passwordExpired"]
    assert asked == ["msDS-User-Account-Control-Computed"]


class TestResets:
    """A reset is judged by the policy that applies to the account, which it asks for once."""

    def reset(self, integration: Integration, guid: UUID, password: str) -> Any:
        return integration.post(f"/api/ad/users/{guid}/reset-password", {"newPassword": password})

    def test_it_works(
        self,
        integration: Integration,
        know_policies: Any,
        user: Any,
        asked: list[str],
        directory: Directory,
    ) -> None:
        guid = user("Ada")
        know_policies()
        assert self.reset(integration, guid, "Other-Horse-10").status == 200
        assert asked == ["msDS-ResultantPSO"]
        assert directory.can_sign_in(guid, "Other-Horse-10")

    def test_the_policy_that_applies_decides_where_some_policy_objects(
        self, integration: Integration, know_policies: Any, user: Any, policy: Any
    ) -> None:
        strict, free = user("strict"), user("free")
        dn = policy(strict, **{"msDS-MinimumPasswordLength": "20"})
        know_policies()
        assert self.reset(integration, free, "Other-Horse-10").status == 200
        refused = self.reset(integration, strict, "Other-Horse-10")
        assert (refused.status, refused.body["code"]) == (422, "AD.Password.PolicyViolation")
        assert refused.body["policy"]["source"] == dn

    def test_a_refusal_by_the_directory_is_explained_by_the_policy_that_applies(
        self, integration: Integration, know_policies: Any, user: Any, policy: Any
    ) -> None:
        guid = user("Ada")
        know_policies()
        dn = policy(guid, **{"msDS-MinimumPasswordLength": "20"})  # after that look
        refused = self.reset(integration, guid, "Other-Horse-10")
        assert (refused.status, refused.body["code"]) == (422, "AD.Password.PolicyViolation")
        assert refused.body["policy"]["source"] == dn

    def test_it_is_told_who_is_locked_out(
        self, integration: Integration, know_policies: Any, user: Any, asked: list[str]
    ) -> None:
        over = user("over", lockoutTime=filetime(-(DOMAIN_LOCK_OUT + 1) * MINUTE))
        locked = user("locked", lockoutTime=filetime(-(DOMAIN_LOCK_OUT - 15) * MINUTE))
        know_policies()
        told = {}
        for guid in (over, locked):
            answer = integration.post(
                f"/api/ad/users/{guid}/reset-password?dryRun=true", {"newPassword": "Other-Horse-10"}
            )
            told[guid] = "The account is locked out." in answer.body["warnings"]
        assert told == {over: False, locked: True}
        assert asked == ["msDS-ResultantPSO", "msDS-User-Account-Control-Computed"] * 2
