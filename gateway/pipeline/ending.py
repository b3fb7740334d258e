"""What a worker does with scheduled requests: begin changes whose time has come, and end those made for a while.

An end is made whatever has become of the key or its owner, with the gateway's own permissions and all other checks. It
leaves out what somebody has changed for good since. A directory that is away is tried again, and again at once when it
answers; what it refuses is overdue, and tried again every hour.
"""

import json
from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import DatabaseError
from django.db.models import Q

from active_directory import Client, LdapError
from approvals import ends
from approvals.errors import Changed
from approvals.models import ChangeRequest, Status
from approvals.queue import recorded_status
from audit import log_queries
from audit.models import OPEN_OUTCOMES, OperationRecord, Outcome
from core import tracing
from core.call import Call, CredentialKind, CredentialRef, PersonRef, Surface
from core.database import shared_clock
from core.errors import GatewayError, NotFound, ServiceUnavailable
from core.operation import find_operation
from core.text.messages import message
from directory import errors as directory_errors
from directory.changes.references import evidence_of_references, recorded_changes, recorded_identities
from directory.changes.revert import NotRevertible, propose_revert
from directory.lookup.access import client_of
from directory.lookup.connection import get_client
from directory.lookup.replication import NotReplicatedYet
from directory.models import DirectoryConnection
from directory.shapes.proposal import AttributeChange, Proposal
from gateway.pipeline.approved import apply_change_request
from gateway.pipeline.execute import MAX_ATTEMPTS, execute
from gateway.pipeline.inputs import Change, ValidatedInput
from gateway.pipeline.prepare import propose, with_reason
from keys.permission_catalogue import GRANTABLE
from keys.permissions.effective import reference_to_directory

logger = structlog.get_logger(__name__)

AT_ONCE: Final = 200
"""How many scheduled requests a worker takes up in one sweep."""
SWEEP_SECONDS: Final = 1.5
"""For how long: sweeps come every two seconds, and other changes wait meanwhile."""
_UNTIL_KNOWN: Final = timedelta(seconds=10)
"""When to look again at a write whose outcome is not known yet."""

_RESTORE: Final = "deleted-objects.restore"
_AWAY = (directory_errors.Unavailable, ServiceUnavailable)


@tracing.traced("take up scheduled changes")
def take_up_scheduled() -> bool:
    """Begin and end what is due, in the order of time; look again at directories that were away.

    Return whether some of it is left for the next sweep.
    """
    for directory_id in ends.find_directories_away():
        if _answers(directory_id):
            ends.hasten(directory_id)
    away: set[UUID | None] = set()
    due, until = ends.find_due(limit=AT_ONCE), monotonic() + SWEEP_SECONDS
    for request in due:
        if monotonic() > until:
            return True
        try:
            _take_up(request, away)
        except DatabaseError:
            raise
        except Exception:  # whatever is wrong with one, the others end
            logger.exception("a scheduled change cannot be taken up", request=str(request.id))
            ends.look_again(request, timedelta(minutes=1))
    return False


def _answers(directory_id: UUID) -> bool:
    """Whether a directory may be used and answers."""
    if not DirectoryConnection.objects.filter(pk=directory_id, enabled=True).exists():
        return False
    try:
        get_client(directory_id).root_dse()
    except (DirectoryConnection.DoesNotExist, LdapError):
        return False
    return True


def _take_up(request: ChangeRequest, away: set[UUID | None]) -> None:
    if request.ends is None:
        if ends.begin(request):
            apply_change_request(request.id)  # not by a message, which would wait behind all that was approved at once
        return
    if request.made_at is None and not _is_made(request):
        return
    assert request.due_at is not None
    if request.due_at > shared_clock.now():
        return
    if request.directory_id in away:
        ends.look_again(request, timedelta(seconds=10))
    elif ends.claim(request):
        _end(request, away)


def _is_made(end: ChangeRequest) -> bool:
    """Whether the change that an end takes back is known to have been made. The end of one that was not is cancelled.

    A record that is gone was made, and is older than the log is kept.
    """
    assert end.ends is not None
    record = OperationRecord.objects.filter(id=end.ends).first()
    if record is not None and record.outcome in OPEN_OUTCOMES:
        ends.look_again(end, ends.FIRST_LOOK)
        return False
    if record is not None and record.outcome != Outcome.SUCCEEDED:
        ends.cancel(end)
        return False
    return ends.confirm_made(end, record)


def _end(end: ChangeRequest, away: set[UUID | None]) -> None:
    problem: dict[str, Any] | None = None
    assert end.directory_id is not None
    if not DirectoryConnection.objects.filter(pk=end.directory_id).exists():
        gone = NotFound(message("The connection to its directory was deleted."))
        ends.finish(end, Status.FAILED, problem=gone.as_problem())
        return
    try:
        status = _take_back(end)
    except NotRevertible:  # unless another worker has made it in the meantime
        status = Status.APPLIED if recorded_status(end.id) is Status.APPLIED else Status.SUPERSEDED
    except directory_errors.OutcomeUnknown:
        status = Status.APPLYING
    except _AWAY as reason:
        if not isinstance(reason, NotReplicatedYet):  # what concerns others, too
            away.add(end.directory_id)
        assert end.due_at is not None
        status = Status.OVERDUE if shared_clock.now() > end.due_at + ends.LATE else Status.SCHEDULED
    except GatewayError as refusal:
        status, problem = Status.OVERDUE, refusal.as_problem()
    if status is Status.APPLYING:
        ends.look_again(end, _UNTIL_KNOWN)
    else:
        ends.finish(end, status, problem=problem)


