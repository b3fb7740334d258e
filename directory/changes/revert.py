"""Proposals to revert a change that the operations log holds (docs/api.md#reverting).

The inverse of a change is another ordinary change, proposed as if somebody had requested it, with its own permissions,
protection, scopes and risk. It is made only while the directory is still as the original change left it: its old values
guard the write, so it never overwrites what somebody else changed in between.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from typing_extensions import TypedDict

from active_directory import (
    DistinguishedName,
    Entry,
    UserAccountControl,
    decode,
    servers_asked_so_far,
)
from audit.log_queries import last_deletion
from audit.models import OperationRecord, Outcome, Reversible, reason_of_revert
from audit.redact import SECRET, is_credential
from core.call import Call
from core.errors import Forbidden, GatewayError
from core.operation import Effect, Operation, find_operation, greatest_risk
from core.shapes import Id
from core.text.messages import clause, message
from directory import errors
from directory.changes.membership import propose_members
from directory.changes.references import (
    names_referenced_by,
    parent_name,
    recorded_changes,
    recorded_identities,
    summarize_names,
    with_current_names,
)
from directory.changes.restore import propose_restore
from directory.changes.targets import find_target
from directory.changes.tree import propose_delete, propose_move, propose_rename
from directory.changes.update import propose_enabled, propose_update
from directory.lookup.access import client_of, find_object
from directory.lookup.visibility import visibility_of
from directory.outcomes.evidence import require_reads_replicated
from directory.protection.rules import is_protected, require_may_write
from directory.queries.deleted_objects import deleted_at, find_deleted
from directory.queries.reading import read_record
from directory.shapes.inputs import AccountPart, AttributeUpdates, ChangeMembers
from directory.shapes.kinds import resource_of
from directory.shapes.proposal import UNTIL, AttributeChange, Proposal, Target
from directory.shapes.record import PROTECTION_ATTRIBUTES, ChangedObject

_NOT_REVERTIBLE: Final = frozenset({"pwdlastset", "lockouttime"})
"""Times that only the directory sets: others can write 0 or the current time, but never the earlier value."""
_NUL_CHARACTERS: Final = ("\x00", "\N{SYMBOL FOR NULL}")
"""The log cannot store NUL and shows the symbol for it instead."""

_REASONS_BY_OUTCOME: Final = {
    Outcome.PENDING: "It is still being made.",
    Outcome.UNKNOWN: "It is not known yet whether it was made.",
    Outcome.FAILED: "It failed, so there is nothing to take back.",
    Outcome.QUEUED: "It was held for approval: if it was applied, that has a record of its own.",
}


class NotRevertible(GatewayError):
    """The change has no inverse, or the object is no longer as the change left it; `differences` has the attributes."""

    status, code, title = 409, "Operations.NotRevertible", "This change cannot be reverted"


class Difference(TypedDict):
    """An attribute that is not any more as a change left it."""

    attribute: str
    expected: list[str]
    current: list[str]


class Reverted(TypedDict):
    """What a revert did: the record it reverts, the operation that is its inverse, the object, null if deleted."""

    reverts: Id
    operation: str
    object: ChangedObject | None


def reversibility(operation: str, changes: Collection[AttributeChange]) -> Reversible:
    """How far a change by an operation (`users.update`) can be reverted, judged by what the log holds of it."""
    try:
        inverse = find_operation(operation).inverse
    except KeyError:  # an operation of an earlier version
        return Reversible.NONE
    changes = [change for change in changes if change.attribute != UNTIL]
    if inverse is None or not changes:
        return Reversible.NONE
    if inverse == "restore":
        return Reversible.PARTIAL  # the password and the objects below stay lost
    if inverse != "update":
        return Reversible.FULL
    kept = [can_be_put_back(change) for change in changes]
    if all(kept):
        return Reversible.FULL
    return Reversible.PARTIAL if any(kept) else Reversible.NONE


def can_be_put_back(change: AttributeChange) -> bool:
    """Whether the log holds the old values of an updated attribute, and somebody may write them."""
    if change.attribute.lower() in _NOT_REVERTIBLE or is_credential(change.attribute):
        return False
    if SECRET in (*change.before, *change.after):
        return False
    return not any(sign in value for sign in _NUL_CHARACTERS for value in change.before)


def propose_revert(call: Call, record: OperationRecord, *, is_end: bool = False) -> Proposal:
    """Propose the inverse of a recorded change.

    At the end of a change that was made for a while (`is_end`), an account's options count each for itself: whoever
    changed another one does not keep the account enabled.

    Raises NotRevertible; Forbidden for a record of another directory and for a caller who may not make the inverse
    change; and what the inverse change itself raises, such as NotEmpty for the delete that reverts a create.
    """
    inverse = _find_inverse(record)
    if call.directory is None or record.directory_id != call.directory.id:
        raise Forbidden
    if not inverse.permission & call.permissions:
        raise Forbidden
    assert record.target_id is not None
    target = record.target_id
    try:
        proposal = _Revert(call, record, target, inverse.resource, is_end=is_end).propose(inverse.action)
    except GatewayError as refusal:
        if refusal.status < 500:  # a domain controller that lags behind may have caused the refusal
            reverted = Target(target, record.target_kind or "", record.target_dn or "")
            require_reads_replicated(client_of(call), servers_asked_so_far(), [reverted])
        if refusal.status not in (400, 404):
            raise
        # The refusal is about an input that the caller never sent.
        raise NotRevertible(message("What was before cannot be put back: {detail}", detail=refusal.detail)) from None

    def answer() -> Reverted:
        changed = proposal.answer()
        if inverse.action == "change-members":
            changed = read_record(call, target)
        return {"reverts": str(record.id), "operation": inverse.name, "object": changed}

    return replace(
        proposal,
        operation=inverse.name,
        reason=reason_of_revert(record.id, call.reason),
        risk=greatest_risk(proposal.risk, inverse.risk),
        risk_reason=proposal.risk_reason or message("it means to {ground}", ground=clause(inverse.summary)),
        answer=answer,
    )


def _find_inverse(record: OperationRecord) -> Operation:
    """The operation that reverts a recorded change; raises NotRevertible where there is none."""
    try:
        made = find_operation(record.operation)
    except KeyError:
        raise NotRevertible(message("The gateway has no such operation any more.")) from None
    if made.effect is Effect.READ:
        raise NotRevertible(message("It is a read, which changed nothing."))
    if made.effect is Effect.ADMINISTER:
        raise NotRevertible(message("It changed the gateway's own tables, not the directory."))
    if record.outcome != Outcome.SUCCEEDED:
        raise NotRevertible(_REASONS_BY_OUTCOME[Outcome(record.outcome)])
    if made.inverse is None:
        raise NotRevertible(message("There is no change that would undo this one."))
    if record.target_id is None:
        raise NotRevertible(message("It is not known which object it made."))
    return inverse_of(made, record.target_kind)


def inverse_of(made: Operation, kind: str | None) -> Operation:
    """The operation that takes back a change of an object of this kind by an operation with an inverse."""
    if made.inverse == "restore":
        return find_operation("deleted-objects.restore")
    # Runs are recorded account by account, and restores under `deleted-objects`: their kind determines the resource.
    resource = made.resource if made.creates or made.inverse == made.action else resource_of(kind)
    return find_operation(f"{resource}.{made.inverse}")


class _Revert:
    """Proposes to revert one record, whose object is `target`, by the operations of a resource."""

    def __init__(self, call: Call, record: OperationRecord, target: UUID, resource: str, *, is_end: bool) -> None:
        self._call, self._record, self._target, self._resource = call, record, target, resource
        self._is_end = is_end
        self._client = client_of(call)
        self._changes = [change for change in recorded_changes(record) if change.attribute != UNTIL]
        if not self._changes:
            raise NotRevertible(message("It only moved the end of another change."))

    def propose(self, action: str) -> Proposal:
        """Propose the inverse with this action."""
        call, resource, id = self._call, self._resource, self._target
        if action == "restore":
            return self._restore()
        try:
            entry, _ = find_target(call, resource, id)
        except errors.ObjectNotFound:
            raise NotRevertible(message("The object does not exist any more.")) from None
        if self._is_end:
            self._changes = [_options_still_set(change, entry) for change in self._changes]
        proposals: dict[str, Callable[[], Proposal]] = {
            "delete": lambda: propose_delete(call, resource=resource, id=id, recursive=False),
            "update": self._update,
            "enable": partial(self._set_enabled, enabled=True),
            "disable": partial(self._set_enabled, enabled=False),
            "move": self._move,
            "rename": self._rename,
            "change-members": self._change_members,
        }
        return proposals[action]()

    def _restore(self) -> Proposal:
        """Propose to restore an object that this record deleted, but not one that was deleted again later."""
        call, record = self._call, self._record
        try:
            entry = find_deleted(call, self._target, PROTECTION_ATTRIBUTES)
        except errors.ObjectNotFound:
            raise NotRevertible(message("The object is not among the deleted ones (any more).")) from None
        require_may_write(call, protected=is_protected(self._client, entry))
        moment = deleted_at(entry, self._client.schema)
        assert record.directory_id is not None
        latest = moment and last_deletion(record.directory_id, self._target, deleted_at=datetime.fromisoformat(moment))
        if not latest or latest.id != record.id:
            raise NotRevertible(message("The object was restored and deleted again since."))
        return propose_restore(call, id=self._target, parent=None, name=None)

    def _set_enabled(self, *, enabled: bool) -> Proposal:
        proposal = propose_enabled(self._call, resource=self._resource, id=self._target, enabled=enabled)
        self._require_unchanged(proposal, self._changes)
        return proposal

    def _move(self) -> Proposal:
        """Propose a move back to the old container if the object is still in the new one, whatever its name."""
        change = self._change_of_name()
        containers = recorded_identities(self._client, self._record, [change])
        old, new = parent_name(change.before[0]), parent_name(change.after[0])
        if not containers.keys() >= {old, new}:
            raise NotRevertible(
                message("It cannot be told for certain any more which containers it was moved between.")
            )
        present = self._read("parentGUID")
        if containers[new].bytes_le not in present.values("parentGUID"):
            raise self._drift_refusal(_difference(change.attribute, change.after, [present.dn]))
        return propose_move(self._call, resource=self._resource, id=self._target, parent=containers[old])

    def _rename(self) -> Proposal:
        """Propose the old name if the object still has the new one, whatever its container."""
        change = self._change_of_name()
        before, after = (DistinguishedName.parse(names[0]) for names in (change.before, change.after))
        proposal = propose_rename(self._call, resource=self._resource, id=self._target, name=before.rdn_value)
        present = DistinguishedName.parse(proposal.target.distinguished_name)
        if present.rdn_value != after.rdn_value:
            raise self._drift_refusal(_difference(change.attribute, [str(after)], [str(present)]))
        return proposal

    def _change_of_name(self) -> AttributeChange:
        """The distinguished names before and after a move or a rename."""
        return next(each for each in self._changes if each.attribute == "distinguishedName")

    def _change_members(self) -> Proposal:
        """Propose to remove added members and add removed ones, as far as each is still as the change left it."""
        (change,) = self._changes
        (present,) = self._current_changes(self._changes)
        removed, added = (
            [present.identities[name] for name in side if name in present.identities]
            for side in (change.before, change.after)
        )
        proposal = propose_members(self._call, id=self._target, body=ChangeMembers(add=removed, remove=added))
        return self._accept_partial(proposal, [present])

    def _update(self) -> Proposal:
        """Propose the old values of all attributes that the log knows and somebody may write; warn of the others."""
        wanted = [change for change in self._changes if can_be_put_back(change)]
        if not wanted:
            raise NotRevertible(message("The log does not know what was before, or only the directory may write it."))
        present = self._current_changes(wanted)
        # Of a list of links, which may be long, only the recorded values are added and removed; other attributes get
        # back all old values, if they still have all new ones.
        links = [each for each in present if self._is_list_of_links(each.change)]
        others = [each.change for each in present if each not in links]
        account = next((part for part in map(_password_expiry_part, others) if part is not None), None)
        in_updates = [change for change in others if _password_expiry_part(change) is None]
        updates = AttributeUpdates(
            replace={change.attribute: list(change.before) for change in in_updates if change.before},
            clear=[change.attribute for change in in_updates if not change.before],
            add={each.change.attribute: list(each.change.before) for each in links if each.change.before},
            remove={each.change.attribute: list(each.change.after) for each in links if each.change.after},
        )
        proposal = propose_update(
            self._call, resource=self._resource, id=self._target, updates=updates, account=account
        )
        self._require_unchanged(proposal, others)
        left_out = [change.attribute for change in self._changes if change not in wanted]
        if left_out:
            warning = f"Not put back, as nobody can: {', '.join(left_out)}."
            proposal = replace(proposal, warnings=(*proposal.warnings, warning))
        return self._accept_partial(proposal, links)

    def _current_changes(self, changes: Sequence[AttributeChange]) -> list["_CurrentChange"]:
        """The changes with the current names of the objects they refer to.

        Objects that are gone are left out of a list of links; for other attributes they raise NotRevertible.
        """
        identities = recorded_identities(self._client, self._record, changes)
        found = self._client.read_many(identities.values(), ("objectGUID",))
        present = {name: found[guid].dn for name, guid in identities.items() if guid in found}
        living = {name: identities[name] for name in present}
        shown = []
        for change in changes:
            attribute = self._client.schema.attribute(change.attribute)
            gone = [name for name in names_referenced_by(self._client.schema, change) if name not in present]
            if gone and not self._is_list_of_links(change):
                raise NotRevertible(
                    message(
                        "What {attribute} referred to is gone, or cannot be told for certain any more.",
                        attribute=change.attribute,
                    )
                )
            before, after = (
                tuple(with_current_names(attribute, some, present)) for some in (change.before, change.after)
            )
            shown.append(_CurrentChange(replace(change, before=before, after=after), gone, living))
        return shown

    def _is_list_of_links(self, change: AttributeChange) -> bool:
        """Whether the log holds only the added and removed values of the attribute, as of multi-valued links."""
        attribute = self._client.schema.attribute(change.attribute)
        return attribute is not None and attribute.is_linked and not attribute.single_valued

    def _require_unchanged(self, proposal: Proposal, changes: Sequence[AttributeChange]) -> None:
        """Raise NotRevertible unless the proposal starts from the values that each change left."""
        proposed = {change.attribute.lower(): sorted(change.before) for change in proposal.changes}
        if all(proposed.get(change.attribute.lower()) == sorted(change.after) for change in changes):
            return
        entry = self._read(*(change.attribute for change in changes))
        found = []
        for change in changes:
            current = decode(self._client.schema.attribute(change.attribute), entry.values(change.attribute))
            if sorted(current) != sorted(change.after):
                found.append(_difference(change.attribute, change.after, current))
        raise self._drift_refusal(*found)

    def _accept_partial(self, proposal: Proposal, links: Sequence["_CurrentChange"]) -> Proposal:
        """Raise NotRevertible where no value of a link is still as the change left it; warn where only some are."""
        proposed = {change.attribute.lower(): change for change in proposal.changes}
        differences, warnings = [], []
        for change, gone in ((each.change, each.gone) for each in links):
            done = proposed.get(change.attribute.lower())
            if done is None:  # shows only the values of this change: a group may have thousands of members
                present = set(map(DistinguishedName.parse, self._read(change.attribute).texts(change.attribute)))
                concerned = (*change.before, *change.after)
                still = [name for name in concerned if DistinguishedName.parse(name) in present]
                differences.append(_difference(change.attribute, change.after, still))
                continue
            kept = [*_names_without(change.before, done.after), *_names_without(change.after, done.before), *gone]
            if kept:
                listed = "; ".join(summarize_names(kept))
                warnings.append(
                    f"{change.attribute}: not as this change left them, so they stay as they are: {listed}."
                )
        if differences:
            raise self._drift_refusal(*differences)
        return replace(proposal, warnings=(*proposal.warnings, *warnings))

    def _read(self, *attributes: str) -> Entry:
        return find_object(self._call, self._target, attributes=attributes)

    def _drift_refusal(self, *differences: Difference) -> NotRevertible:
        """The refusal, with the values that the caller may see."""
        visibility = visibility_of(self._call)
        named = ", ".join(difference["attribute"] for difference in differences)
        for difference in differences:
            for side in ("expected", "current"):
                difference[side] = visibility.visible_texts(difference["attribute"], difference[side])
        detail = message("The object is not as this change left it: {named}.", named=named)
        return NotRevertible(detail, differences=[*differences])


@dataclass(frozen=True, slots=True)
class _CurrentChange:
    """A recorded change with current names.

    `gone` are the recorded names of objects that no longer exist or cannot be identified for certain; `identities` maps
    the other names to objectGUIDs.
    """

    change: AttributeChange
    gone: list[str]
    identities: Mapping[str, UUID]


def _options_still_set(change: AttributeChange, entry: Entry) -> AttributeChange:
    """A change of an account's options, of those alone that are as it left them; any other change as it is."""
    if change.attribute.lower() != "useraccountcontrol" or not (change.before and change.after):
        return change
    left, present = int(change.after[0]), entry.number("userAccountControl")
    still = (int(change.before[0]) ^ left) & ~(left ^ present)
    return replace(change, before=(str(present ^ still),), after=(str(present),)) if still else change


def _password_expiry_part(change: AttributeChange) -> AccountPart | None:
    """The account part that reverts a change of DONT_EXPIRE_PASSWD alone, or None.

    As an update of userAccountControl it would need the permission to enable and disable accounts.
    """
    if change.attribute != "userAccountControl" or not (change.before and change.after):
        return None
    never_expires = UserAccountControl.DONT_EXPIRE_PASSWD.value
    before, after = int(change.before[0]), int(change.after[0])
    return AccountPart(passwordNeverExpires=bool(before & never_expires)) if before ^ after == never_expires else None


def _difference(attribute: str, expected: Iterable[str], current: Iterable[str]) -> Difference:
    return {"attribute": attribute, "expected": list(expected), "current": list(current)}


def _names_without(names: Iterable[str], others: Iterable[str]) -> list[str]:
    known = {DistinguishedName.parse(name) for name in others}
    return [name for name in names if DistinguishedName.parse(name) not in known]
