"""Searches for accounts in a state (docs/api.md#account-states), and for the accounts that services run under.

A filter cannot name computed attributes ([MS-ADTS] 3.1.1.3.1.3.1). Where one decides, the filter narrows the candidates
and `accept` decides. Accounts that nobody signs in with are left out: those of trusts, and krbtgt.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property, partial
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from active_directory import (
    FILETIME_NEVER,
    FILETIME_TICKS_PER_SECOND,
    KEEPS_PASSWORD,
    AccessMask,
    And,
    BitAnd,
    BitOr,
    Client,
    DomainRid,
    Entry,
    Equals,
    Filter,
    GreaterOrEqual,
    LessOrEqual,
    MalformedDescriptor,
    Not,
    Or,
    Present,
    ProtocolError,
    UserAccountControl,
    datetime_to_filetime,
    decode,
    parse_descriptor,
    text_to_sid,
)
from directory.groups import MEMBERSHIP_ATTRIBUTES
from directory.lookup.connection import domain_sid
from directory.lookup.visibility import Visibility
from directory.policies.known_policies import KnownPolicies, fresh_policies, is_age_doubtful
from directory.policies.password_policy import RESULTANT_POLICY, PasswordPolicy, PolicyReader
from directory.queries.searches.definitions import Search
from directory.security.access_control import Principal, find_principals
from directory.shapes.kinds import RESOURCES, Kind
from directory.shapes.record import DirectoryObject

USER_ACCOUNT_CONTROL = "userAccountControl"

ServiceAccountType = Literal["managed", "group-managed", "delegated-managed", "user-with-spn"]
_SERVICE_ACCOUNT_CLASSES: dict[ServiceAccountType, str] = {
    "managed": "msDS-ManagedServiceAccount",
    "group-managed": "msDS-GroupManagedServiceAccount",
    # New in Windows Server 2025: a filter for a class that an older schema lacks matches nothing.
    "delegated-managed": "msDS-DelegatedManagedServiceAccount",
}
_SERVICE_ACCOUNT_FILTERS = {type: Equals("objectClass", name) for type, name in _SERVICE_ACCOUNT_CLASSES.items()}


def _user_accounts(client: Client) -> Filter:
    """Users, without interdomain trust accounts and krbtgt accounts.

    krbtgt has a well-known RID; a read-only domain controller's krbtgt has msDS-SecondaryKrbTgtNumber ([MS-ADA2]).
    """
    return And(
        RESOURCES["users"].condition,
        Not(BitAnd(USER_ACCOUNT_CONTROL, UserAccountControl.INTERDOMAIN_TRUST_ACCOUNT)),
        Not(Equals("objectSid", text_to_sid(f"{domain_sid(client)}-{DomainRid.KRBTGT}"))),
        Not(Present("msDS-SecondaryKrbTgtNumber")),
    )


def _accounts_of_kinds(client: Client, kinds: Collection[Kind]) -> Filter:
    filters: dict[Kind, Filter] = {
        Kind.USER: _user_accounts(client),
        Kind.COMPUTER: RESOURCES["computers"].condition,
        Kind.SERVICE_ACCOUNT: Or(*_SERVICE_ACCOUNT_FILTERS.values()),
    }
    return Or(*(filters[kind] for kind in dict.fromkeys(kinds)))


class Evidence(TypedDict):
    """An attribute that decided about the state. Values have the form they have in `attributes`: RFC 3339, `never`,
    numbers."""

    attribute: str
    value: Annotated[str | None, Field(description="The account's value; null when it has none.")]
    threshold: Annotated[
        str | None, Field(description="The moment, number or bit it was compared with; null when with none.")
    ]


class AccountInState(DirectoryObject):
    """A user, computer or service account, and the evidence that it is in the requested state."""

    evidence: list[Evidence]


class AccountState(StrEnum):
    """A state of accounts. An account may be in several."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    LOCKED_OUT = "locked-out"
    EXPIRED = "expired"
    EXPIRING = "expiring"
    PASSWORD_EXPIRED = "password-expired"  # noqa: S105 - a state's name
    PASSWORD_EXPIRING = "password-expiring"  # noqa: S105 - a state's name
    PASSWORD_NEVER_EXPIRES = "password-never-expires"  # noqa: S105 - a state's name
    PASSWORD_NOT_REQUIRED = "password-not-required"  # noqa: S105 - a state's name
    MUST_CHANGE_PASSWORD = "must-change-password"  # noqa: S105 - a state's name
    INACTIVE = "inactive"
    NEVER_SIGNED_IN = "never-signed-in"


