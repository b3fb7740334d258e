"""Rotating the bind password: the gateway changes its own account's password to one that nobody knows.

Nothing is lost by a kill at any moment: the new password is kept as the pending one before the directory hears of it,
every process knows it by then and tries it when the old one is refused, and whoever comes later (the next rotation, a
sweep) finds out which of the two is the account's. The change is made with the old password, so that no other account
than the one the gateway signs in with is ever changed.
"""

from dataclasses import replace
from datetime import timedelta
from time import sleep
from typing import Final
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F

from active_directory import (
    BindResult,
    Client,
    DistinguishedName,
    Entry,
    Equals,
    InvalidValue,
    LdapError,
    Modification,
    Modify,
    Or,
    Scope,
    guid_reference,
    quoted_password,
)
from audit import log
from core.call import Call, DirectoryRef
from core.database import shared_clock
from core.errors import Conflict, GatewayError
from core.text.messages import message
from directory import errors
from directory.changes.passwords import PASSWORD_ATTRIBUTES, explain_refusal, find_minimum_age_hint
from directory.changes.targets import TARGET_ATTRIBUTES
from directory.lookup.connection import PREVIOUS_PASSWORD_FOR, REVISION_SECONDS, get_client
from directory.models import DirectoryConnection
from directory.outcomes import writer
from directory.outcomes.evidence import evidence_of
from directory.outcomes.writer import RecordedWrite
from directory.policies.password_generator import generate_password
from directory.policies.password_policy import policy_of
from directory.queries import bind_attempts
from directory.shapes.kinds import kind_of
from directory.shapes.proposal import SECRET

LENGTH: Final = 64
"""At 68 characters to choose from, 64 of them are 389 bits."""
_ATTRIBUTES: Final = (*TARGET_ATTRIBUTES, *PASSWORD_ATTRIBUTES)
INTERRUPTED_AFTER: Final = timedelta(seconds=90)
"""A rotation takes no longer: what is pending after that was left by a process that was killed."""

_logger = structlog.stdlib.get_logger(__name__)


def rotate(call: Call, row: DirectoryConnection) -> None:
    """Change the password of the account a connection signs in with, in the directory and in the connection.

    Raises Conflict while another rotation is under way or where the password kept is not for these servers,
    ObjectNotFound when the account cannot be told by its bind name, PasswordPolicyViolation before the minimum age is
    over, OutcomeUnknown when the directory gave no answer: then it is found out later.
    """
    if not row.is_bind_password_sealed:
        raise Conflict(message("The bind password was given for other servers or another name: give it anew first."))
    if row.pending_since is not None:
        _settle(row)
    with errors.translated():
        client = get_client(row.id)
        entry = _find_own_account(client, row.bind_dn)
        policy = policy_of(client, entry)
    new = generate_password(
        policy, account_name=entry.text("sAMAccountName"), display_name=entry.text("displayName"), shortest=LENGTH
    )
    if not _begin(row, new):
        raise Conflict(message("The connection is being changed, or its password rotated, by somebody else."))
    sleep(REVISION_SECONDS + 0.5)  # by then every process has the pending password to try

    write = Modify(
        guid_reference(entry.guid),
        (
            Modification("delete", "unicodePwd", (quoted_password(row.bind_password),)),
            Modification("add", "unicodePwd", (quoted_password(new),)),
        ),
    )
    client = get_client(row.id)
    call = replace(call, directory=DirectoryRef(id=row.id, name=row.name, client_id=row.client_id))
    try:
        record = log.record_intent(call, _intent(client, entry, write))
    except GatewayError:
        _give_up(row.id, new)
        raise
    result = writer.write(client, RecordedWrite(record=record, write=write, is_password_known=True))
    if result.refusal is None:
        _take_over(row.id, new)
        writer.close([result])
        return
    writer.close([result])
    if isinstance(result.refusal, errors.OutcomeUnknown):  # a sweep finds out what is pending, and the record's outcome
        raise result.refusal
    _give_up(row.id, new)
    hint = find_minimum_age_hint(policy, entry)
    raise explain_refusal(policy, result.refusal, hint=hint) from result.refusal.__cause__


