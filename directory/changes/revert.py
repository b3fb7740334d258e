"""Proposals to make the inverse of a change that the operations log holds (docs/api.md#reverting).

Nothing is written in a way of its own: the inverse of a change is another change, proposed as if it had been asked
for, with the permissions, protection, scopes and risk of that one. What is special is that it is made only while the
directory still is as the change left it. The proposal itself tells: its old values guard the write, so nothing that
somebody else changes in between is overwritten.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from typing_extensions import TypedDict

from active_directory import (
    AttributeType,
    DistinguishedName,
    UserAccountControl,
    decode,
    servers_asked_so_far,
)
from audit.deletions import last_deletion
from audit.models import OperationRecord, Outcome
from audit.reverts import reason_of_revert
from core.call import Call
from core.errors import Forbidden, GatewayError
from core.operation import Effect, Operation, Risk, find_operation
from core.shapes import Id
from core.text.messages import clause, message
from directory import errors
from directory.changes.accounts import propose_enabled
from directory.changes.delete import propose_delete
from directory.changes.identities import changes_of, identities_of, with_present_names
from directory.changes.membership import propose_members
from directory.changes.move import propose_move, propose_rename
from directory.changes.references import parent_of, references_of
from directory.changes.restoring.restore import propose_restore
from directory.changes.reversibility import can_be_put_back
from directory.changes.update import propose_update
from directory.lookup.access import client_of, find_object
from directory.lookup.visibility import visibility_of
from directory.outcomes.replication import require_judged_by_all
from directory.protection.rules import is_protected, require_may_write
from directory.queries.deleted_objects import deleted_at, find_deleted
from directory.queries.reading import read_changed
from directory.shapes.account import AccountPart
from directory.shapes.attribute_updates import AttributeUpdates
from directory.shapes.inputs import ChangeMembers
from directory.shapes.kinds import RESOURCES, resource_of
from directory.shapes.proposal import AttributeChange, Proposal, Target
from directory.shapes.record import PROTECTION_ATTRIBUTES, ChangedObject

_ORDER: Final = (Risk.ORDINARY, Risk.DESTRUCTIVE, Risk.SECURITY)
_SHOWN: Final = 20
_CONTROL: Final = "userAccountControl"

_WHY_NOT: Final = {
    Outcome.PENDING: "It is still being made.",
    Outcome.UNKNOWN: "It is not known yet whether it was made.",
    Outcome.FAILED: "It failed, so there is nothing to take back.",
    Outcome.QUEUED: "It was held for approval: if it was applied, that has a record of its own.",
}


class NotRevertible(GatewayError):
    """There is no inverse, or the directory is not as the change left it: `differences` says where."""

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


def propose_revert(call: Call, record: OperationRecord) -> Proposal:
    """The inverse of a recorded change.

    Raises NotRevertible; Forbidden for a record of another directory and for whoever may not make the inverse change;
    and what the inverse change raises by itself, such as NotEmpty for the delete that reverts a create.
    """
    inverse = _inverse_of(record)
    if call.directory is None or record.directory_id != call.directory.id:
        raise Forbidden
    if not inverse.permission & call.permissions:
        raise Forbidden
    try:
        if inverse.action != "restore":
            _require_living(call, record, inverse.resource)
        proposal = _PROPOSALS[inverse.action](call, record, inverse.resource)
    except GatewayError as refusal:
        if refusal.status < 500:  # by an earlier state it may be refused wrongly
            reverted = Target(_target(record), record.target_kind or "", record.target_dn or "")
            require_judged_by_all(client_of(call), servers_asked_so_far(), [reverted])
        if refusal.status not in (400, 404):
            raise
        # It speaks of an input that the caller never gave.
        raise NotRevertible(message("What was before cannot be put back: {detail}", detail=refusal.detail)) from None
    return replace(
        proposal,
        operation=inverse.name,
        reason=reason_of_revert(record.id, call.reason),
        risk=max(proposal.risk, inverse.risk, key=_ORDER.index),
        risk_reason=proposal.risk_reason or _means(inverse),
        answer=lambda: _answer(call, record, inverse, proposal),
    )


def _inverse_of(record: OperationRecord) -> Operation:
    """The operation that takes a recorded change back; raises NotRevertible where there is none."""
    try:
        made = find_operation(record.operation)
    except KeyError:
        raise NotRevertible(message("The gateway has no such operation any more.")) from None
    if made.effect is Effect.READ:
        raise NotRevertible(message("It is a read, which changed nothing."))
    if made.effect is Effect.ADMINISTER:
        raise NotRevertible(message("It changed the gateway's own tables, not the directory."))
    if record.outcome != Outcome.SUCCEEDED:
        raise NotRevertible(_WHY_NOT[Outcome(record.outcome)])
    if made.inverse is None:
        raise NotRevertible(message("There is no change that would take this one back."))
    if record.target_id is None:
        raise NotRevertible(message("It is not known which object it made."))
    if made.inverse == "restore":
        return find_operation("deleted-objects.restore")
    # A run is recorded account by account, a restore under the name of where it came from: their kind tells the path.
    resource = made.resource if made.creates or made.inverse == made.action else resource_of(record.target_kind)
    return find_operation(f"{resource}.{made.inverse}")


def _means(inverse: Operation) -> str:
    return message("it means to {ground}", ground=clause(inverse.summary))


def _answer(call: Call, record: OperationRecord, inverse: Operation, proposal: Proposal) -> Reverted:
    answer = proposal.answer()
    if inverse.action == "change-members":
        answer = read_changed(call, _target(record))
    return {"reverts": str(record.id), "operation": inverse.name, "object": answer}


def _target(record: OperationRecord) -> UUID:
    assert record.target_id is not None
    return record.target_id


@dataclass(frozen=True, slots=True)
class _Present:
    """A recorded change with the names of now. `gone` are the recorded names of objects that are gone, or not known for
    certain, `identities` are the others' objectGUIDs."""

    change: AttributeChange
    gone: list[str]
    identities: Mapping[str, UUID]


