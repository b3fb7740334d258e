"""What a run means for each account: a change, nothing, or a refusal. One answer for plan, proposal and worker."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal
from uuid import UUID

from directory.errors import ObjectNotFound
from directory.ldap import (
    And,
    Client,
    DistinguishedName,
    Entry,
    Equals,
    Filter,
    Modify,
    Not,
    Or,
    Scope,
    UserAccountControl,
    guid_reference,
    swap,
)
from directory.outcomes.evidence import EVIDENCE_ATTRIBUTES
from directory.protection.rules import protected_among
from directory.shapes.kinds import Kind, kind_of
from directory.shapes.proposal import AttributeChange
from directory.shapes.record import PROTECTION_ATTRIBUTES
from gateway.core.errors import GatewayError

MAX_ACCOUNTS = 100
"""How many accounts one run takes at most."""

PeopleAbove = Callable[[Collection[UUID]], Collection[UUID]]
"""Which of these accounts are of people who may do more in the gateway than the run's caller."""

Action = Literal["enable", "disable"]
AccountKind = Literal["user", "computer"]
SelectionScope = Literal["one-level", "subtree"]

CONTROL = "userAccountControl"
ATTRIBUTES = ("objectGUID", "objectClass", "sAMAccountName", CONTROL, *PROTECTION_ATTRIBUTES, *EVIDENCE_ATTRIBUTES)
_SCOPES = {"one-level": Scope.ONE_LEVEL, "subtree": Scope.SUBTREE}
# Every computer is a user too (MS-ADSC), and managed service accounts are computers: `kind_of` sorts them out.
_IS_COMPUTER = Equals("objectClass", "computer")
_FILTERS: dict[AccountKind, Filter] = {
    "user": And(Equals("objectClass", "user"), Not(_IS_COMPUTER)),
    "computer": _IS_COMPUTER,
}


class AccountProtected(GatewayError):
    """Whatever the caller may do otherwise: a list of accounts is no place to decide on an administrator."""

    status, code, title = 403, "Auth.Forbidden", "A protected account is never changed by a run"


class Effect(StrEnum):
    """What a run means for an account. `absent` is one that was named but is not inside the unit."""

    CHANGE = "change"
    NONE = "none"
    PROTECTED = "protected"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Account:
    """An account as read (`entry` is None for an absent one), and what a run means for it."""

    id: UUID
    entry: Entry | None
    effect: Effect

    @property
    def distinguished_name(self) -> str | None:
        return self.entry.dn if self.entry else None

    @property
    def kind(self) -> str:
        return kind_of(self.entry.object_classes).value if self.entry else ""

    @property
    def refusal(self) -> GatewayError | None:
        """Why a run fails for it, whatever the directory would say."""
        if self.effect is Effect.ABSENT:
            return ObjectNotFound("There is no such user or computer in this organizational unit.")
        return AccountProtected() if self.effect is Effect.PROTECTED else None


def change_of(account: Account, action: Action) -> AttributeChange:
    """The change of an account's one attribute."""
    old = _control(account)
    return AttributeChange(CONTROL, (str(int(old)),), (str(int(_changed(old, action))),))


def write_of(account: Account, action: Action) -> Modify:
    """The modify that does it, guarded by the value seen, wherever the account has been moved by then."""
    (before,), (after,) = change_of(account, action).before, change_of(account, action).after
    return Modify(guid_reference(account.id), swap(CONTROL, before.encode(), after.encode()), guarded=True)


def find_accounts(client: Client, unit: UUID, *, kinds: Collection[AccountKind], scope: SelectionScope) -> list[Entry]:
    """The accounts of these kinds directly in the unit or anywhere below it, in the order of their names."""
    condition = Or(*(_FILTERS[kind] for kind in kinds))
    found = client.search(unit, _SCOPES[scope], condition, ATTRIBUTES)
    wanted = {Kind(kind) for kind in kinds}
    return sorted(
        (entry for entry in found if kind_of(entry.object_classes) in wanted), key=lambda entry: entry.dn.casefold()
    )


def assess(client: Client, entries: Sequence[Entry], action: Action, *, people_above: PeopleAbove) -> list[Account]:
    """What a run means for accounts that were found in the unit, in their order."""
    protected = protected_among(client, entries) | set(people_above([entry.guid for entry in entries]))
    return [
        Account(guid, entry, Effect.PROTECTED if guid in protected else _effect(entry, action))
        for guid, entry in ((entry.guid, entry) for entry in entries)
    ]


def assess_named(
    client: Client, unit: UUID, accounts: Iterable[UUID], action: Action, *, people_above: PeopleAbove
) -> list[Account]:
    """The same for accounts that are named, in their order, with one read.

    An account elsewhere is as absent as one that does not exist, so that nothing is told of what lies outside the unit.
    """
    named = list(accounts)
    found = client.read_many([unit, *named], ATTRIBUTES)
    inside: list[Entry] = []
    if (unit_entry := found.pop(unit, None)) is not None:
        place = DistinguishedName.parse(unit_entry.dn)
        inside = [entry for entry in found.values() if _is_account(entry) and _is_below(entry, place)]
    assessed = {account.id: account for account in assess(client, inside, action, people_above=people_above)}
    return [assessed.get(guid) or Account(guid, None, Effect.ABSENT) for guid in named]


def _is_account(entry: Entry) -> bool:
    return kind_of(entry.object_classes) in (Kind.USER, Kind.COMPUTER) and CONTROL in entry


def _is_below(entry: Entry, place: DistinguishedName) -> bool:
    return DistinguishedName.parse(entry.dn).is_within(place)


def _effect(entry: Entry, action: Action) -> Effect:
    control = UserAccountControl(entry.integer(CONTROL) or 0)
    return Effect.NONE if _changed(control, action) == control else Effect.CHANGE


def _control(account: Account) -> UserAccountControl:
    assert account.entry is not None
    return UserAccountControl(account.entry.integer(CONTROL) or 0)


def _changed(control: UserAccountControl, action: Action) -> UserAccountControl:
    flag = UserAccountControl.ACCOUNTDISABLE
    return control | flag if action == "disable" else control & ~flag
