"""Rotation of the bind password: the gateway changes its own account's password to one that nobody knows.

A kill at any moment loses nothing. The new password is stored as pending before the directory gets it; by then every
process knows it and tries it when the old one is refused; and the next rotation or a sweep finds out which of the two
the account has. The change proves the old password, so it cannot hit any account but the bind account.
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
    Or,
)
from audit import log
from audit.redact import SECRET
from core.call import Call, DirectoryRef
from core.database import shared_clock
from core.errors import Conflict, GatewayError
from core.text.messages import message
from directory import errors
from directory.changes.passwords import (
    PASSWORD_ATTRIBUTES,
    explain_password_refusal,
    minimum_age_hint,
    password_change_write,
)
from directory.changes.targets import TARGET_ATTRIBUTES
from directory.lookup.connection import PREVIOUS_PASSWORD_LIFE, REVISION_SECONDS, get_client
from directory.models import DirectoryConnection
from directory.outcomes import writer
from directory.outcomes.evidence import evidence_of
from directory.outcomes.writer import RecordedWrite
from directory.policies.password_policy import generate_password, policy_of
from directory.queries import bind_attempts
from directory.shapes.kinds import kind_of_entry

PASSWORD_LENGTH: Final = 64
"""64 characters from an alphabet of 68 are 389 bits."""
_ATTRIBUTES: Final = (*TARGET_ATTRIBUTES, *PASSWORD_ATTRIBUTES)
INTERRUPTED_AFTER: Final = timedelta(seconds=90)
"""A rotation never takes longer: a password pending after that was left by a killed process."""

_logger = structlog.stdlib.get_logger(__name__)


def rotate(call: Call, row: DirectoryConnection) -> None:
    """Change the password of a connection's bind account, in the directory and in the connection.

    Raises Conflict during another rotation and if the stored password is not for these servers, ObjectNotFound if the
    bind name does not identify one account, PasswordPolicyViolation before the minimum age is over, OutcomeUnknown if
    the directory gave no answer: the outcome is then found out later.
    """
    if not row.is_bind_password_sealed:
        raise Conflict(message("The bind password was given for other servers or another name: give it anew first."))
    if row.pending_since is not None:
        _settle_rotation(row)
    with errors.translate_ldap_errors():
        client = get_client(row.id)
        entry = _find_own_account(client, row.bind_dn)
        policy = policy_of(client, entry)
    new = generate_password(
        policy,
        account_name=entry.text("sAMAccountName"),
        display_name=entry.text("displayName"),
        shortest=PASSWORD_LENGTH,
    )
    if not _begin_rotation(row, new):
        raise Conflict(message("The connection is being changed, or its password rotated, by somebody else."))
    sleep(REVISION_SECONDS + 0.5)  # by then every process has noticed the revision and knows the pending password

    write = password_change_write(entry, row.bind_password, new)
    client = get_client(row.id)
    call = replace(call, directory=DirectoryRef(id=row.id, name=row.name, client_id=row.client_id))
    intent = log.Intent(
        operation="directories.rotate-password",
        target=log.TargetRef(id=entry.guid, kind=str(kind_of_entry(entry)), distinguished_name=entry.dn),
        changes=[{"attribute": "unicodePwd", "before": [SECRET], "after": [SECRET]}],
        evidence=evidence_of(write, entry=entry, schema=client.schema),
    )
    try:
        record = log.record_intent(call, intent)
    except GatewayError:
        _end_rotation(row.id, new, is_taken=False)
        raise
    result = writer.write(client, RecordedWrite(record=record, write=write, is_password_known=True))
    if result.refusal is None:
        _end_rotation(row.id, new, is_taken=True)
    writer.close([result])
    if result.refusal is None:
        return
    if isinstance(result.refusal, errors.OutcomeUnknown):  # a sweep will settle the pending password and the record
        raise result.refusal
    _end_rotation(row.id, new, is_taken=False)
    hint = minimum_age_hint(policy, entry)
    raise explain_password_refusal(policy, result.refusal, hint=hint) from result.refusal.__cause__


def settle_interrupted_rotations() -> None:
    """Settle the rotations of killed processes, and delete previous passwords that no server accepts any more."""
    now = shared_clock.now()
    for row in DirectoryConnection.objects.filter(pending_since__lt=now - INTERRUPTED_AFTER):
        try:
            _settle_rotation(row)
        except (GatewayError, LdapError) as error:
            _logger.info("rotation cannot be settled yet", connection=str(row.id), reason=type(error).__name__)
    for row in DirectoryConnection.objects.filter(rotated_at__lt=now - PREVIOUS_PASSWORD_LIFE):
        if row.previous_bind_password:
            same = DirectoryConnection.objects.filter(pk=row.pk, rotated_at=row.rotated_at)
            same.update(previous_bind_password="")


def _find_own_account(client: Client, bind_name: str) -> Entry:
    """The bind account by its distinguished name, userPrincipalName, or sAMAccountName with the domain.

    Raises ObjectNotFound.
    """
    try:
        found = client.find(str(DistinguishedName.parse(bind_name)), _ATTRIBUTES)
    except InvalidValue:
        account = bind_name.rpartition("\\")[2].partition("@")[0]
        wanted = Or(Equals("userPrincipalName", bind_name), Equals("sAMAccountName", account))
        entries = list(client.search_domain(wanted, _ATTRIBUTES))
        found = entries[0] if len(entries) == 1 else None
    if found is None:
        raise errors.ObjectNotFound(message("The gateway's own account cannot be found by its bind name."))
    return found


def _begin_rotation(row: DirectoryConnection, new: str) -> bool:
    """Store the pending password and return whether that succeeded: not if the connection changed or is being rotated.

    The new revision makes every process load it.
    """
    untouched = DirectoryConnection.objects.filter(pk=row.pk, revision=row.revision, pending_since=None)
    return bool(
        untouched.update(pending_bind_password=new, pending_since=shared_clock.now(), revision=F("revision") + 1)
    )


def _settle_rotation(row: DirectoryConnection) -> None:
    """Find out which password the account has after an interrupted rotation. Raises Conflict for one under way."""
    if row.pending_since is None or shared_clock.now() - row.pending_since < INTERRUPTED_AFTER:
        raise Conflict(message("The password of this connection is being rotated."))
    with errors.translate_ldap_errors():
        client = get_client(row.id)
        is_new = bind_attempts.authenticate(row, client, row.pending_bind_password) is not BindResult.WRONG
        is_old = not is_new and bind_attempts.authenticate(row, client, row.bind_password) is not BindResult.WRONG
    if not is_new and not is_old:
        raise errors.Unavailable(message("Neither the old nor the new password of the gateway's account is accepted."))
    _end_rotation(row.id, row.pending_bind_password, is_taken=is_new)
    row.refresh_from_db()


def _end_rotation(connection_id: UUID, pending: str, *, is_taken: bool) -> None:
    """Make the pending password the connection's if the directory has taken it, or discard it.

    The old password stays as the previous one for a while, for domain controllers to which the change has not
    replicated. Does nothing if another password is pending by now, or the password is no longer sealed to the servers.
    """
    with transaction.atomic():  # with the row locked, for a person may be saving the connection
        row = DirectoryConnection.objects.select_for_update().filter(pk=connection_id).first()
        if row is None or row.pending_bind_password != pending or not row.is_bind_password_sealed:
            return
        row.pending_bind_password, row.pending_since = "", None
        if is_taken:
            row.previous_bind_password, row.bind_password = row.bind_password, pending
            row.rotated_at = shared_clock.now()
            bind_attempts.note_password_set(row)
        row.save()
