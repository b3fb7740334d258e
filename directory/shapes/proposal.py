"""The proposal that a change operation returns, made by reading the directory and changing nothing.

The dry run, the decision to hold, the approver's page, the log's intent and the write itself all use this one value, so
that none of them can differ from what is done. The pipeline executes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from active_directory import AttributeType, Modify, Write
from audit.redact import SECRET, ChangeJson
from core.errors import GatewayError
from core.operation import Risk
from directory.shapes.value_rules import SignInEffect


@dataclass(frozen=True, slots=True)
class AttributeChange:
    """An attribute's decoded values before and after. `SECRET` replaces secrets.

    A change of references lists only those added and removed; `kept` is then the number of the others.
    """

    attribute: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    kept: int | None = field(default=None, compare=False)

    @classmethod
    def from_json(cls, change: Mapping[str, Any]) -> "AttributeChange":
        """From the JSON of a log record (`before`, `after`) or a change request (`current`, `proposed`)."""
        before = change.get("before", change.get("current", ()))
        after = change.get("after", change.get("proposed", ()))
        return cls(change["attribute"], tuple(before), tuple(after), change.get("kept"))

    def as_json(self) -> ChangeJson:
        return {"attribute": self.attribute, "before": list(self.before), "after": list(self.after)}


UNTIL = "until"
"""Shown as an attribute where a change moves the end of another one: the times before and after, empty for no end."""


def shown_values(attribute: AttributeType | None, values: Sequence[str]) -> tuple[str, ...]:
    """Decoded values as a change shows and keeps them.

    Values that the schema marks confidential count as secrets, because people who read the log, decide on a change or
    receive an event may not be allowed to read them.
    """
    return tuple(SECRET for _ in values) if attribute is not None and attribute.is_confidential else tuple(values)


@dataclass(frozen=True, slots=True)
class Target:
    """The object a change is about. `id` and `version` are None for an object that does not exist yet.

    `account_name` distinguishes it for people from others of the same name.
    """

    id: UUID | None
    kind: str
    distinguished_name: str
    version: str | None = None
    account_name: str | None = None


@dataclass(frozen=True, slots=True)
class AccountsRun:
    """A run over a unit's accounts. `action` is `enable` or `disable`; `accounts` are objectGUIDs in order.

    `assessment` is what was found out about the first of them, for the worker (`directory.runs.kept_assessment`).
    """

    action: str
    unit: UUID
    accounts: tuple[UUID, ...]
    assessment: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentChange:
    """A change of another object that belongs to a proposal, with a log record of its own."""

    operation: str
    target: Target
    changes: tuple[AttributeChange, ...]
    write: Modify
    evidence: dict[str, Any]
    identities: Mapping[str, UUID] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MembershipEnd:
    """Members whom a change adds to a group and who leave it again a while later, as a rule of the group says."""

    group: Target
    members: tuple[str, ...]
    identities: Mapping[str, UUID]
    lasts: timedelta


@dataclass(frozen=True, slots=True)
class Rollback:
    """The change that undoes a write which should not have been made, and the error for its caller."""

    change: DependentChange
    refusal: GatewayError


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change that could be made.

    - `changes` is empty when there is nothing to do; then nothing is sent, queued or recorded as a change.
    - `write` is the one LDAP write that does all of it; `run` is done by a worker instead, account by account.
    - `answer` reads what the caller gets after the write.
    - `requires` are permissions that the target or the input needs besides the operation's own.
    - `attributes` are the directory attributes that the caller named, for the risk table.
    - `risk` is the least risk that the operation sees in this input; `risk_reason` says why it is higher than the
      operation's own ("it enables the account").
    - `sign_in_effects` are effects on an account's ability to sign in, with risks of their own.
    - `evidence` decides later whether a write without an answer was applied (`directory.outcomes.evidence`).
    - `identities` are the objectGUIDs of the objects that the changes name (members, managers, parents), by
      distinguished name as spelled there. Names move, but the object is what was checked, approved or recorded.
    - `also_judged` are further objects whose state the proposal depends on: the accounts of a run.
    - `secret` was generated for this change: the answer has it once, or it is kept for the approver.
    - `explain` turns a refusal by the directory into one in the terms of this change.
    - `dependent_changes` are made after the write; one that fails undoes nothing.
    - `post_check` looks after the write for simultaneous changes by others that nobody could see before.
    - `confirmed` are the values that the caller asked for and that are there already, by lower-case attribute name: the
      names of members, and nothing for other attributes. A pending end of one of them is not to come any more.
    - `move_ends` moves the ends of earlier changes once this one is made; it raises Conflict. A change without a write
      is made by it alone.
    - `membership_ends` are those of members who are added without an end of the caller's own.
    - `operation` and `reason` replace the call's own in the log: a revert is recorded as the change that it makes.
    """

    target: Target
    changes: tuple[AttributeChange, ...]
    write: Write | None = None
    run: AccountsRun | None = None
    answer: Callable[[], Any]
    requires: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    protected: bool = False
    risk: Risk = Risk.ORDINARY
    risk_reason: str | None = None
    sign_in_effects: tuple[SignInEffect, ...] = ()
    warnings: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    identities: Mapping[str, UUID] = field(default_factory=dict)
    also_judged: tuple[Target, ...] = ()
    secret: str | None = field(default=None, repr=False)
    explain: Callable[[GatewayError], GatewayError] | None = None
    dependent_changes: tuple[DependentChange, ...] = ()
    post_check: Callable[[], Rollback | None] | None = None
    confirmed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    move_ends: Callable[[], None] | None = None
    membership_ends: tuple[MembershipEnd, ...] = ()
    operation: str | None = None
    reason: str | None = None

    @property
    def judged(self) -> tuple[Target, ...]:
        """All objects whose state the proposal depends on."""
        return (self.target, *self.also_judged, *(each.target for each in self.dependent_changes))