def _present_changes(call: Call, record: OperationRecord, changes: Sequence[AttributeChange]) -> list[_Present]:
    """Changes with the names that the objects they refer to have now.

    Of a list of links what is gone is left out; where all values count, it raises NotRevertible.
    """
    client = client_of(call)
    identities = identities_of(client, record, changes)
    found = client.read_many(identities.values(), ("objectGUID",))
    present = {name: found[guid].dn for name, guid in identities.items() if guid in found}
    living = {name: identities[name] for name in present}
    shown = []
    for change in changes:
        attribute = client.schema.attribute(change.attribute)
        gone = [name for name in references_of(client.schema, change) if name not in present]
        if gone and not _is_list_of_links(attribute):
            raise NotRevertible(
                message(
                    "What {attribute} referred to is gone, or cannot be told for certain any more.",
                    attribute=change.attribute,
                )
            )
        before, after = (tuple(with_present_names(attribute, some, present)) for some in (change.before, change.after))
        shown.append(_Present(replace(change, before=before, after=after), gone, living))
    return shown


def _require_living(call: Call, record: OperationRecord, resource: str) -> None:
    try:
        entry = find_object(call, _target(record), kinds=RESOURCES[resource].kinds, attributes=PROTECTION_ATTRIBUTES)
    except errors.ObjectNotFound:
        raise NotRevertible(message("The object does not exist any more.")) from None
    require_may_write(call, protected=is_protected(client_of(call), entry))


def _delete(call: Call, record: OperationRecord, resource: str) -> Proposal:
    return propose_delete(call, resource=resource, id=_target(record), recursive=False)


def _restore(call: Call, record: OperationRecord, _: str) -> Proposal:
    """Only this deletion: an object that was restored and deleted again is deleted by another one."""
    try:
        entry = find_deleted(call, _target(record), PROTECTION_ATTRIBUTES)
    except errors.ObjectNotFound:
        raise NotRevertible(message("The object is not among the deleted ones (any more).")) from None
    require_may_write(call, protected=is_protected(client_of(call), entry))
    moment = deleted_at(entry, client_of(call).schema)
    assert record.directory_id is not None
    latest = moment and last_deletion(record.directory_id, _target(record), deleted_at=datetime.fromisoformat(moment))
    if not latest or latest.id != record.id:
        raise NotRevertible(message("The object was restored and deleted again since."))
    return propose_restore(call, id=_target(record), parent=None, name=None)


