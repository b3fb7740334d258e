"""The states of accounts in one table (docs/api.md#account-states): what is asked, what decides, what is shown.

A filter cannot name computed attributes ([MS-ADTS] 3.1.1.3.1.3.1). Where one decides, the filter finds candidates, as
few as it can, and `accept` decides. How a search is run is in `search`, what a password policy says in
`password_policy`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property, partial

from active_directory import (
    FILETIME_NEVER,
    FILETIME_TICKS_PER_SECOND,
    KEEPS_PASSWORD,
    And,
    BitAnd,
    BitOr,
    Client,
    Entry,
    Equals,
    Filter,
    GreaterOrEqual,
    LessOrEqual,
    Not,
    Or,
    ProtocolError,
    UserAccountControl,
    datetime_to_filetime,
    decode,
)
from directory.policies.password_policy import RESULTANT_POLICY, PolicyReader, maximum_ages
from directory.queries.account_filters import CONTROL, accounts_of
from directory.queries.searches.definitions import Search
from directory.shapes.evidence import Evidence
from directory.shapes.kinds import Kind


class AccountState(StrEnum):
    """What an account can be looked for by. Several may hold of one account."""

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
_EXPIRES = "accountExpires"
_LOCKED_AT = "lockoutTime"
# lastLogonTimestamp is every domain controller's but up to 14 days late: it is written only when the old value is that
# old (less a random 0 to 5 days). lastLogon is exact, but of the domain controller that is asked alone ([MS-ADA1],
# attributes lastLogon and lastLogonTimestamp).
_SIGN_INS = ("lastLogonTimestamp", "lastLogon")
_HAS_SIGNED_IN = Or(*(GreaterOrEqual(name, 1) for name in _SIGN_INS))
_KEEPS_PASSWORD = BitOr(CONTROL, KEEPS_PASSWORD)
_PASSWORD_CAN_EXPIRE = And(GreaterOrEqual(_PASSWORD_SET, 1), Not(_KEEPS_PASSWORD))


@dataclass(frozen=True)
class AsOf:
    """The moment a state is judged at, as many days ahead of it and back (all FILETIMEs), and the policies then."""

    client: Client
    now: int
    days: int
    policies: PolicyReader

    @property
    def ahead(self) -> int:
        return self.now + self.days * _TICKS_PER_DAY

    @property
    def back(self) -> int:
        return self.now - self.days * _TICKS_PER_DAY

    @cached_property
    def maximum_ages(self) -> tuple[int, ...] | None:
        """How old a password may become, under each policy that sets a limit; None where not all can be read."""
        return maximum_ages(self.client)


_Threshold = Callable[[AsOf, Entry], int | None] | int | None


@dataclass(frozen=True, slots=True)
class _State:
    """How the accounts in a state are found; `evidence` names what tells, and what each was compared with."""

    condition: Callable[[AsOf], Filter]
    evidence: Mapping[str, _Threshold]
    accept: Callable[[AsOf, Entry], bool] | None = None


def _flag(bit: UserAccountControl, *, is_set: bool = True) -> _State:
    condition = BitAnd(CONTROL, bit) if is_set else Not(BitAnd(CONTROL, bit))
    return _State(condition=lambda _: condition, evidence={CONTROL: bit.value})


def _now(at: AsOf, _: Entry) -> int:
    return at.now


def _ahead(at: AsOf, _: Entry) -> int:
    return at.ahead


def _back(at: AsOf, _: Entry) -> int:
    return at.back


def _is_locked_out(_: AsOf, entry: Entry) -> bool:
    return bool((entry.integer(_COMPUTED_CONTROL) or 0) & UserAccountControl.LOCKOUT)


def _lock_outs_over(at: AsOf, entry: Entry) -> int | None:
    """Lock-outs before this moment are over; None when they last until somebody unlocks the account."""
    policy = at.policies.of(entry)
    if policy is None or policy.lockout_duration is None:
        return None
    return at.now - policy.lockout_duration // timedelta(microseconds=1) * 10


def _may_expire(at: AsOf, *, after: int, until: int) -> Filter:
    """What is known of passwords that expire then without asking which policy is whose: they were set in time for it.

    Without it the expiry of every password would have to be computed.
    """
    ages = at.maximum_ages
    if ages is None:
        return _PASSWORD_CAN_EXPIRE
    set_after, set_until = (after - max(ages), until - min(ages)) if ages else (1, 0)
    return And(
        _PASSWORD_CAN_EXPIRE,
        GreaterOrEqual(_PASSWORD_SET, max(1, set_after)),
        LessOrEqual(_PASSWORD_SET, set_until),
    )


def _expires(entry: Entry, *, after: int, until: int) -> bool:
    moment = entry.integer(_PASSWORD_EXPIRY) or 0
    return moment not in FILETIME_NEVER and after < moment <= until


_STATES: dict[AccountState, _State] = {
    AccountState.ENABLED: _flag(UserAccountControl.ACCOUNTDISABLE, is_set=False),
    AccountState.DISABLED: _flag(UserAccountControl.ACCOUNTDISABLE),
    # lockoutTime stays when the policy's duration is over; the computed bit counts both ([MS-ADTS] 3.1.1.4.5.17).
    AccountState.LOCKED_OUT: _State(
        condition=lambda _: GreaterOrEqual(_LOCKED_AT, 1),
        evidence={
            _LOCKED_AT: _lock_outs_over,
            _COMPUTED_CONTROL: UserAccountControl.LOCKOUT.value,
            RESULTANT_POLICY: None,
        },
        accept=_is_locked_out,
    ),
    AccountState.EXPIRED: _State(
        condition=lambda at: And(GreaterOrEqual(_EXPIRES, 1), LessOrEqual(_EXPIRES, at.now)),
        evidence={_EXPIRES: _now},
    ),
    AccountState.EXPIRING: _State(
        condition=lambda at: And(GreaterOrEqual(_EXPIRES, at.now + 1), LessOrEqual(_EXPIRES, at.ahead)),
        evidence={_EXPIRES: _ahead},
    ),
    AccountState.PASSWORD_EXPIRED: _State(
        condition=lambda at: _may_expire(at, after=0, until=at.now),
        evidence={_PASSWORD_EXPIRY: _now, _PASSWORD_SET: None, RESULTANT_POLICY: None},
        accept=lambda at, entry: _expires(entry, after=0, until=at.now),
    ),
    AccountState.PASSWORD_EXPIRING: _State(
        condition=lambda at: _may_expire(at, after=at.now, until=at.ahead),
        evidence={_PASSWORD_EXPIRY: _ahead, _PASSWORD_SET: None, RESULTANT_POLICY: None},
        accept=lambda at, entry: _expires(entry, after=at.now, until=at.ahead),
    ),
    AccountState.PASSWORD_NEVER_EXPIRES: _flag(UserAccountControl.DONT_EXPIRE_PASSWD),
    AccountState.PASSWORD_NOT_REQUIRED: _flag(UserAccountControl.PASSWD_NOTREQD),
    # pwdLastSet 0 forces nothing on an account whose password never expires: it signs in ([MS-ADTS] 3.1.1.4.5.33).
    AccountState.MUST_CHANGE_PASSWORD: _State(
        condition=lambda _: And(Equals(_PASSWORD_SET, 0), Not(_KEEPS_PASSWORD)),
        evidence={_PASSWORD_SET: None, CONTROL: None},
    ),
    AccountState.INACTIVE: _State(
        condition=lambda at: And(_HAS_SIGNED_IN, *(Not(GreaterOrEqual(name, at.back)) for name in _SIGN_INS)),
        evidence=dict.fromkeys(_SIGN_INS, _back),
    ),
    AccountState.NEVER_SIGNED_IN: _State(
        condition=lambda _: Not(_HAS_SIGNED_IN),
        evidence=dict.fromkeys(_SIGN_INS),
    ),
}


def search_for(client: Client, state: AccountState, *, kinds: Collection[Kind], days: int) -> Search:
    """The search for the accounts of these kinds that are in a state now; `days` counts where the state has a limit.

    Its records carry `evidence`.
    """
    wanted = _STATES[state]
    at = AsOf(client, now=_time_of(client), days=days, policies=PolicyReader(client))
    accept = wanted.accept
    return Search(
        name="accounts",
        kinds=frozenset(kinds),
        condition=And(accounts_of(client, kinds), wanted.condition(at)),
        needs=tuple(wanted.evidence),
        accept=None if accept is None else partial(accept, at),
        extend=lambda entry, seen: {"evidence": _evidence(wanted, at, entry, seen)},
    )


def _time_of(client: Client) -> int:
    """The domain controller's own time: it wrote the moments that are compared, and lets people in by its clock."""
    text = client.read("", ("currentTime",)).text("currentTime") or ""
    try:
        moment = datetime.strptime(text, "%Y%m%d%H%M%S.0Z").replace(tzinfo=UTC)
    except ValueError as error:
        raise ProtocolError("The server's rootDSE has no currentTime", attribute="currentTime") from error
    return datetime_to_filetime(moment)


def _evidence(state: _State, at: AsOf, entry: Entry, seen: Entry) -> list[Evidence]:
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
