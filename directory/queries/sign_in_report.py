"""Why a user cannot sign in: everything the directory says about it, from one look, with each domain controller's part.

Whether a domain controller lets somebody in is its own decision ([MS-KILE] 3.3.5.7.1, [MS-NRPC] 3.5.4.5.1); this tells
what it decides by.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

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
from core.call import Call
from core.shapes import render_timestamp
from directory.lookup.access import client_of, find_object
from directory.lookup.visibility import may_see_confidential, visibility_of
from directory.policies.password_policy import RESULTANT_POLICY, PasswordPolicy, policy_of
from directory.queries.domain_controllers import ServerAnswer, ask_each
from directory.queries.sign_in_shapes import (
    WEEKDAYS,
    AllowedHours,
    LockOut,
    Obstacle,
    ObstacleCode,
    PasswordState,
    SeenBy,
    SignInReport,
)
from directory.shapes.kinds import RESOURCES
from directory.shapes.record import COMPUTED_CONTROL

_PASSWORD_EXPIRY = "msDS-UserPasswordExpiryTimeComputed"  # noqa: S105 - an attribute's name
_WORKSTATIONS = "userWorkstations"
_SHARED = (
    *("objectGUID", "userAccountControl", COMPUTED_CONTROL, "accountExpires", "lockoutTime", "pwdLastSet"),
    *(_PASSWORD_EXPIRY, RESULTANT_POLICY, "logonHours", _WORKSTATIONS, "lastLogonTimestamp"),
)
# badPwdCount, badPasswordTime and lastLogon are not replicated ([MS-ADA1]); lockoutTime is, a moment later.
_OWN = ("badPwdCount", "badPasswordTime", "lockoutTime", "lastLogon")
_HOURS = 24
_MOST_SERVERS = 500


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one server says: itself, and the user as it knows them."""

    server: str | None
    settings_dn: str | None
    user: Entry


def read_sign_in_report(call: Call, id: UUID) -> SignInReport:
    """The report on one user; raises as `find_object`. Servers that do not answer are in it as such."""
    client = client_of(call)
    entry = _readable(call, client, find_object(call, id, kinds=RESOURCES["users"].kinds, attributes=_SHARED))
    policy = policy_of(client, entry)
    answers = ask_each(client, lambda server: _look_at(server, id))
    now = datetime.now(UTC)
    seen = _seen_by(answers, primary=_primary_settings(client))
    lock_out = _lock_out(entry, policy)
    password = _password(entry, policy)
    hours = _allowed_hours(entry)
    last_sign_in, is_exact = _last_sign_in(entry, seen)
    control = _control(entry)
    visibility = visibility_of(call)
    report: SignInReport = {
        "id": str(id),
        "checkedAt": render_timestamp(now) or "",
        "obstacles": [],
        "enabled": not control & UserAccountControl.ACCOUNTDISABLE,
        "expiresAt": _moment(entry, "accountExpires"),
        "lockOut": lock_out,
        "password": password,
        "smartCardRequired": bool(control & UserAccountControl.SMARTCARD_REQUIRED),
        "allowedHours": hours,
        "workstations": [name for name in _workstations(entry) if not visibility.hides(_WORKSTATIONS, [name])],
        "lastSignInAt": render_timestamp(last_sign_in),
        "lastSignInIsExact": is_exact,
        "servers": seen,
        "serversNotAsked": _count_not_asked(client, [answer.told.server for answer in answers if answer.told], seen),
    }
    report["obstacles"] = list(_obstacles(report, entry, policy, now))
    return report


def _readable(call: Call, client: Client, entry: Entry) -> Entry:
    """The entry without the attributes that the schema marks confidential, unless the caller may read such."""
    if may_see_confidential(call):
        return entry
    schema = client.schema
    hidden = {name for name in entry if (known := schema.attribute(name)) is not None and known.confidential}
    return entry.with_attributes({name: [] if name in hidden else entry.values(name) for name in entry})