def _switch(call: Call, record: OperationRecord, resource: str, *, enabled: bool) -> Proposal:
    proposal = propose_enabled(call, resource=resource, id=_target(record), enabled=enabled)
    _require_unchanged(call, record, proposal, changes_of(record))
    return proposal


def _move(call: Call, record: OperationRecord, resource: str) -> Proposal:
    """Back to the container it was in, if it still is in the one it was put in; its name does not matter."""
    change = _change_of_name(record)
    before, after = change.before[0], change.after[0]
    containers = identities_of(client_of(call), record, [change])
    if not containers.keys() >= {parent_of(before), parent_of(after)}:
        raise NotRevertible(message("It cannot be told for certain any more which containers it was moved between."))
    present = find_object(call, _target(record), attributes=("parentGUID",))
    if containers[parent_of(after)].bytes_le not in present.values("parentGUID"):
        raise _drifted(call, [_place(after, present.dn)])
    return propose_move(call, resource=resource, id=_target(record), parent=containers[parent_of(before)])


def _rename(call: Call, record: OperationRecord, resource: str) -> Proposal:
    """Back to the name it had, if it still has the one it was given; where it is does not matter."""
    change = _change_of_name(record)
    before, after = DistinguishedName.parse(change.before[0]), DistinguishedName.parse(change.after[0])
    proposal = propose_rename(call, resource=resource, id=_target(record), name=before.rdn_value)
    present = DistinguishedName.parse(proposal.target.distinguished_name)
    if present.rdn_value != after.rdn_value:
        raise _drifted(call, [_place(str(after), str(present))])
    return proposal


def _change_of_name(record: OperationRecord) -> AttributeChange:
    """The distinguished names before and after a move or a rename."""
    return next(each for each in changes_of(record) if each.attribute == "distinguishedName")


def _place(expected: str, current: str) -> Difference:
    return {"attribute": "distinguishedName", "expected": [expected], "current": [current]}


def _change_members(call: Call, record: OperationRecord, _: str) -> Proposal:
    """Who was added goes, who was removed comes back, as far as each is still as the change left it."""
    (change,) = changes_of(record)
    (present,) = _present_changes(call, record, [change])
    removed, added = (
        [present.identities[name] for name in side if name in present.identities]
        for side in (change.before, change.after)
    )
    proposal = propose_members(call, id=_target(record), body=ChangeMembers(add=removed, remove=added))
    return _as_far_as_possible(call, record, proposal, [present])


def _update(call: Call, record: OperationRecord, resource: str) -> Proposal:
    client = client_of(call)
    recorded = changes_of(record)
    wanted = [change for change in recorded if can_be_put_back(change)]
    if not wanted:
        raise NotRevertible(message("The log does not know what was before, or only the directory may write it."))
    present = _present_changes(call, record, wanted)
    links = [each for each in present if _is_list_of_links(client.schema.attribute(each.change.attribute))]
    others = [each.change for each in present if each not in links]
    account = next((part for part in map(_account_part, others) if part is not None), None)
    in_updates = [change for change in others if _account_part(change) is None]
    updates = AttributeUpdates(
        replace={change.attribute: list(change.before) for change in in_updates if change.before},
        clear=[change.attribute for change in in_updates if not change.before],
        add={each.change.attribute: list(each.change.before) for each in links if each.change.before},
        remove={each.change.attribute: list(each.change.after) for each in links if each.change.after},
    )
    proposal = propose_update(call, resource=resource, id=_target(record), updates=updates, account=account)
    _require_unchanged(call, record, proposal, others)
    left_out = [change.attribute for change in recorded if change not in wanted]
    if left_out:
        warning = f"Not put back, as nobody can: {', '.join(left_out)}."
        proposal = replace(proposal, warnings=(*proposal.warnings, warning))
    return _as_far_as_possible(call, record, proposal, links)


def _is_list_of_links(attribute: AttributeType | None) -> bool:
    """Whether the log keeps of it what came and went, not what there was."""
    return attribute is not None and attribute.linked and not attribute.single_valued


