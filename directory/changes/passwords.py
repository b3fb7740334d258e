"""Proposals to reset an account's password, and to change it with the current one.

Active Directory accepts these writes over encrypted connections only; `active_directory` opens no others. The replaced
password may remain valid for up to an hour (NTLM accepts the previous one, OldPasswordAllowedPeriod).
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

from active_directory import (
    Entry,
    LdapError,
    Modification,
    Modify,
    UserAccountControl,
    filetime_to_datetime,
    guid_reference,
    quoted_password,
)
from audit.redact import SECRET
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
from directory.policies.known_policies import is_locked_out
from directory.policies.password_policy import (
    RESULTANT_POLICY,
    PasswordPolicy,
    contains_name,
    find_violation,
    generate_first_password,
    generate_password,
    is_exempt,
    policy_of,
)
from directory.shapes.inputs import PasswordReset
from directory.shapes.modifications import Delta
from directory.shapes.proposal import AttributeChange, Proposal

PASSWORD_ATTRIBUTES = ("displayName", "pwdLastSet", "lockoutTime", RESULTANT_POLICY)
"""The attributes besides TARGET_ATTRIBUTES that a proposal to set or change a password needs."""
_NEW_PASSWORD = AttributeChange("unicodePwd", (SECRET,), (SECRET,))
_LOCKED_OUT = message("The account is locked out: its password cannot be changed before it is unlocked, only reset.")
_ACCOUNT_LOCKED_OUT = "00000775"  # [MS-ERREF] 2.2, ERROR_ACCOUNT_LOCKED_OUT


def propose_reset(
    call: Call, *, resource: str, id: UUID, new_password: str | None, must_change: bool, unlock: bool
) -> Proposal:
    """Replace the password, and pwdLastSet and lockoutTime as requested, in one modify.

    With None as `new_password` the gateway generates one, easy to say on the telephone if it must be changed. Password
    history and minimum age do not apply to a reset ([MS-SAMR] 3.1.1.7.1). No old value can guard the modify, so
    If-Match is compared before the write only. Raises PasswordPolicyViolation for a password that the policy certainly
    refuses.
    """
    client = client_of(call)
    schema = client.schema
    entry, protected = find_target(call, resource, id, *PASSWORD_ATTRIBUTES)
    policy = policy_of(client, entry)
    generated = None
    if new_password is None:
        make = generate_first_password if must_change else generate_password
        new_password = generated = make(
            policy, account_name=entry.text("sAMAccountName"), display_name=entry.text("displayName")
        )
    else:
        require_acceptable_password(policy, entry, new_password)
    setting = Modification("replace", "unicodePwd", (quoted_password(new_password),))
    delta = Delta([setting], [_NEW_PASSWORD])
    if must_change:
        change_integer(delta, schema, entry, "pwdLastSet", 0)
        if entry.integer("pwdLastSet") == 0:  # a new password would set it to the current time
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
            *_warnings(policy, entry, None if generated else new_password, locked_out=locked_out),
            *_reset_warnings(entry, must_change=must_change, stays_locked_out=locked_out and not unlock),
        ),
        # Only the password is evidence: its version grows with every write, that of a 0 written over a 0 does not.
        evidence=evidence_of(Modify(target, (setting,)), entry=entry, schema=schema),
        secret=generated,
        explain=partial(explain_password_refusal, policy),
    )


def propose_password_change(call: Call, *, resource: str, id: UUID, current: str, new: str) -> Proposal:
    """Delete the current password and add the new one in one modify; history and minimum age apply.

    A disabled or expired account may change its password, a locked-out one may not. Raises TooManyWrongPasswords,
    RateLimited, and PasswordPolicyViolation for a password that the policy certainly refuses.
    """
    client = client_of(call)
    entry, protected = find_target(call, resource, id, *PASSWORD_ATTRIBUTES)
    locked_out = is_locked_out(client, entry)
    # A wrong current password raises badPwdCount by one (measured on Samba 4.17). Nobody may guess a password this way
    # or lock an account out: the writer counts an attempt before it sends (`directory.policies.password_attempts`), and
    # tries are limited for each account, by default to three in five minutes, under whatever name it was addressed.
    if not locked_out:
        password_attempts.require_attempt_left(client, entry.guid)
    elif not call.dry_run:
        raise errors.DirectoryRejected(_LOCKED_OUT)
    # A dry run tries no password, and an approved change was counted when it was requested.
    if call.directory is not None and call.change_request_id is None and not call.dry_run:
        count_password_change(entry.guid)
    policy = policy_of(client, entry)
    require_acceptable_password(policy, entry, new)
    write = password_change_write(entry, current, new)
    too_early = minimum_age_hint(policy, entry)
    return Proposal(
        target=target_of(entry),
        changes=(_NEW_PASSWORD,),
        write=write,
        answer=lambda: None,
        protected=protected,
        warnings=(
            *_warnings(policy, entry, new, locked_out=locked_out),
            *([too_early] if too_early else []),
        ),
        evidence=evidence_of(write, entry=entry, schema=client.schema),
        explain=partial(explain_password_refusal, policy, hint=too_early),
    )


def password_change_write(entry: Entry, current: str, new: str) -> Modify:
    """The write that changes an account's password, which proves knowledge of the current one by deleting it.

    [MS-ADTS] 3.1.1.3.1.5.1.
    """
    return Modify(
        guid_reference(entry.guid),
        (
            Modification("delete", "unicodePwd", (quoted_password(current),)),
            Modification("add", "unicodePwd", (quoted_password(new),)),
        ),
    )


def require_acceptable_password(
    policy: PasswordPolicy | None, entry: Entry, password: str, *, pointer: str = "#/newPassword"
) -> None:
    """Raise PasswordPolicyViolation for a password that the policy certainly refuses."""
    if policy is None or is_exempt(entry):
        return
    if violation := find_violation(policy, password):
        detail = message("The password does not meet the policy: {violation}.", violation=violation)
        raise errors.PasswordPolicyViolation.naming(detail, pointer=pointer, policy=policy.as_json())


def _warnings(policy: PasswordPolicy | None, entry: Entry, given: str | None, *, locked_out: bool) -> Iterator[str]:
    """Warn of what only the directory can decide."""
    yield message("The password that is replaced may still open the account for up to an hour.")
    if policy is None:
        yield message(
            "The gateway's account may not read the password policy that applies here: the directory decides by it."
        )
    names = {"account_name": entry.text("sAMAccountName"), "display_name": entry.text("displayName")}
    if given is not None and not is_exempt(entry) and contains_name(given, **names):
        yield message("The password contains a part of the account's names, which Windows refuses.")
    if locked_out:
        yield message("The account is locked out.")


def _reset_warnings(entry: Entry, *, must_change: bool, stays_locked_out: bool) -> Iterator[str]:
    control = UserAccountControl(entry.number("userAccountControl"))
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


def minimum_age_hint(policy: PasswordPolicy | None, entry: Entry) -> str | None:
    """A sentence that says until when the minimum age prevents a change, or None."""
    # Where pwdLastSet is 0 the account must change its password, and the minimum age does not apply.
    last = filetime_to_datetime(entry.number("pwdLastSet"))
    if policy is None or last is None or last + policy.minimum_age <= datetime.now(UTC):
        return None
    until = render_timestamp((last + policy.minimum_age + timedelta(seconds=1)).replace(microsecond=0))
    return message(
        "The password was changed less than the minimum age ago and cannot be changed again before {until}.",
        until=until,
    )


def explain_password_refusal(
    policy: PasswordPolicy | None, refusal: GatewayError, *, hint: str | None = None
) -> GatewayError:
    """Restate the directory's refusal of a new password, with the policy that applies to the account."""
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