_TICKS_PER_DAY = 86_400 * FILETIME_TICKS_PER_SECOND

_COMPUTED_CONTROL = "msDS-User-Account-Control-Computed"
_PASSWORD_EXPIRY = "msDS-UserPasswordExpiryTimeComputed"  # noqa: S105 - an attribute's name
_PASSWORD_SET = "pwdLastSet"  # noqa: S105 - an attribute's name
_ACCOUNT_EXPIRES = "accountExpires"
_LOCKED_AT = "lockoutTime"
# lastLogonTimestamp is every domain controller's but up to 14 days late: it is written only when the old value is that
# old (less a random 0 to 5 days). lastLogon is exact, but of the domain controller that is asked alone ([MS-ADA1],
# attributes lastLogon and lastLogonTimestamp).
_SIGN_INS = ("lastLogonTimestamp", "lastLogon")
_HAS_SIGNED_IN = Or(*(GreaterOrEqual(name, 1) for name in _SIGN_INS))
_KEEPS_PASSWORD = BitOr(USER_ACCOUNT_CONTROL, KEEPS_PASSWORD)
_PASSWORD_CAN_EXPIRE = And(GreaterOrEqual(_PASSWORD_SET, 1), Not(_KEEPS_PASSWORD))


@dataclass(frozen=True)
class _Reckoning:
    """What states are computed from: FILETIMEs of now and of some days `ahead` and `back`, and the policies."""

    client: Client
    now: int
    ahead: int
    back: int
    policies: PolicyReader

    @cached_property
    def known(self) -> KnownPolicies:
        return fresh_policies(self.client)

    @cached_property
    def has_one_age(self) -> bool:
        """Whether all policies give passwords the same age, so that a filter finds those that expire."""
        policies = self.known.policies or ()
        return len({policy.maximum_age for policy in policies}) == 1 and not is_age_doubtful(policies[0])


_Threshold = Callable[[_Reckoning, Entry], int | None] | int | None


@dataclass(frozen=True, slots=True)
class _State:
    """How to find accounts in a state. `evidence` says with what the value of each deciding attribute is compared.

    `accept` decides by the attributes that `decided_by` names.
    """

    condition: Callable[[_Reckoning], Filter]
    evidence: Mapping[str, _Threshold]
    accept: Callable[[_Reckoning, Entry], bool | None] | None = None
    decided_by: Callable[[_Reckoning], tuple[str, ...]] = lambda _: ()


def _flag_state(bit: UserAccountControl, *, is_set: bool = True) -> _State:
    condition = BitAnd(USER_ACCOUNT_CONTROL, bit) if is_set else Not(BitAnd(USER_ACCOUNT_CONTROL, bit))
    return _State(condition=lambda _: condition, evidence={USER_ACCOUNT_CONTROL: bit.value})


def _is_locked_out(_: _Reckoning, entry: Entry) -> bool | None:
    control = entry.integer(_COMPUTED_CONTROL)
    return None if control is None else bool(control & UserAccountControl.LOCKOUT)


def _lockout_horizon(at: _Reckoning, entry: Entry) -> int | None:
    """The FILETIME before which lock-outs are over; None where they last until somebody unlocks the account."""
    policy = at.policies.of(entry)
    if policy is None or policy.lockout_duration is None:
        return None
    return at.now - _ticks(policy.lockout_duration)