def _account_part(change: AttributeChange) -> AccountPart | None:
    """That the password never expires is an option of the account, which needs no permission to enable it."""
    if change.attribute != _CONTROL or not (change.before and change.after):
        return None
    never_expires = UserAccountControl.DONT_EXPIRE_PASSWD.value
    before, after = int(change.before[0]), int(change.after[0])
    return AccountPart(passwordNeverExpires=bool(before & never_expires)) if before ^ after == never_expires else None


def _require_unchanged(
    call: Call, record: OperationRecord, proposal: Proposal, changes: Sequence[AttributeChange]
) -> None:
    """Raise NotRevertible unless the proposal leads from the values after each change to those before it."""
    proposed = _by_attribute(proposal.changes)
    if all(_starts_from(proposed.get(change.attribute.lower()), change) for change in changes):
        return
    entry = find_object(call, _target(record), attributes=[change.attribute for change in changes])
    found: list[Difference] = []
    for change in changes:
        current = decode(client_of(call).schema.attribute(change.attribute), entry.values(change.attribute))
        if sorted(current) != sorted(change.after):
            found.append({"attribute": change.attribute, "expected": list(change.after), "current": current})
    raise _drifted(call, found)


def _starts_from(proposed: AttributeChange | None, change: AttributeChange) -> bool:
    return proposed is not None and sorted(proposed.before) == sorted(change.after)


def _by_attribute(changes: Iterable[AttributeChange]) -> dict[str, AttributeChange]:
    return {change.attribute.lower(): change for change in changes}


def _as_far_as_possible(call: Call, record: OperationRecord, proposal: Proposal, links: Sequence[_Present]) -> Proposal:
    """Raise NotRevertible where nothing of a link is still as the change left it; warn where only a part is."""
    proposed = _by_attribute(proposal.changes)
    differences, warnings = [], []
    for change, gone in ((each.change, each.gone) for each in links):
        done = proposed.get(change.attribute.lower())
        if done is None:
            differences.append(_difference_of_links(call, record, change))
            continue
        kept = [*_all_but(change.before, done.after), *_all_but(change.after, done.before), *gone]
        if kept:
            listed = "; ".join(kept[:_SHOWN]) + (f"; and {len(kept) - _SHOWN} more" if len(kept) > _SHOWN else "")
            warnings.append(f"{change.attribute}: not as this change left them, so they stay as they are: {listed}.")
    if differences:
        raise _drifted(call, differences)
    return replace(proposal, warnings=(*proposal.warnings, *warnings))


def _all_but(names: Iterable[str], others: Iterable[str]) -> list[str]:
    known = {DistinguishedName.parse(name) for name in others}
    return [name for name in names if DistinguishedName.parse(name) not in known]


def _difference_of_links(call: Call, record: OperationRecord, change: AttributeChange) -> Difference:
    """Of a link's values only those concerned: a group may have thousands of members."""
    entry = find_object(call, _target(record), attributes=[change.attribute])
    present = {DistinguishedName.parse(name) for name in entry.texts(change.attribute)}
    concerned = [*change.before, *change.after]
    current = [name for name in concerned if DistinguishedName.parse(name) in present]
    return {"attribute": change.attribute, "expected": list(change.after), "current": current}


def _drifted(call: Call, differences: list[Difference]) -> NotRevertible:
    """The refusal, with those values that the caller may see."""
    visibility = visibility_of(call)
    named = ", ".join(difference["attribute"] for difference in differences)
    for difference in differences:
        for side in ("expected", "current"):
            difference[side] = visibility.texts(difference["attribute"], difference[side])
    told = message("The object is not as this change left it: {named}.", named=named)
    return NotRevertible(told, differences=differences)


_PROPOSALS: Final[dict[str, Callable[[Call, OperationRecord, str], Proposal]]] = {
    "delete": _delete,
    "restore": _restore,
    "update": _update,
    "enable": partial(_switch, enabled=True),
    "disable": partial(_switch, enabled=False),
    "move": _move,
    "rename": _rename,
    "change-members": _change_members,
}
