"""Groups nested into each other by changes at the same moment, none of which could see the other one coming.

LDAP has no guard over two objects, and a lock would bind only the gateway's own changes. So whoever nests a group looks
again when it is done: of all changes that close a cycle the last one sees it, and is rolled back; of two that see it
both are. Groups alone are looked at: a change of other members costs nothing more.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import UUID

from active_directory import Client, Entry, Modification, Modify
from directory.errors import GroupCycle
from directory.groups.ancestry import NESTING_ATTRIBUTES
from directory.groups.nesting import is_group, require_no_cycle
from directory.outcomes.evidence import EVIDENCE_ATTRIBUTES, evidence_of
from directory.shapes.proposal import AttributeChange, DependentChange, Rollback, Target


def cycle_check(
    client: Client,
    target: Target,
    added: Collection[Entry],
    write: Modify | None,
    changes: Sequence[AttributeChange],
    *,
    identities: Mapping[str, UUID],
) -> Callable[[], Rollback | None] | None:
    """The post-check of a change that adds members to a group (`Proposal.post_check`); None where it needs none."""
    nested = [member for member in added if is_group(member)]
    if target.id is None or write is None or not nested:
        return None
    guid = target.id

    def check() -> Rollback | None:
        group = client.find(guid, (*NESTING_ATTRIBUTES, *EVIDENCE_ATTRIBUTES))
        if group is None:
            return None
        try:
            require_no_cycle(client, group, nested)
        except GroupCycle as refusal:
            undoing = _undoing(write)
            change = DependentChange(
                operation="groups.update",
                target=target,
                changes=tuple(AttributeChange(each.attribute, each.after, each.before) for each in changes),
                write=undoing,
                evidence=evidence_of(undoing, entry=group, schema=client.schema, identities=identities),
                identities=identities,
            )
            return Rollback(change, refusal)
        return None

    return check


def _undoing(write: Modify) -> Modify:
    """The modify that undoes all of another one, which removed and added single values, and guarded like it."""
    steps = tuple(
        Modification("add" if step.op == "delete" else "delete", step.attribute, step.values)
        for step in reversed(write.modifications)
    )
    return Modify(write.dn, steps, guarded=True)