def _expiry_candidates(at: _Reckoning, *, after: int, until: int) -> Filter:
    """Passwords that may expire in this interval, judged by when they were set and by the ages that any policy allows.

    It spares the domain controller from computing the expiry of every password in the domain.
    """
    if at.known.policies is None:  # the gateway's account cannot read every policy
        return _PASSWORD_CAN_EXPIRE
    ages = [_ticks(policy.maximum_age) for policy in at.known.policies if policy.maximum_age is not None]
    # Without any maximum age no password expires, and the empty interval matches nothing.
    set_after, set_until = (after - max(ages), until - min(ages)) if ages else (1, 0)
    return And(
        _PASSWORD_CAN_EXPIRE,
        GreaterOrEqual(_PASSWORD_SET, max(1, set_after)),
        LessOrEqual(_PASSWORD_SET, set_until),
    )


def _expiry_decided_by(at: _Reckoning) -> tuple[str, ...]:
    """What tells whether a candidate's password expires in the interval."""
    if at.has_one_age or at.known.reach is None:
        return ()
    return (*MEMBERSHIP_ATTRIBUTES, USER_ACCOUNT_CONTROL, "sAMAccountName", _PASSWORD_SET)


def _is_expiring(at: _Reckoning, entry: Entry, *, after: int, until: int) -> bool | None:
    """Whether a candidate's password expires in the interval; None where only the domain controller knows.

    With fine-grained policies, Samba takes 2 ms to compute when it expires, so that is read for few.
    """

    def is_within(moment: int) -> bool:
        return moment not in FILETIME_NEVER and after < moment <= until

    if at.has_one_age:
        return True
    if _PASSWORD_EXPIRY in entry:
        return is_within(entry.number(_PASSWORD_EXPIRY))
    reach = at.known.reach
    possible = frozenset[PasswordPolicy]() if reach is None else reach.possible_policies(entry)
    if any(map(is_age_doubtful, possible)):
        return None
    ages = (policy.maximum_age for policy in possible)
    verdicts = {age is not None and is_within(entry.number(_PASSWORD_SET) + _ticks(age)) for age in ages}
    return verdicts.pop() if len(verdicts) == 1 else None


def _ticks(age: timedelta) -> int:
    return age // timedelta(microseconds=1) * 10