def _look_at(server: Client, id: UUID) -> _Seen:
    root = server.read("", ("dnsHostName", "dsServiceName"))
    return _Seen(root.text("dnsHostName"), root.text("dsServiceName"), server.read(id, _OWN))


def _primary_settings(client: Client) -> str | None:
    """The NTDS settings of the server that plays the primary domain controller ([MS-ADTS] 6.1.5.3); None: unknown."""
    domain = client.find(client.default_naming_context, ("fSMORoleOwner",))
    return None if domain is None else domain.text("fSMORoleOwner")


def _seen_by(answers: Sequence[ServerAnswer[_Seen]], *, primary: str | None) -> list[SeenBy]:
    shown: list[SeenBy] = []
    for answer in answers:
        told = answer.told
        user = told.user if told else Entry("", {})
        settings_dn = told.settings_dn if told else None
        shown.append(
            {
                "url": answer.url,
                "server": told.server if told else None,
                "isPrimary": bool(settings_dn and primary and settings_dn.casefold() == primary.casefold()),
                "problem": answer.problem,
                "badPasswordCount": (user.integer("badPwdCount") or 0) if told else None,
                "lastBadPasswordAt": _moment(user, "badPasswordTime"),
                "lockedOutSince": _moment(user, "lockoutTime"),
                "lastSignInAt": _moment(user, "lastLogon"),
            }
        )
    return shown


def _count_not_asked(client: Client, heard: Sequence[str | None], seen: Sequence[SeenBy]) -> int:
    """How many domain controllers there are besides those asked; those that did not answer were asked.

    They are the members of two well-known groups, which is each one's primary group ([MS-ADTS] 6.1.1.4.13).
    """
    groups = Or(
        *(
            Equals("primaryGroupID", rid)
            for rid in (DomainRid.DOMAIN_CONTROLLERS, DomainRid.READONLY_DOMAIN_CONTROLLERS)
        )
    )
    try:
        found = client.search(
            client.default_naming_context, Scope.SUBTREE, groups, ("dNSHostName",), limit=_MOST_SERVERS
        )
        names = {(entry.text("dNSHostName") or entry.dn).casefold() for entry in found}
    except LdapError:  # the report does not depend on it
        return 0
    silent = sum(1 for server in seen if server["problem"] is not None)
    return max(0, len(names - {name.casefold() for name in heard if name}) - silent)


def _moment(entry: Entry, name: str) -> str | None:
    return render_timestamp(_time(entry, name))


def _time(entry: Entry, name: str) -> datetime | None:
    """A FILETIME; None for never, however it is spelled."""
    ticks = entry.integer(name)
    return None if ticks is None else filetime_to_datetime(ticks)


def _control(entry: Entry) -> int:
    return entry.integer("userAccountControl") or 0


def _lock_out(entry: Entry, policy: PasswordPolicy | None) -> LockOut | None:
    """The lock-out that holds by the domain controller's own reckoning; lockoutTime stays when it is over."""
    if not (entry.integer(COMPUTED_CONTROL) or 0) & UserAccountControl.LOCKOUT:
        return None
    since = _time(entry, "lockoutTime")
    duration = policy.lockout_duration if policy else None
    return {
        "since": render_timestamp(since),
        "until": render_timestamp(since + duration) if since and duration else None,
        "untilIsKnown": policy is not None,
    }


def _password(entry: Entry, policy: PasswordPolicy | None) -> PasswordState:
    keeps = bool(_control(entry) & KEEPS_PASSWORD)
    must_change = entry.integer("pwdLastSet") == 0 and not keeps
    expired = bool((entry.integer(COMPUTED_CONTROL) or 0) & UserAccountControl.PASSWORD_EXPIRED)
    return {
        "setAt": _moment(entry, "pwdLastSet"),
        "expiresAt": None if must_change else _moment(entry, _PASSWORD_EXPIRY),
        "expired": expired and not must_change,
        "mustChange": must_change,
        "neverExpires": bool(_control(entry) & UserAccountControl.DONT_EXPIRE_PASSWD),
        "policy": policy.as_json() if policy else None,
    }


