"""Proposals to set an account's password (a reset) and to change it knowing the present one.

Every connection to a directory is over TLS (`active_directory` opens no other), as Active Directory demands for these
writes. A password that was just replaced may still open the account for an hour: the directory's doing, not ours.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

from active_directory import (
    Client,
    Entry,
    LdapError,
    Modification,
    Modify,
    UserAccountControl,
    filetime_to_datetime,
    guid_reference,
    quoted_password,
)
from core.call import Call
from core.errors import GatewayError
from core.rate_limits import count_password_change
from core.shapes import render_timestamp
from core.text.messages import message
from directory import errors
from directory.changes.targets import find_target, target_of
from directory.changes.update import change_integer
from directory.lookup.access import client_of
from directory.outcomes.evidence import evidence_of
from directory.policies import password_attempts
from directory.policies.known_policies import is_locked_out, policies_lately_known
from directory.policies.password_generator import generate_password
from directory.policies.password_policy import (
    RESULTANT_POLICY,
    PasswordPolicy,
    contains_name,
    find_violation,
    is_exempt,
    policy_of,
)
from directory.shapes.modifications import Delta
from directory.shapes.passwords import PasswordReset
from directory.shapes.proposal import SECRET, AttributeChange, Proposal

_ATTRIBUTES = ("displayName", "pwdLastSet", "lockoutTime")
PASSWORD_ATTRIBUTES = (*_ATTRIBUTES, RESULTANT_POLICY)
"""What an account must have been read with, besides TARGET_ATTRIBUTES, to have its password set or changed."""
_NEW_PASSWORD = AttributeChange("unicodePwd", (SECRET,), (SECRET,))
_LOCKED_OUT = message("The account is locked out: its password cannot be changed before it is unlocked, only reset.")
_ACCOUNT_LOCKED_OUT = "00000775"  # [MS-ERREF] 2.2, ERROR_ACCOUNT_LOCKED_OUT


def propose_reset(
    call: Call, *, resource: str, id: UUID, new_password: str | None, must_change: bool, unlock: bool
) -> Proposal:
    """Replace the password, and pwdLastSet and lockoutTime as asked, in one modify; None lets one be generated.

    Neither the history nor the minimum age holds for a reset ([MS-SAMR] 3.1.1.7.1). There is no old value that could
    guard the modify: If-Match is compared before the write, not by it. Raises PasswordPolicyViolation for what the
    policy certainly refuses.
    """
    client = client_of(call)
    schema = client.schema
    known = policies_lately_known(client)
    # Then it does not matter which one applies, and the domain controller need not find that out.
    is_acceptable = known is not None and new_password is not None and known.accepts(new_password)
    wanted = _ATTRIBUTES if is_acceptable else PASSWORD_ATTRIBUTES
    entry, protected = find_target(call, resource, id, *wanted)
    generated = None
    policy = None
    if new_password is None:
        policy = policy_of(client, entry)
        new_password = generated = generate_password(
            policy, account_name=entry.text("sAMAccountName"), display_name=entry.text("displayName")
        )
    elif not is_acceptable:
        policy = policy_of(client, entry)
        require_acceptable(policy, entry, new_password)
    setting = Modification("replace", "unicodePwd", (quoted_password(new_password),))
    delta = Delta([setting], [_NEW_PASSWORD])
    if must_change:
        change_integer(delta, schema, entry, "pwdLastSet", 0)
        if entry.integer("pwdLastSet") == 0:  # it would become the present time, as with every new password
            delta.modifications.append(Modification("replace", "pwdLastSet", (b"0",)))
    if unlock and entry.integer("lockoutTime"):
        change_integer(delta, schema, entry, "lockoutTime", 0)
    locked_out = is_locked_out(client, entry)
    target = guid_reference(entry.guid)
    answer: PasswordReset = {"generatedPassword": generated}
    return Proposal(
        target=target_of(entry),
        changes=tuple(delta.changes),
        write=Modify(target, tuple(delta.modifications)),
        answer=lambda: answer,
        requires=frozenset({"directory.unlock_account"}) if unlock else frozenset(),
        protected=protected,
        warnings=(
            *_warnings(
                entry,
                None if generated else new_password,
                is_policy_known=is_acceptable or policy is not None,
                locked_out=locked_out,
            ),
            *_warnings_of_reset(entry, must_change=must_change, stays_locked_out=locked_out and not unlock),
        ),
        # The password alone tells: its version grows with every new one, that of a 0 written over a 0 does not.
        evidence=evidence_of(Modify(target, (setting,)), entry=entry, schema=schema),
        secret=generated,
        explain=partial(_explain_reset, client, entry.guid) if is_acceptable else partial(explain_refusal, policy),
    )


def propose_password_change(call: Call, *, resource: str, id: UUID, current: str, new: str) -> Proposal:
    """Delete the present password and add the new one in one modify, as Active Directory has it for a change.

    History and minimum age hold. A wrong present password counts towards the account's lock-out (badPwdCount grows by
    one for each, measured on Samba 4.17), and this must be no way to lock it or to guess: so the writer begins
    a counted attempt (`directory.policies.password_attempts`), and each try is counted for the
    account, however it was named, and over the limit (three in five minutes by default) the directory does not hear
    of it.
    A disabled or expired account may change its password, one that is locked out may not.
    Raises TooManyWrongPasswords, RateLimited, and PasswordPolicyViolation for what the policy certainly refuses.
    """
    client = client_of(call)
    entry, protected = find_target(call, resource, id, *PASSWORD_ATTRIBUTES)
    locked_out = is_locked_out(client, entry)
    if not locked_out:
        password_attempts.require_left(client, entry.guid)
    elif not call.dry_run:
        raise errors.DirectoryRejected(_LOCKED_OUT)
    # A dry run tries nothing, and an approved change was counted when it was asked for.
    if call.directory is not None and call.change_request_id is None and not call.dry_run:
        count_password_change(entry.guid)
    policy = policy_of(client, entry)
    require_acceptable(policy, entry, new)
    write = Modify(
        guid_reference(entry.guid),
        (
            Modification("delete", "unicodePwd", (quoted_password(current),)),
            Modification("add", "unicodePwd", (quoted_password(new),)),
        ),
    )
    too_early = find_minimum_age_hint(policy, entry)
    return Proposal(
        target=target_of(entry),
        changes=(_NEW_PASSWORD,),
        write=write,
        answer=lambda: None,
        protected=protected,
        warnings=(
            *_warnings(entry, new, is_policy_known=policy is not None, locked_out=locked_out),
            *([too_early] if too_early else []),
        ),
        evidence=evidence_of(write, entry=entry, schema=client.schema),
        explain=partial(explain_refusal, policy, hint=too_early),
    )


def require_acceptable(
    policy: PasswordPolicy | None, entry: Entry, password: str, *, pointer: str = "#/newPassword"
) -> None:
    """Raise PasswordPolicyViolation for what the policy certainly refuses; the directory decides about the rest."""
    if policy is None or is_exempt(entry):
        return
    if violation := find_violation(policy, password):
        detail = message("The password does not meet the policy: {violation}.", violation=violation)
        raise errors.PasswordPolicyViolation.naming(detail, pointer=pointer, policy=policy.as_json())


def _warnings(entry: Entry, given: str | None, *, is_policy_known: bool, locked_out: bool) -> Iterator[str]:
    """What the directory may make of it, which only it can tell."""
    yield message("The password that is replaced may still open the account for up to an hour.")
    if not is_policy_known:
        yield message(
            "The gateway's account may not read the password policy that applies here: the directory decides by it."
        )
    names = {"account_name": entry.text("sAMAccountName"), "display_name": entry.text("displayName")}
    if given is not None and not is_exempt(entry) and contains_name(given, **names):
        yield message("The password contains a part of the account's names, which Windows refuses.")
    if locked_out:
        yield message("The account is locked out.")


def _warnings_of_reset(entry: Entry, *, must_change: bool, stays_locked_out: bool) -> Iterator[str]:
    control = UserAccountControl(entry.integer("userAccountControl") or 0)
    if stays_locked_out:
        yield message("A new password does not unlock it.")
    if control & UserAccountControl.ACCOUNTDISABLE:
        yield message("The account is disabled, and a new password does not enable it.")
    if control & UserAccountControl.SMARTCARD_REQUIRED:
        yield message("The account signs in with a smart card; no password opens it.")
    if must_change and control & UserAccountControl.DONT_EXPIRE_PASSWD:
        yield message("The account's password never expires, so nobody will be asked to change it.")
    if not must_change and entry.integer("pwdLastSet") == 0:
        yield message("The password had to be changed at the next sign-in; without mustChange it no longer has to be.")


def find_minimum_age_hint(policy: PasswordPolicy | None, entry: Entry) -> str | None:
    """Until when the minimum age stands in the way of a change, as a sentence. It does not where one is due (0)."""
    last = filetime_to_datetime(entry.integer("pwdLastSet") or 0)
    if policy is None or last is None or last + policy.minimum_age <= datetime.now(UTC):
        return None
    until = render_timestamp((last + policy.minimum_age + timedelta(seconds=1)).replace(microsecond=0))
    return message(
        "The password was changed less than the minimum age ago and cannot be changed again before {until}.",
        until=until,
    )


def _explain_reset(client: Client, account: UUID, refusal: GatewayError) -> GatewayError:
    """`explain_refusal` where the policy that applies was not asked for before."""
    entry = client.find(account, (RESULTANT_POLICY,)) if isinstance(refusal, errors.PasswordPolicyViolation) else None
    return explain_refusal(None if entry is None else policy_of(client, entry), refusal)


def explain_refusal(policy: PasswordPolicy | None, refusal: GatewayError, *, hint: str | None = None) -> GatewayError:
    """What the directory's refusal of a write with a password means for this account, with the policy."""
    if isinstance(refusal, errors.PasswordPolicyViolation):
        title = message("The directory's password policy refuses this password")
        detail = (
            message("{title}. It asks for {requirements}.", title=title, requirements=policy.describe())
            if policy
            else message("{title}.", title=title)
        )
        if hint:
            detail = message("{detail} {hint}", detail=detail, hint=hint)
        return errors.PasswordPolicyViolation(detail, policy=policy.as_json() if policy else None)
    cause = refusal.__cause__
    if isinstance(cause, LdapError) and cause.hex_code == _ACCOUNT_LOCKED_OUT:
        return errors.DirectoryRejected(_LOCKED_OUT, directoryMessage=cause.message)
    return refusal
