"""Why a user cannot sign in: what the directory says about it, and what each domain controller says by itself.

Each domain controller decides by itself whether a user may sign in ([MS-KILE] 3.3.5.7.1, [MS-NRPC] 3.5.4.5.1). The
report shows what it bases that on.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from typing_extensions import TypedDict

from active_directory import (
    KEEPS_PASSWORD,
    Client,
    DomainRid,
    Entry,
    Equals,
    LdapError,
    Or,
    Scope,
    UserAccountControl,
    filetime_to_datetime,
)
from audit.log_queries import only_changes
from audit.models import OperationRecord, Outcome
from core.call import Call
from core.shapes import Id, Moment, as_record, render_timestamp
from directory.lookup.access import client_of, find_object
from directory.lookup.visibility import may_see_confidential, visibility_of
from directory.policies.password_policy import RESULTANT_POLICY, PasswordPolicy, PasswordPolicyJson, policy_of
from directory.queries.domain_controllers import ServerAnswer, ask_each_server
from directory.shapes.kinds import RESOURCES
from directory.shapes.record import COMPUTED_CONTROL
from directory.shapes.sign_in_hours import WEEKDAYS, AllowedHours, allowed_hours

ObstacleCode = Literal[
    "disabled",
    "expired",
    "lockedOut",
    "lockedOutElsewhere",
    "passwordExpired",
    "mustChangePassword",
    "smartCardRequired",
    "outsideHours",
    "workstations",
]


class Obstacle(TypedDict):
    """Something that keeps a user from signing in: everywhere or, if `everywhere` is false, in some places or ways."""

    code: ObstacleCode
    everywhere: bool


class LockOut(TypedDict):
    """`until` is null for a lock-out that lasts until somebody unlocks the account.

    `untilIsKnown` is false where the gateway's account may not read the policy that limits it.
    """

    since: Moment | None
    until: Moment | None
    untilIsKnown: bool


class PasswordState(TypedDict):
    """`expiresAt` is null for a password that does not expire. `policy` is null where it may not be read."""

    setAt: Moment | None
    expiresAt: Moment | None
    expired: bool
    mustChange: bool
    neverExpires: bool
    policy: PasswordPolicyJson | None


class SeenBy(TypedDict):
    """What one domain controller of the connection knows by itself; `problem` says why it did not answer.

    `badPasswordCount` is the stored number: counting starts over when the policy's window is over, or a sign-in
    succeeds. The primary domain controller (`isPrimary`) also counts the wrong passwords of all others ([MS-ADTS]
    6.1.5.3).
    """

    url: str
    server: str | None
    isPrimary: bool
    problem: str | None
    badPasswordCount: int | None
    lastBadPasswordAt: Moment | None
    lockedOutSince: Moment | None
    lastSignInAt: Moment | None


class Disabling(TypedDict):
    """Who disabled an account through the gateway: the person, their key if they used one, when and why."""

    operationId: Id
    at: Moment
    owner: str
    keyName: str | None
    reason: str | None


class SignInReport(TypedDict):
    """Whether a user can sign in now, and why or why not.

    `lastSignInAt` is the latest known sign-in. `lastSignInIsExact` is true where a domain controller of the connection
    saw it itself; otherwise it replicated from others, 9 to 14 days late ([MS-ADA1], attribute lastLogonTimestamp).
    `serversNotAsked` counts the domain controllers of the domain that the connection does not name. `disabledBy` is
    null for an enabled account, and for one that was disabled elsewhere or longer ago than the log tells. It is for
    callers who may read the log, or enable accounts and so have to know why this one is disabled.
    """

    id: Id
    checkedAt: Moment
    obstacles: list[Obstacle]
    enabled: bool
    disabledBy: Disabling | None
    expiresAt: Moment | None
    lockOut: LockOut | None
    password: PasswordState
    smartCardRequired: bool
    allowedHours: list[AllowedHours] | None
    workstations: list[str]
    lastSignInAt: Moment | None
    lastSignInIsExact: bool
    servers: list[SeenBy]
    serversNotAsked: int


_PASSWORD_EXPIRY = "msDS-UserPasswordExpiryTimeComputed"  # noqa: S105 - an attribute's name
_WORKSTATIONS = "userWorkstations"
_REPLICATED = (
    *("objectGUID", "userAccountControl", COMPUTED_CONTROL, "accountExpires", "lockoutTime", "pwdLastSet"),
    *(_PASSWORD_EXPIRY, RESULTANT_POLICY, "logonHours", _WORKSTATIONS, "lastLogonTimestamp"),
)
# badPwdCount, badPasswordTime and lastLogon are not replicated ([MS-ADA1]); lockoutTime is, a moment later.
_PER_SERVER = ("badPwdCount", "badPasswordTime", "lockoutTime", "lastLogon")
_DOMAIN_CONTROLLERS = (DomainRid.DOMAIN_CONTROLLERS, DomainRid.READONLY_DOMAIN_CONTROLLERS)
_MAX_SERVERS = 500


class _ServerView(NamedTuple):
    """One server's names of itself, and the user as that server knows them."""

    server: str | None
    settings_dn: str | None
    user: Entry


