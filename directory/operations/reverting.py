"""Reverting a change that the operations log holds. Reading the log is `audit.operations`'."""

from uuid import UUID

from audit.chain.verification import why_doubted
from audit.operations.operations_log import visible_records
from directory.changes.revert import NotRevertible, Reverted, propose_revert
from directory.shapes.proposal import Proposal
from gateway.core.call import Call
from gateway.core.errors import NotFound
from gateway.core.operation import NO_INVERSE, Effect, Target, operation


@operation(
    "operations.revert",
    "POST operations/{id}/revert",
    permission="audit.revert_change",
    target=Target.DIRECTORY,
    inverse=NO_INVERSE,
    effect=Effect.CHANGE,
    output=Reverted,
)
def revert_operation(call: Call, *, id: UUID) -> Proposal:
    """Revert a change: make the inverse one, if the directory still is as the change left it.

    It needs the permissions of the inverse change besides its own, and is held, checked and recorded like that one: a
    create is reverted by a delete, a delete by a restore that gives back what the recycle bin or the log has kept, and
    an enable by a disable. The new record has the inverse operation's name, and its reason names the record reverted.
    Of a membership those are put back who are still as the change left them; for other values that have changed since,
    `differences` of the problem tells what was expected and what there is.
    """
    record = visible_records(call).filter(id=id).first()
    if record is None:
        raise NotFound
    if doubt := why_doubted(record):
        raise NotRevertible(f"The record is not to be trusted, and so nothing is made of it. {doubt}")
    return propose_revert(call, record)
