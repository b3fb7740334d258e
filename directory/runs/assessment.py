"""What a run means for each account: a change, nothing, or a refusal. Plans, proposals and workers share it."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Literal, TypeVar
from uuid import UUID

from active_directory import Client, Entry, Filter, Modify, Or, Schema, UserAccountControl, run_in_background
from core.errors import GatewayError
from core.text.messages import message
from directory.changes.targets import guarded_modify
from directory.changes.update import change_account_control
from directory.errors import ObjectNotFound
from directory.lookup.access import is_within_any
from directory.outcomes.evidence import EVIDENCE_ATTRIBUTES
from directory.protection.rules import protected_among
from directory.protection.state import DomainState, domain_state, protection_state
from directory.queries.account_searches import USER_ACCOUNT_CONTROL
from directory.queries.searches.definitions import SCOPES
from directory.queries.searches.filters import past_user_index
from directory.shapes.kinds import RESOURCES, Kind, kind_of_entry
from directory.shapes.modifications import Delta
from directory.shapes.proposal import AttributeChange, Target
from directory.shapes.record import PROTECTION_ATTRIBUTES

MAX_ACCOUNTS = 100
"""The most accounts in one run, and in one step of a run over all accounts of a unit."""

MorePrivilegedPeople = Callable[[Collection[UUID]], Collection[UUID]]
"""Filters accounts to those of people who may do more in the gateway than the run's caller."""

Action = Literal["enable", "disable"]
AccountKind = Literal["user", "computer"]
SelectionScope = Literal["one-level", "subtree"]

_Found = TypeVar("_Found")

_ATTRIBUTES = (
    "objectGUID",
    "objectClass",
    "sAMAccountName",
    USER_ACCOUNT_CONTROL,
    *PROTECTION_ATTRIBUTES,
    *EVIDENCE_ATTRIBUTES,
)
_FILTERS: dict[AccountKind, Filter] = {
    "user": RESOURCES["users"].condition,
    "computer": RESOURCES["computers"].condition,
}


class AccountProtected(GatewayError):
    """A run never changes a protected account, even if its caller may: that needs a change of its own."""

    status, code, title = 403, "Auth.Forbidden", "A protected account is never changed by a run"


class Effect(StrEnum):
    """What a run means for an account. `ABSENT`: the account was named but is not inside the unit."""

    CHANGE = "change"
    NONE = "none"
    PROTECTED = "protected"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Selection:
    """The number of accounts that were selected, and the first of them, which were read after `state`."""

    total: int
    entries: list[Entry]
    state: DomainState


@dataclass(frozen=True, slots=True)
class Account:
    """An account, and what a run means for it; `entry` and `delta` are None for an absent one."""

    id: UUID
    entry: Entry | None
    effect: Effect
    delta: Delta | None = None

    @property
    def distinguished_name(self) -> str | None:
        return self.entry.dn if self.entry else None

    def as_target(self) -> Target:
        return Target(self.id, self.kind, self.distinguished_name or "")

    @property
    def kind(self) -> str:
        return kind_of_entry(self.entry).value if self.entry else ""

    @property
    def refusal(self) -> GatewayError | None:
        """Why a run fails for the account without asking the directory, or None."""
        if self.effect is Effect.ABSENT:
            return ObjectNotFound(message("There is no such user or computer in this organizational unit."))
        return AccountProtected() if self.effect is Effect.PROTECTED else None

    @property
    def changes(self) -> Sequence[AttributeChange]:
        """What a run would change; nothing if the account is refused."""
        return () if self.delta is None or self.refusal is not None else self.delta.changes

    @property
    def write(self) -> Modify:
        """The write of an account whose effect is `CHANGE`."""
        assert self.entry is not None
        assert self.delta is not None
        write = guarded_modify(self.entry, self.delta.modifications)
        assert write is not None
        return write


