"""What a change operation returns: a proposal, made by reading the directory and changing nothing.

One value serves the dry run, the decision to hold, the approver's page, the log's intent and the write itself,
so that none of them can differ from what is done. The pipeline carries it out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from active_directory import AttributeType, Modify, Write
from audit.redact import ChangeJson
from core.errors import GatewayError
from core.operation import Risk
from directory.shapes.wording.sign_in_effects import SignInEffect

SECRET = "<secret>"  # noqa: S105 - what is shown instead of one


@dataclass(frozen=True, slots=True)
class AttributeChange:
    """An attribute's decoded values before and after. Secrets are given as `SECRET`, never as they are.

    Of references only those that come or go are listed; `kept` is then how many others stay.
    """

    attribute: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    kept: int | None = field(default=None, compare=False)

    def as_json(self) -> ChangeJson:
        return {"attribute": self.attribute, "before": list(self.before), "after": list(self.after)}


def shown_values(attribute: AttributeType | None, values: Sequence[str]) -> tuple[str, ...]:
    """Decoded values as a change shows and keeps them.

    What the schema marks confidential is a secret there: those who read a log, decide on a change or receive an event
    need not be allowed to read it.
    """
    return tuple(SECRET for _ in values) if attribute is not None and attribute.confidential else tuple(values)


@dataclass(frozen=True, slots=True)
class Target:
    """The object a change is about. `id` is None for an object still to be created, `version` too.

    `account_name` tells people which of several of the same name it is.
    """

    id: UUID | None
    kind: str
    distinguished_name: str
    version: str | None = None
    account_name: str | None = None


@dataclass(frozen=True, slots=True)
class AccountsRun:
    """A run over a unit's accounts: `action` is `enable` or `disable`, `accounts` are objectGUIDs in order."""

    action: str
    unit: UUID
    accounts: tuple[UUID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentChange:
    """A change of another object that belongs to a proposal, recorded by itself under the name of an operation."""

    operation: str
    target: Target
    changes: tuple[AttributeChange, ...]
    write: Modify
    evidence: dict[str, Any]
    identities: Mapping[str, UUID] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rollback:
    """The change that undoes a write which should not have been made, and what its caller is told instead."""

    change: DependentChange
    refusal: GatewayError


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change that could be made.

    `changes` is empty when there is nothing to do; then nothing is sent, queued or recorded as a change.
    `write` is the one LDAP write that does all of it (or `run`, which a worker does account by account).
    `requires` are permissions that the target or the input asks for besides the operation's own.
    `attributes` are the directory attributes the caller named, for the risk table; `risk` is the least risk the
    operation itself sees in this input, and `risk_reason` says why it is more than the operation's own ("it enables
    the account"). `sign_in_effects` say what becomes of an account's ability to sign in, with risks of their own.
    `evidence` lets a settler find out later whether the write was applied (`directory.outcomes.evidence`). `answer`
    reads what the caller gets after the write. `secret` was made for this change and nobody knows it yet: the answer
    tells it, or it is kept for the approver. `explain` says in the terms of this change what a refusal by the
    directory means. `dependent_changes` are made when the write is done; one that fails undoes nothing. `post_check`
    looks, when the write is done, for what others did at the same moment and nobody could see before.
    `identities` are the objectGUIDs of the objects that the changes name (members, managers, parents), by distinguished
    name as spelled there: names move, and what was checked, approved or recorded is the object.
    `also_judged` are objects besides the target whose state the proposal rests on: the accounts of a run.
    `operation` and `reason` are what the log says in place of the call's own: a revert is recorded as the change
    that it is, and tells what it reverts.
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
    operation: str | None = None
    reason: str | None = None

    @property
    def judged(self) -> tuple[Target, ...]:
        """All objects whose state it rests on."""
        return (self.target, *self.also_judged, *(each.target for each in self.dependent_changes))