def read_sign_in_report(call: Call, id: UUID) -> SignInReport:
    """The report on one user; raises as `find_object`. A server that does not answer is listed with its `problem`."""
    client = client_of(call)
    entry = _without_confidential(
        call, client, find_object(call, id, kinds=RESOURCES["users"].kinds, attributes=_REPLICATED)
    )
    policy = policy_of(client, entry)
    answers = ask_each_server(client, lambda server: _read_view(server, id))
    now = datetime.now(UTC)
    # fSMORoleOwner names the NTDS settings of the PDC emulator ([MS-ADTS] 6.1.5.3).
    domain = client.find(client.default_naming_context, ("fSMORoleOwner",))
    primary = None if domain is None else domain.text("fSMORoleOwner")
    seen = [_seen_by(answer, primary=primary) for answer in answers]
    lock_out = _lock_out(entry, policy)
    password = _password_state(entry, policy)
    hours = allowed_hours(entry.values("logonHours"))
    last_sign_in, is_exact = _last_sign_in(entry, seen)
    control = _account_control(entry)
    visibility = visibility_of(call)
    report: SignInReport = {
        "id": str(id),
        "checkedAt": render_timestamp(now) or "",
        "obstacles": [],
        "enabled": not control & UserAccountControl.ACCOUNTDISABLE,
        "disabledBy": _find_disabling(call, id) if control & UserAccountControl.ACCOUNTDISABLE else None,
        "expiresAt": _timestamp(entry, "accountExpires"),
        "lockOut": lock_out,
        "password": password,
        "smartCardRequired": bool(control & UserAccountControl.SMARTCARD_REQUIRED),
        "allowedHours": hours,
        "workstations": [name for name in _workstations(entry) if not visibility.hides(_WORKSTATIONS, [name])],
        "lastSignInAt": render_timestamp(last_sign_in),
        "lastSignInIsExact": is_exact,
        "servers": seen,
        "serversNotAsked": _count_not_asked(
            client, [answer.answer.server for answer in answers if answer.answer], seen
        ),
    }
    report["obstacles"] = list(_obstacles(report, entry, policy, now))
    return report


_RECORDS_LOOKED_AT = 200


def _find_disabling(call: Call, id: UUID) -> Disabling | None:
    """The last change of the gateway that disabled the account, if none enabled it since, among its newest records."""
    if not (call.may("audit.read_log") or call.may("directory.enable_account")):
        return None
    assert call.directory is not None
    records = OperationRecord.objects.filter(
        directory_id=call.directory.id, target_id=id, outcome__in=(Outcome.SUCCEEDED, Outcome.UNKNOWN)
    )
    for record in only_changes(records).order_by("-id")[:_RECORDS_LOOKED_AT]:
        for change in record.changes:
            if change["attribute"] != "userAccountControl":
                continue
            was, became = (_is_disabled(change[side]) for side in ("before", "after"))
            if was is became:
                continue
            if became and record.outcome == Outcome.SUCCEEDED:
                return as_record(Disabling, record, operationId=str(record.id))
            return None
    return None


def _is_disabled(values: Sequence[str]) -> bool:
    return any(value.isdecimal() and int(value) & UserAccountControl.ACCOUNTDISABLE for value in values)


def _without_confidential(call: Call, client: Client, entry: Entry) -> Entry:
    """The entry without the attributes that the schema marks confidential, unless the caller may read those."""
    if may_see_confidential(call):
        return entry
    known = {name: client.schema.attribute(name) for name in entry}
    hidden = {name for name, attribute in known.items() if attribute is not None and attribute.is_confidential}
    return entry.with_attributes({name: [] if name in hidden else entry.values(name) for name in entry})


def _read_view(server: Client, id: UUID) -> _ServerView:
    root = server.read("", ("dnsHostName", "dsServiceName"))
    return _ServerView(root.text("dnsHostName"), root.text("dsServiceName"), server.read(id, _PER_SERVER))


def _seen_by(answer: ServerAnswer[_ServerView], *, primary: str | None) -> SeenBy:
    server, settings_dn, user = answer.answer or _ServerView(None, None, Entry("", {}))
    return {
        "url": answer.url,
        "server": server,
        "isPrimary": bool(settings_dn and primary and settings_dn.casefold() == primary.casefold()),
        "problem": answer.problem,
        "badPasswordCount": (user.integer("badPwdCount") or 0) if answer.answer else None,
        "lastBadPasswordAt": _timestamp(user, "badPasswordTime"),
        "lockedOutSince": _timestamp(user, "lockoutTime"),
        "lastSignInAt": _timestamp(user, "lastLogon"),
    }