def find_accounts(
    client: Client,
    unit: UUID,
    *,
    kinds: Collection[AccountKind],
    scope: SelectionScope,
    limit: int | None = MAX_ACCOUNTS,
) -> Selection:
    """Count the accounts of these kinds directly in the unit or anywhere below it.

    The first of them are read as a whole, in the order of their distinguished names.
    """
    every: Filter = Or(*(_FILTERS[kind] for kind in kinds))
    condition = past_user_index(client, every, every)
    wanted = {Kind(kind) for kind in kinds}
    state = domain_state(client)
    # The filter for computers also matches subclasses such as managed service accounts, which runs leave alone. Of
    # users it is exact, and Samba, which admits no write meanwhile, takes a third longer for the classes.
    is_exact = wanted == {Kind.USER}
    attributes = ("objectGUID",) if is_exact else ("objectGUID", "objectClass")

    def read() -> tuple[int, list[Entry]]:
        each = client.search(unit, SCOPES[scope], condition, attributes, patient=True)
        found = sorted(
            # What may be listed, but not read, is none.
            (entry for entry in each if "objectGUID" in entry and (is_exact or kind_of_entry(entry) in wanted)),
            key=lambda entry: entry.dn.casefold(),
        )
        first = {entry.guid: entry.dn for entry in found[:limit]}
        read = client.read_many(first, _ATTRIBUTES)
        # One that was moved in between may be outside the unit.
        return len(found), [read[guid] for guid, dn in first.items() if guid in read and read[guid].dn == dn]

    return Selection(*_read_beside_protection(client, state, read), state)


def assess(
    client: Client,
    entries: Sequence[Entry],
    action: Action,
    *,
    more_privileged_people: MorePrivilegedPeople,
) -> list[Account]:
    """Assess accounts that were found in the unit, in their order."""
    protected = protected_among(client, entries) | set(more_privileged_people([entry.guid for entry in entries]))
    return [assess_entry(client.schema, entry, action, is_protected=entry.guid in protected) for entry in entries]


def assess_entry(schema: Schema, entry: Entry, action: Action, *, is_protected: bool) -> Account:
    """What a run means for an account that is protected or not."""
    delta = Delta()
    change_account_control(delta, schema, entry, UserAccountControl.ACCOUNTDISABLE, is_set=action == "disable")
    effect = Effect.CHANGE if delta.changes else Effect.NONE
    return Account(entry.guid, entry, Effect.PROTECTED if is_protected else effect, delta)


def assess_named(
    client: Client,
    unit: UUID,
    accounts: Iterable[UUID],
    action: Action,
    *,
    more_privileged_people: MorePrivilegedPeople,
    state: DomainState | None = None,
) -> list[Account]:
    """Assess the accounts with these objectGUIDs, in their order, with one read, which is made after `state`.

    An account outside the unit is as absent as one that does not exist: the answer must not reveal it.
    """
    named = list(accounts)
    read = partial(client.read_many, [unit, *named], _ATTRIBUTES)
    found = _read_beside_protection(client, state or domain_state(client), read)
    inside: list[Entry] = []
    if (unit_entry := found.pop(unit, None)) is not None:
        accounts_found = (entry for entry in found.values() if USER_ACCOUNT_CONTROL in entry)
        inside = [
            entry
            for entry in accounts_found
            if kind_of_entry(entry) in (Kind.USER, Kind.COMPUTER) and is_within_any(entry.dn, (unit_entry.dn,))
        ]
    assessed = {
        account.id: account for account in assess(client, inside, action, more_privileged_people=more_privileged_people)
    }
    return [assessed.get(guid) or Account(guid, None, Effect.ABSENT) for guid in named]


def _read_beside_protection(client: Client, state: DomainState, read: Callable[[], _Found]) -> _Found:
    """Read while this thread loads the protected objects, which a later write outdates and which are needed next."""
    found = run_in_background(read, "accounts of a run")
    protection_state(client, state=state)
    return found()