_STATES: dict[AccountState, _State] = {
    AccountState.ENABLED: _flag_state(UserAccountControl.ACCOUNTDISABLE, is_set=False),
    AccountState.DISABLED: _flag_state(UserAccountControl.ACCOUNTDISABLE),
    # lockoutTime stays when the policy's duration is over; the computed bit counts both ([MS-ADTS] 3.1.1.4.5.17).
    AccountState.LOCKED_OUT: _State(
        condition=lambda _: GreaterOrEqual(_LOCKED_AT, 1),
        evidence={
            _LOCKED_AT: _lockout_horizon,
            _COMPUTED_CONTROL: UserAccountControl.LOCKOUT.value,
            RESULTANT_POLICY: None,
        },
        accept=_is_locked_out,
    ),
    AccountState.EXPIRED: _State(
        condition=lambda at: And(GreaterOrEqual(_ACCOUNT_EXPIRES, 1), LessOrEqual(_ACCOUNT_EXPIRES, at.now)),
        evidence={_ACCOUNT_EXPIRES: lambda at, _: at.now},
    ),
    AccountState.EXPIRING: _State(
        condition=lambda at: And(GreaterOrEqual(_ACCOUNT_EXPIRES, at.now + 1), LessOrEqual(_ACCOUNT_EXPIRES, at.ahead)),
        evidence={_ACCOUNT_EXPIRES: lambda at, _: at.ahead},
    ),
    AccountState.PASSWORD_EXPIRED: _State(
        condition=lambda at: _expiry_candidates(at, after=0, until=at.now),
        evidence={_PASSWORD_EXPIRY: lambda at, _: at.now, _PASSWORD_SET: None, RESULTANT_POLICY: None},
        accept=lambda at, entry: _is_expiring(at, entry, after=0, until=at.now),
        decided_by=_expiry_decided_by,
    ),
    AccountState.PASSWORD_EXPIRING: _State(
        condition=lambda at: _expiry_candidates(at, after=at.now, until=at.ahead),
        evidence={_PASSWORD_EXPIRY: lambda at, _: at.ahead, _PASSWORD_SET: None, RESULTANT_POLICY: None},
        accept=lambda at, entry: _is_expiring(at, entry, after=at.now, until=at.ahead),
        decided_by=_expiry_decided_by,
    ),
    AccountState.PASSWORD_NEVER_EXPIRES: _flag_state(UserAccountControl.DONT_EXPIRE_PASSWD),
    AccountState.PASSWORD_NOT_REQUIRED: _flag_state(UserAccountControl.PASSWD_NOTREQD),
    # pwdLastSet 0 forces nothing on an account whose password never expires: it signs in ([MS-ADTS] 3.1.1.4.5.33).
    AccountState.MUST_CHANGE_PASSWORD: _State(
        condition=lambda _: And(Equals(_PASSWORD_SET, 0), Not(_KEEPS_PASSWORD)),
        evidence={_PASSWORD_SET: None, USER_ACCOUNT_CONTROL: None},
    ),
    AccountState.INACTIVE: _State(
        # Not `<`: an account may have only one of the two attributes, and the other must not exclude it.
        condition=lambda at: And(_HAS_SIGNED_IN, *(Not(GreaterOrEqual(name, at.back)) for name in _SIGN_INS)),
        evidence=dict.fromkeys(_SIGN_INS, lambda at, _: at.back),
    ),
    AccountState.NEVER_SIGNED_IN: _State(
        condition=lambda _: Not(_HAS_SIGNED_IN),
        evidence=dict.fromkeys(_SIGN_INS),
    ),
}


def search_by_state(client: Client, state: AccountState, *, kinds: Collection[Kind], days: int) -> Search:
    """The search for accounts of these kinds that are in a state now. Its records carry `evidence`.

    `days` is the limit of the states that have one, such as `inactive`.
    """
    wanted = _STATES[state]
    now, ticks, accept = _server_time(client), days * _TICKS_PER_DAY, wanted.accept
    at = _Reckoning(client, now, now + ticks, now - ticks, PolicyReader(client))
    return Search(
        name="accounts",
        kinds=frozenset(kinds),
        condition=And(_accounts_of_kinds(client, kinds), wanted.condition(at)),
        needs=tuple(wanted.evidence),
        accept=partial(accept, at) if accept is not None else None,
        decided_by=wanted.decided_by(at),
        extend=lambda entry, seen: {"evidence": _evidence(wanted, at, entry, seen)},
    )


def _server_time(client: Client) -> int:
    """The domain controller's time as a FILETIME: it wrote the times that are compared, and applies them itself."""
    text = client.read("", ("currentTime",)).text("currentTime") or ""
    try:
        moment = datetime.strptime(text, "%Y%m%d%H%M%S.0Z").replace(tzinfo=UTC)
    except ValueError as error:
        raise ProtocolError("The server's rootDSE has no currentTime", attribute="currentTime") from error
    return datetime_to_filetime(moment)


def _evidence(state: _State, at: _Reckoning, entry: Entry, seen: Entry) -> list[Evidence]:
    shown: list[Evidence] = []
    for name, limit in state.evidence.items():
        attribute = at.client.schema.attribute(name)
        threshold = limit(at, entry) if callable(limit) else limit
        shown.append(
            {
                "attribute": name,
                "value": next(iter(decode(attribute, seen.values(name)[:1])), None),
                "threshold": None if threshold is None else decode(attribute, [str(threshold).encode()])[0],
            }
        )
    return shown


