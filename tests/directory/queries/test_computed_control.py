"""What the domain controller computes of an account by its policy is told the same where it need not be asked."""

from collections.abc import Callable
from time import monotonic
from typing import Any
from uuid import UUID

import ldap
import pytest

from directory.ldap import Client, Entry
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.policies import known_policies
from tests.directory.queries.test_account_states import DAY, DOMAIN_LOCK_OUT, MINUTE, passwords, policy, user
from tests.support.cast import Integration
from tests.support.directory import ENABLED, PASSWORD, Directory, filetime
from tests.support.domain import Domain
from tests.support.samba_database import age_passwords

__all__ = ["passwords", "policy", "user"]  # fixtures


@pytest.fixture
def know_policies(connection: DirectoryConnection, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Get to know the policies, and let nothing else be known of them while the test runs."""

    def know() -> None:
        monkeypatch.setattr(known_policies, "POLICIES_LIFE", 3600.0)
        known_policies._kept.read(get_client(connection.id))

    return know


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
    user("locked", lockoutTime=filetime(-(DOMAIN_LOCK_OUT - 1) * MINUTE))
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
        patch.setattr(known_policies._kept, "read_soon", lambda _: None)
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


def test_a_policy_that_changes_counts_soon(
    integration: Integration,
    connection: DirectoryConnection,
    user: Any,
    policy: Any,
    domain: Domain,
    directory: Directory,
) -> None:
    guid = user("Ada")
    age_passwords(domain, directory, {guid: 20})
    known_policies.current_policies(get_client(connection.id))
    assert integration.get(f"/api/ad/users/{guid}").body["account"]["passwordExpired"] is False
    changed_at = monotonic()
    policy(guid, days=10)
    while not integration.get(f"/api/ad/users/{guid}").body["account"]["passwordExpired"]:
        assert monotonic() - changed_at < known_policies.POLICIES_LIFE + 30  # a busy machine's read takes its time


class TestResets:
    """A password that no policy of the domain objects to is judged without asking which applies; others are judged."""

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
        assert asked == []
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
        locked = user("locked", lockoutTime=filetime(-(DOMAIN_LOCK_OUT - 1) * MINUTE))
        know_policies()
        told = {}
        for guid in (over, locked):
            answer = integration.post(
                f"/api/ad/users/{guid}/reset-password?dryRun=true", {"newPassword": "Other-Horse-10"}
            )
            told[guid] = "The account is locked out." in answer.body["warnings"]
        assert told == {over: False, locked: True}
        assert asked == ["msDS-User-Account-Control-Computed"] * 2