def settle_interrupted() -> None:
    """Find out what became of rotations whose process was killed, and forget old passwords that no server knows."""
    now = shared_clock.now()
    for row in DirectoryConnection.objects.filter(pending_since__lt=now - INTERRUPTED_AFTER):
        try:
            _settle(row)
        except (GatewayError, LdapError) as error:
            _logger.info("rotation cannot be settled yet", connection=str(row.id), reason=type(error).__name__)
    for row in DirectoryConnection.objects.filter(rotated_at__lt=now - PREVIOUS_PASSWORD_FOR):
        if row.previous_bind_password:
            same = DirectoryConnection.objects.filter(pk=row.pk, rotated_at=row.rotated_at)
            same.update(previous_bind_password="")


def _find_own_account(client: Client, bind_name: str) -> Entry:
    """The account by its bind name: distinguished, userPrincipalName, or sAMAccountName with its domain."""
    try:
        found = client.find(str(DistinguishedName.parse(bind_name)), _ATTRIBUTES)
    except InvalidValue:
        account = bind_name.rpartition("\\")[2].partition("@")[0]
        wanted = Or(Equals("userPrincipalName", bind_name), Equals("sAMAccountName", account))
        rows = client.search(client.default_naming_context, Scope.SUBTREE, wanted, _ATTRIBUTES, limit=2)
        entries = list(rows)
        found = entries[0] if len(entries) == 1 else None
    if found is None:
        raise errors.ObjectNotFound(message("The gateway's own account cannot be found by its bind name."))
    return found


def _intent(client: Client, entry: Entry, write: Modify) -> log.Intent:
    kind = str(kind_of(entry.object_classes))
    return log.Intent(
        operation="directories.rotate-password",
        target=log.TargetRef(id=entry.guid, kind=kind, distinguished_name=entry.dn),
        changes=[{"attribute": "unicodePwd", "before": [SECRET], "after": [SECRET]}],
        evidence=evidence_of(write, entry=entry, schema=client.schema),
    )


def _begin(row: DirectoryConnection, new: str) -> bool:
    """Keep the pending password, unless the connection has changed or is being rotated; the revision tells all."""
    untouched = DirectoryConnection.objects.filter(pk=row.pk, revision=row.revision, pending_since=None)
    return bool(
        untouched.update(pending_bind_password=new, pending_since=shared_clock.now(), revision=F("revision") + 1)
    )


def _settle(row: DirectoryConnection) -> None:
    """Find out which password the account has since a rotation was interrupted. Raises Conflict for one under way."""
    if row.pending_since is None or shared_clock.now() - row.pending_since < INTERRUPTED_AFTER:
        raise Conflict(message("The password of this connection is being rotated."))
    with errors.translated():
        client = get_client(row.id)
        is_new = bind_attempts.authenticate(row, client, row.pending_bind_password) is not BindResult.WRONG
        is_old = not is_new and bind_attempts.authenticate(row, client, row.bind_password) is not BindResult.WRONG
    if is_new:
        _take_over(row.id, row.pending_bind_password)
    elif is_old:
        _give_up(row.id, row.pending_bind_password)
    else:
        raise errors.Unavailable(message("Neither the old nor the new password of the gateway's account is accepted."))
    row.refresh_from_db()


def _lock(connection_id: UUID, pending: str) -> DirectoryConnection | None:
    """The connection, if this is still the password that is pending and nobody has meddled with the servers."""
    row = DirectoryConnection.objects.select_for_update().filter(pk=connection_id).first()
    is_meant = row is not None and row.pending_bind_password == pending and row.is_bind_password_sealed
    return row if is_meant else None


def _take_over(connection_id: UUID, new: str) -> None:
    """The pending password is the account's now; the old one is tried for a while where it is not known yet."""
    with transaction.atomic():
        if (row := _lock(connection_id, new)) is not None:
            row.previous_bind_password, row.bind_password = row.bind_password, new
            row.pending_bind_password, row.pending_since, row.rotated_at = "", None, shared_clock.now()
            bind_attempts.note_given(row)
            row.save()


def _give_up(connection_id: UUID, new: str) -> None:
    """The directory did not take the pending password."""
    with transaction.atomic():
        if (row := _lock(connection_id, new)) is not None:
            row.pending_bind_password, row.pending_since = "", None
            row.save()