def _count_not_asked(client: Client, heard: Sequence[str | None], seen: Sequence[SeenBy]) -> int:
    """How many domain controllers of the domain were not asked. Those that did not answer were.

    One of two well-known groups is the primary group of every domain controller ([MS-ADTS] 6.1.1.4.13).
    """
    groups = Or(*(Equals("primaryGroupID", rid) for rid in _DOMAIN_CONTROLLERS))
    try:
        found = client.search(
            client.default_naming_context, Scope.SUBTREE, groups, ("dNSHostName",), limit=_MAX_SERVERS
        )
        names = {(entry.text("dNSHostName") or entry.dn).casefold() for entry in found}
    except LdapError:  # the report is useful without this number
        return 0
    silent = sum(1 for server in seen if server["problem"] is not None)
    return max(0, len(names - {name.casefold() for name in heard if name}) - silent)


def _timestamp(entry: Entry, name: str) -> str | None:
    return render_timestamp(_datetime(entry, name))


def _datetime(entry: Entry, name: str) -> datetime | None:
    """A FILETIME attribute; None for every form of "never"."""
    ticks = entry.integer(name)
    return None if ticks is None else filetime_to_datetime(ticks)


def _account_control(entry: Entry) -> int:
    return entry.integer("userAccountControl") or 0


def _lock_out(entry: Entry, policy: PasswordPolicy | None) -> LockOut | None:
    """The lock-out in force. The domain controller's computed bit decides, as lockoutTime outlasts the lock-out."""
    if not (entry.integer(COMPUTED_CONTROL) or 0) & UserAccountControl.LOCKOUT:
        return None
    since = _datetime(entry, "lockoutTime")
    duration = policy.lockout_duration if policy else None
    return {
        "since": render_timestamp(since),
        "until": render_timestamp(since + duration) if since and duration else None,
        "untilIsKnown": policy is not None,
    }


def _password_state(entry: Entry, policy: PasswordPolicy | None) -> PasswordState:
    keeps = bool(_account_control(entry) & KEEPS_PASSWORD)
    must_change = entry.integer("pwdLastSet") == 0 and not keeps
    expired = bool((entry.integer(COMPUTED_CONTROL) or 0) & UserAccountControl.PASSWORD_EXPIRED)
    return {
        "setAt": _timestamp(entry, "pwdLastSet"),
        "expiresAt": None if must_change else _timestamp(entry, _PASSWORD_EXPIRY),
        "expired": expired and not must_change,
        "mustChange": must_change,
        "neverExpires": bool(_account_control(entry) & UserAccountControl.DONT_EXPIRE_PASSWD),
        "policy": policy.as_json() if policy else None,
    }


def _workstations(entry: Entry) -> list[str]:
    """The computers that the user may sign in at; empty for all computers."""
    return [name.strip() for name in (entry.text(_WORKSTATIONS) or "").split(",") if name.strip()]


def _may_sign_in_at(hours: Sequence[AllowedHours], moment: datetime) -> bool:
    day = WEEKDAYS[moment.isoweekday() % 7]
    return any(item["day"] == day and item["from"] <= moment.hour < item["to"] for item in hours)


def _last_sign_in(entry: Entry, seen: Sequence[SeenBy]) -> tuple[datetime | None, bool]:
    """The latest known sign-in, and whether one of the domain controllers that were asked saw it itself."""
    own = [datetime.fromisoformat(server["lastSignInAt"]) for server in seen if server["lastSignInAt"]]
    shared = _datetime(entry, "lastLogonTimestamp")
    latest = max(own, default=None)
    # For one and the same sign-in lastLogonTimestamp may be a moment later than lastLogon.
    if latest is None or (shared is not None and shared > latest + timedelta(seconds=1)):
        return shared, False
    return latest, True


def _obstacles(report: SignInReport, entry: Entry, policy: PasswordPolicy | None, now: datetime) -> Iterator[Obstacle]:
    expires, hours, password = _datetime(entry, "accountExpires"), report["allowedHours"], report["password"]
    is_locked_elsewhere = report["lockOut"] is None and _is_locked_somewhere(report["servers"], policy, now)
    found: tuple[tuple[bool, ObstacleCode, bool], ...] = (
        (not report["enabled"], "disabled", True),
        (expires is not None and expires <= now, "expired", True),
        (report["lockOut"] is not None, "lockedOut", True),
        (is_locked_elsewhere, "lockedOutElsewhere", False),
        (password["expired"], "passwordExpired", False),
        (password["mustChange"], "mustChangePassword", False),
        (report["smartCardRequired"], "smartCardRequired", False),
        (hours is not None and not _may_sign_in_at(hours, now), "outsideHours", True),
        (bool(_workstations(entry)), "workstations", False),
    )
    yield from (Obstacle(code=code, everywhere=everywhere) for holds, code, everywhere in found if holds)


def _is_locked_somewhere(servers: Sequence[SeenBy], policy: PasswordPolicy | None, now: datetime) -> bool:
    """Whether a server still has the account locked: the lock-out, or the unlocking, has not replicated yet."""
    if policy is None:
        return False
    over = datetime.min.replace(tzinfo=UTC) if policy.lockout_duration is None else now - policy.lockout_duration
    since = (server["lockedOutSince"] for server in servers)
    return any(moment is not None and datetime.fromisoformat(moment) > over for moment in since)
