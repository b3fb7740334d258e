"""What a run means for each account: a change, nothing, or a refusal. One answer for plan, proposal and worker."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeVar
from uuid import UUID

from active_directory import Client, Entry, Filter, Modify, Or, run_in_background
from core.errors import GatewayError
from core.text.messages import message
from directory.changes.accounts import switched
from directory.changes.targets import guarded_modify
from directory.errors import ObjectNotFound
from directory.lookup.access import is_within_any
from directory.outcomes.evidence import EVIDENCE_ATTRIBUTES
from directory.protection.rules import protected_among
from directory.protection.state import protection_state
from directory.queries.account_filters import CONTROL
from directory.queries.searches.definitions import SCOPES
from directory.shapes.kinds import RESOURCES, Kind, kind_of
from directory.shapes.modifications import Delta
from directory.shapes.proposal import AttributeChange, Target
from directory.shapes.record import PROTECTION_ATTRIBUTES

MAX_ACCOUNTS = 100
"""How many accounts one run takes at most."""

MorePrivilegedPeople = Callable[[Collection[UUID]], Collection[UUID]]
"""Which of these accounts are of people who may do more in the gateway than the run's caller."""

Action = Literal["enable", "disable"]
AccountKind = Literal["user", "computer"]
SelectionScope = Literal["one-level", "subtree"]

_Found = TypeVar("_Found")

ATTRIBUTES = ("objectGUID", "objectClass", "sAMAccountName", CONTROL, *PROTECTION_ATTRIBUTES, *EVIDENCE_ATTRIBUTES)
_FILTERS: dict[AccountKind, Filter] = {
    "user": RESOURCES["users"].condition,
    "computer": RESOURCES["computers"].condition,
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
    """An account as read, and what a run means for it; `entry` and `delta` are None for an absent one."""

    id: UUID
    entry: Entry | None
    effect: Effect
    delta: Delta | None = None

    @property
    def distinguished_name(self) -> str | None:
        return self.entry.dn if self.entry else None

    def as_target(self) -> Target:
        """The account as an object that something is made of."""
        return Target(self.id, self.kind, self.distinguished_name or "")

    @property
    def kind(self) -> str:
        return kind_of(self.entry.object_classes).value if self.entry else ""

    @property
    def refusal(self) -> GatewayError | None:
        """Why a run fails for it, whatever the directory would say."""
        if self.effect is Effect.ABSENT:
            return ObjectNotFound(message("There is no such user or computer in this organizational unit."))
        return AccountProtected() if self.effect is Effect.PROTECTED else None

    @property
    def changes(self) -> Sequence[AttributeChange]:
        """What a run would change of it; nothing where it refuses to."""
        return () if self.delta is None or self.refusal is not None else self.delta.changes

    @property
    def write(self) -> Modify:
        """The write that does it."""
        assert self.entry is not None
        assert self.delta is not None
        write = guarded_modify(self.entry, self.delta.modifications)
        assert write is not None
        return write


def find_accounts(client: Client, unit: UUID, *, kinds: Collection[AccountKind], scope: SelectionScope) -> list[Entry]:
    """The accounts of these kinds directly in the unit or anywhere below it, in the order of their names."""
    condition = Or(*(_FILTERS[kind] for kind in kinds))
    found = _beside_protection(client, lambda: list(client.search(unit, SCOPES[scope], condition, ATTRIBUTES)))
    wanted = {Kind(kind) for kind in kinds}
    return sorted(
        (entry for entry in found if kind_of(entry.object_classes) in wanted), key=lambda entry: entry.dn.casefold()
    )


def assess(
    client: Client,
    entries: Sequence[Entry],
    action: Action,
    *,
    more_privileged_people: MorePrivilegedPeople,
) -> list[Account]:
    """What a run means for accounts that were found in the unit, in their order."""
    protected = protected_among(client, entries) | set(more_privileged_people([entry.guid for entry in entries]))
    accounts = []
    for entry in entries:
        delta = switched(client.schema, entry, enabled=action == "enable")
        effect = Effect.CHANGE if delta.changes else Effect.NONE
        accounts.append(Account(entry.guid, entry, Effect.PROTECTED if entry.guid in protected else effect, delta))
    return accounts


def assess_named(
    client: Client,
    unit: UUID,
    accounts: Iterable[UUID],
    action: Action,
    *,
    more_privileged_people: MorePrivilegedPeople,
) -> list[Account]:
    """The same for accounts that are named, in their order, with one read.

    An account elsewhere is as absent as one that does not exist, so that nothing is told of what lies outside the unit.
    """
    named = list(accounts)
    found = _beside_protection(client, lambda: client.read_many([unit, *named], ATTRIBUTES))
    inside: list[Entry] = []
    if (unit_entry := found.pop(unit, None)) is not None:
        accounts_found = (entry for entry in found.values() if CONTROL in entry)
        inside = [
            entry
            for entry in accounts_found
            if kind_of(entry.object_classes) in (Kind.USER, Kind.COMPUTER) and is_within_any(entry.dn, (unit_entry.dn,))
        ]
    assessed = {
        account.id: account for account in assess(client, inside, action, more_privileged_people=more_privileged_people)
    }
    return [assessed.get(guid) or Account(guid, None, Effect.ABSENT) for guid in named]


def _beside_protection(client: Client, read: Callable[[], _Found]) -> _Found:
    """Read, and meanwhile what protects, which every write makes old: it is only checked when accounts are judged."""
    found = run_in_background(read, "accounts of a run")
    protection_state(client)
    return found()