def _allowed_hours(entry: Entry) -> list[AllowedHours] | None:
    """The hours of the week in which the user may sign in; None: all of them.

    logonHours has a bit for each hour, the lowest of the first octet for the first of Sunday, UTC ([MS-SAMR] 2.2.6.5).
    """
    values = entry.values("logonHours")
    if not values or len(values[0]) != 7 * _HOURS // 8:
        return None
    bits = int.from_bytes(values[0], "little")
    if bits == (1 << 7 * _HOURS) - 1:
        return None
    return [
        {"day": name, "from": start, "to": end}
        for day, name in enumerate(WEEKDAYS)
        for start, end in _stretches(bits >> day * _HOURS)
    ]


def _stretches(bits: int) -> Iterator[tuple[int, int]]:
    """From which hour to which the bits of one day are set without a gap."""
    start = None
    for hour in range(_HOURS + 1):
        is_set = hour < _HOURS and bool(bits >> hour & 1)
        if is_set and start is None:
            start = hour
        elif not is_set and start is not None:
            yield start, hour
            start = None


def _workstations(entry: Entry) -> list[str]:
    """The computers that the user may sign in at; none for all of them."""
    return [name.strip() for name in (entry.text(_WORKSTATIONS) or "").split(",") if name.strip()]


def _may_sign_in_at(hours: Sequence[AllowedHours], moment: datetime) -> bool:
    day = WEEKDAYS[moment.isoweekday() % 7]
    return any(item["day"] == day and item["from"] <= moment.hour < item["to"] for item in hours)


def _last_sign_in(entry: Entry, seen: Sequence[SeenBy]) -> tuple[datetime | None, bool]:
    """The latest sign-in that is known, and whether a domain controller that was asked saw it itself."""
    own = [datetime.fromisoformat(server["lastSignInAt"]) for server in seen if server["lastSignInAt"]]
    shared = _time(entry, "lastLogonTimestamp")
    latest = max(own, default=None)
    if latest is None or (shared is not None and shared > latest + timedelta(seconds=1)):
        return shared, False
    return latest, True


def _obstacles(report: SignInReport, entry: Entry, policy: PasswordPolicy | None, now: datetime) -> Iterator[Obstacle]:
    expires, hours, password = _time(entry, "accountExpires"), report["allowedHours"], report["password"]
    found: tuple[tuple[bool, ObstacleCode, bool], ...] = (
        (not report["enabled"], "disabled", True),
        (expires is not None and expires <= now, "expired", True),
        (report["lockOut"] is not None, "lockedOut", True),
        (
            report["lockOut"] is None and _is_locked_somewhere(report["servers"], policy, now),
            "lockedOutElsewhere",
            False,
        ),
        (password["expired"], "passwordExpired", False),
        (password["mustChange"], "mustChangePassword", False),
        (report["smartCardRequired"], "smartCardRequired", False),
        (hours is not None and not _may_sign_in_at(hours, now), "outsideHours", True),
        (bool(_workstations(entry)), "workstations", False),
    )
    yield from (Obstacle(code=code, everywhere=everywhere) for holds, code, everywhere in found if holds)


def _is_locked_somewhere(servers: Sequence[SeenBy], policy: PasswordPolicy | None, now: datetime) -> bool:
    """Whether a server has locked the account and the others have not heard of it, or of the unlocking."""
    if policy is None:
        return False
    over = datetime.min.replace(tzinfo=UTC) if policy.lockout_duration is None else now - policy.lockout_duration
    since = (server["lockedOutSince"] for server in servers)
    return any(moment is not None and datetime.fromisoformat(moment) > over for moment in since)