_SPN = "servicePrincipalName"
_HOSTS = "msDS-HostServiceAccountBL"
_PASSWORD_READERS = "msDS-GroupMSAMembership"  # noqa: S105 - an attribute's name
_PASSWORD_INTERVAL = "msDS-ManagedPasswordInterval"  # noqa: S105 - an attribute's name
# A principal with any of these rights may fetch the password ([MS-ADTS] 3.1.1.4.4, msDS-ManagedPassword).
_PASSWORD_READ_RIGHTS = AccessMask.READ_PROPERTY | AccessMask.GENERIC_READ | AccessMask.GENERIC_ALL


class ServiceAccountPart(TypedDict):
    """Further properties of a service account. Lists are empty and the interval is null for types that have none."""

    type: ServiceAccountType
    servicePrincipalNames: list[str]
    hosts: Annotated[
        list[str], Field(description="Distinguished names of the computers a managed account is assigned to.")
    ]
    passwordReaders: Annotated[
        list[Principal],
        Field(description="Who may fetch the password of a group-managed account, and so run services under it."),
    ]
    passwordChangeIntervalDays: Annotated[
        int | None, Field(description="After how many days the directory changes the password by itself.")
    ]


class ServiceAccount(DirectoryObject):
    """An account that a service runs under."""

    serviceAccount: ServiceAccountPart  # noqa: N815 - a TypedDict too, with the members of JSON


def search_by_type(
    client: Client, types: Collection[ServiceAccountType], *, visibility: Visibility | None = None
) -> Search:
    """The search for service accounts of these types. Its records carry `serviceAccount`.

    With a caller's `visibility` the records name only the password readers that the caller may see.
    """
    filters: dict[ServiceAccountType, Filter] = {
        **_SERVICE_ACCOUNT_FILTERS,
        "user-with-spn": And(_user_accounts(client), Present(_SPN)),
    }
    return Search(
        name="service-accounts",
        kinds=frozenset({Kind.USER, Kind.SERVICE_ACCOUNT}),
        condition=Or(*(filters[name] for name in dict.fromkeys(types))),
        needs=(_SPN, _HOSTS, _PASSWORD_READERS, _PASSWORD_INTERVAL),
        extend=lambda _, seen: {"serviceAccount": _service_account_part(seen)},
        complete=partial(_name_readers, client, visibility),
    )


def _name_readers(client: Client, visibility: Visibility | None, records: Sequence[ServiceAccount]) -> None:
    """Fill in the names of the accounts' password readers, with one look-up for all records."""
    readers = [reader for record in records for reader in record["serviceAccount"]["passwordReaders"]]
    principals = find_principals(client, (reader["sid"] for reader in readers), visibility=visibility)
    for reader in readers:
        reader.update(principals[reader["sid"]])


def _service_account_part(entry: Entry) -> ServiceAccountPart:
    classes = {name.lower() for name in entry.object_classes}
    return {
        "type": next(
            (type for type, name in _SERVICE_ACCOUNT_CLASSES.items() if name.lower() in classes), "user-with-spn"
        ),
        "servicePrincipalNames": entry.texts(_SPN),
        "hosts": entry.texts(_HOSTS),
        "passwordReaders": [{"sid": sid, "name": None, "id": None} for sid in dict.fromkeys(_reader_sids(entry))],
        "passwordChangeIntervalDays": entry.integer(_PASSWORD_INTERVAL),
    }


def _reader_sids(entry: Entry) -> Iterator[str]:
    for value in entry.values(_PASSWORD_READERS):
        try:
            descriptor = parse_descriptor(value)
        except MalformedDescriptor:  # the domain controller cannot grant anything by it either
            continue
        for ace in descriptor.dacl.aces if descriptor.dacl else ():
            if ace.allows and ace.applies_here and ace.sid is not None and ace.mask & _PASSWORD_READ_RIGHTS:
                yield ace.sid