def _take_back(end: ChangeRequest) -> Status:
    """Make the change that ends another one, unless an earlier attempt has; return the state of the request."""
    if end.attempt > 1 and (recorded := recorded_status(end.id)) in (Status.APPLIED, Status.APPLYING, Status.UNKNOWN):
        return Status.APPLIED if recorded is Status.APPLIED else Status.APPLYING
    if not ends.is_intact(end):
        raise Changed
    call = _call_of(end)
    operation = replace(find_operation("operations.revert"), function=lambda call: propose_end(call, end))
    accepted = ValidatedInput(kwargs={}, arguments={}, query={}, document=None)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            with directory_errors.translate_ldap_errors():
                proposal, _ = propose(operation, call, accepted)
            told = with_reason(call, proposal)
            unanswered = replace(proposal, answer=lambda: None)  # nobody reads what the object is like then
            execute(Change(operation=operation, call=told, accepted=accepted, proposal=unanswered))
            break
        except directory_errors.VersionMismatch:
            if attempt == MAX_ATTEMPTS:
                raise
    return Status.APPLIED


def _call_of(end: ChangeRequest) -> Call:
    assert end.directory_id is not None
    connection = DirectoryConnection.objects.get(pk=end.directory_id)
    if not connection.enabled:
        raise directory_errors.Unavailable
    return Call(
        surface=Surface.WORKER,
        person=PersonRef(end.requester_id, end.requester, ""),
        credential=CredentialRef(CredentialKind.GATEWAY, end.key_id, end.key_name),
        permissions=GRANTABLE,
        directory=reference_to_directory(connection),
        client_address=end.client_address,
        request_id=end.request_id,
        change_request_id=end.id,
        reason=end.reason,
    )


def _changes_to_end(client: Client, end: ChangeRequest) -> list[AttributeChange]:
    """The change that was made, without what somebody has changed for good since.

    Raises NotRevertible for nothing, and NotReplicatedYet while it is not known whether somebody has changed it.
    """
    parts = ends.parts_of_end(end)
    later = log_queries.only_changes(OperationRecord.objects.filter(target_id=end.target_id, id__gt=end.ends))
    # What was deleted and restored, it or a member, is as it was before.
    restores = OperationRecord.objects.filter(operation=_RESTORE, id__gt=end.ends, call_id__isnull=False)
    later = later.exclude(
        Q(operation__endswith=".delete") | Q(operation=_RESTORE) | Q(call_id__in=restores.values("call_id"))
    )
    made = later.filter(outcome__in=[Outcome.SUCCEEDED, *OPEN_OUTCOMES]).exclude(change_request_id=end.id)
    for record in made.order_by("id").iterator():
        changes = recorded_changes(record)
        members = [change for change in changes if change.attribute.lower() == "member"]
        changed = ends.parts_of(changes, recorded_identities(client, record, members) if members else {})
        if record.outcome in OPEN_OUTCOMES and parts & changed:  # of one that fails in the end nothing would be left
            raise NotReplicatedYet
        parts -= changed
    kept = [AttributeChange.from_json(item) for item in ends.restricted(end.changes, parts)]
    if not kept:
        raise NotRevertible
    return [replace(change, before=change.after, after=change.before) for change in kept]


def propose_end(call: Call, end: ChangeRequest) -> Proposal:
    """Propose to take back what an end still ends, as far as it is as the change left it. Raises NotRevertible."""
    client = client_of(call)
    changes = _changes_to_end(client, end)
    while True:
        try:
            return propose_revert(call, _recorded(client, end, changes), is_end=True)
        except NotRevertible as refusal:
            drifted = {each["attribute"].lower() for each in refusal.members.get("differences", ())}
            left = [change for change in changes if change.attribute.lower() not in drifted]
            if not left or len(left) == len(changes):
                raise
            changes = left


def _recorded(client: Client, end: ChangeRequest, changes: list[AttributeChange]) -> OperationRecord:
    """A record of these changes, as the log has or had it."""
    return OperationRecord(
        id=end.ends,
        at=end.created_at,
        operation=json.loads(end.input)["operation"],
        outcome=Outcome.SUCCEEDED,
        directory_id=end.directory_id,
        target_id=end.target_id,
        target_kind=end.target_kind,
        target_dn=end.target_dn,
        changes=[change.as_json() for change in changes],
        evidence=evidence_of_references(client.schema, changes, ends.identities_in(end.changes)),
    )
