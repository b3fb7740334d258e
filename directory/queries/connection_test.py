"""The test of a connection: what each server answers, and what the gateway's own account may do there."""

import re
from dataclasses import replace
from enum import StrEnum
from itertools import chain
from typing import Final, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from typing_extensions import TypedDict

from active_directory import (
    BadCredentials,
    Client,
    DistinguishedName,
    FunctionalLevel,
    InvalidValue,
    LdapError,
    Obstacle,
    ServerCheck,
    ServerSettings,
    TlsError,
    Unavailable,
    address_of,
    check_server,
    find_obstacle,
    read_certificate,
)
from audit import log
from audit.models import Outcome
from core.call import Call
from core.configuration_sections import RateLimit
from core.rate_limits import require_below_limit
from core.shapes import as_record
from core.text.vocabulary import declare_texts, translate_label
from directory.lookup.connection import server_settings
from directory.models import DirectoryConnection
from directory.protection.domain_control import unreadable_access_lists
from directory.queries.bind_attempts import CountedOpener

# By the sub-code of a refused bind, a Win32 error code in hexadecimal ([MS-ERREF] 2.2).
_BIND_REFUSALS: Final = {
    "525": (
        "there is no such account",
        "Check the name: a distinguished name, or name@domain",
    ),
    "52e": (
        "the name or the password is wrong",
        "Check both. A wrong password counts towards the account's lock-out",
    ),
    "530": (
        "the account may not sign in at this time",
        "Widen its logon hours in Active Directory",
    ),
    "531": (
        "the account may not sign in from here",
        "Widen its list of workstations in Active Directory",
    ),
    "532": (
        "its password has expired",
        "Set a new one, and let it not expire: the gateway can rotate it by itself",
    ),
    "533": ("the account is disabled", "Enable it in Active Directory"),
    "701": ("the account has expired", "Extend it in Active Directory"),
    "773": (
        "its password must be changed first",
        "Set a new one without “must change at next sign-in”",
    ),
    "775": ("the account is locked", "Unlock it in Active Directory, then try once"),
}
declare_texts(chain.from_iterable(_BIND_REFUSALS.values()))
# `active_directory` reports errors in English only. These are its texts with variable parts, and those without.
_TRANSLATED_PATTERNS: Final = (
    (
        re.compile(r"(?P<host>\S+) cannot be trusted: (?P<reason>.+)"),
        gettext_noop("{host} cannot be trusted: {reason}"),
    ),
    (
        re.compile(r"The directory refuses the bind name or the password \(data (?P<code>\w+)\)"),
        gettext_noop("The directory refuses the bind name or the password (data {code})"),
    ),
    (re.compile(r"the TLS handshake failed \((?P<cause>.+)\)"), gettext_noop("the TLS handshake failed ({cause})")),
)
declare_texts(
    (
        "A bind name and a password are needed",
        "A bind name or password cannot contain such characters",
        "No domain controller answers in time",
        "Only ldaps://, or ldap:// with StartTLS, keeps the password from being read on the way",
        "The certificate of the directory's authority cannot be read",
        "The directory refuses the bind name or the password",
        "it does not offer StartTLS",
        "its certificate has expired",
        "its certificate is for another address",
        "its certificate is for another name",
        "its certificate is not valid yet",
        "its certificate is self-signed and not among the trusted ones",
        "its certificate was not issued by a trusted authority",
    )
)

_UNREADABLE_ACCESS_LIST: Final = gettext_noop(
    "The access control list of {name} cannot be read: accounts and groups that hold the domain by it are not known, "
    "and so not protected."
)
_TEST_LIMIT = RateLimit(Requests=20, WindowSeconds=60)
"""Tests by one credential: each signs in at every server."""


class FaultKind(StrEnum):
    """Which part of a connection does not work."""

    UNKNOWN_HOST = "unknownHost"
    REFUSED_PORT = "refusedPort"
    SILENT = "silent"
    NO_ROUTE = "noRoute"
    NOT_A_DIRECTORY = "notADirectory"
    TLS = "tls"
    BIND = "bind"
    BASE = "base"
    OTHER = "other"


class Fault(NamedTuple):
    """`problem` is what is wrong, `advice` what to do about it; both are whole sentences without their full stop."""

    kind: FaultKind
    problem: str
    advice: str


class ServerReport(TypedDict):
    """The result of trying one server. `problem` is null when all went well.

    `fault` is the part of the connection that fails, and `advice` what to do about it; both are null where nothing was
    tried.
    """

    url: str
    ok: bool
    server: str | None
    tls: str | None
    problem: str | None
    fault: FaultKind | None
    advice: str | None


class SchemaReport(TypedDict):
    attributes: int
    classes: int


class RightsReport(TypedDict):
    """What the gateway's account may do on the base: classes of objects it may create, attributes it may write."""

    baseReadable: bool
    creatableClasses: list[str]
    writableAttributes: list[str]


class ConnectionReport(TypedDict):
    """The result of a test. Schema, rights and recycle bin are those of the first server that works, or null.

    `warnings` say what the gateway cannot do properly.
    """

    ok: bool
    servers: list[ServerReport]
    namingContexts: list[str]
    functionalLevel: int | None
    schema: SchemaReport | None
    rights: RightsReport | None
    recycleBin: bool | None
    warnings: list[str]


def try_connection_and_record(call: Call, row: DirectoryConnection) -> ConnectionReport:
    """Try a connection and record who tried it, because its password goes to whatever servers it names.

    The record names the servers of a connection that is not saved yet. Raises RateLimited, and as `try_connection`.
    """
    require_below_limit("ConnectionTest", call.credential.unique_id, _TEST_LIMIT)
    report = try_connection(call, row)
    saved = not row._state.adding
    name = row.name if saved else f"{row.name} ({', '.join(row.urls)})"
    log.record_read(
        call,
        operation="directories.test" if saved else "directories.test-new",
        target=log.TargetRef(id=row.pk if saved else None, kind="directories", distinguished_name=name),
        outcome=Outcome.SUCCEEDED if report["ok"] else Outcome.FAILED,
    )
    return report


def try_connection(call: Call, row: DirectoryConnection) -> ConnectionReport:
    """Connect to each server anew, sign in and inspect it; the report says what fails at each server.

    A refused password is not tried on the other servers: the domain counts it, and would lock the account. A password
    that is not known to work counts as the caller's guess: raises TooManyWrongPasswords, RateLimited.
    """
    opener = CountedOpener(row, call)
    everything = server_settings(row)
    servers: list[ServerReport] = []
    reached: ServerCheck | None = None
    refused = False
    warnings: list[str] = []
    for url in everything.urls:
        if not row.is_bind_password_sealed:
            servers.append(_server_report(url, problem=_("Not tried: the bind password was given for other servers")))
            continue
        if refused:
            servers.append(_server_report(url, problem=_("Not tried, as the bind name or password was refused")))
            continue
        client = Client(replace(everything, urls=(url,), pool_size=1), opener)
        try:
            check = check_server(client)
            warnings = warnings or [
                _(_UNREADABLE_ACCESS_LIST).format(name=name) for name in unreadable_access_lists(client)
            ]
        except LdapError as error:
            refused = isinstance(error, BadCredentials)
            servers.append(_server_report(url, fault=fault_of(error, url, everything)))
        else:
            servers.append(_server_report(url, check, fault=None if check.base_readable else base_fault(check)))
            reached = reached or check
        finally:
            client.close()
    return {
        "ok": bool(servers) and all(server["ok"] for server in servers),
        "servers": servers,
        "namingContexts": list(reached.naming_contexts) if reached else [],
        "functionalLevel": reached.functional_level if reached else None,
        "schema": {"attributes": reached.attribute_count, "classes": reached.class_count} if reached else None,
        "rights": as_record(RightsReport, reached) if reached else None,
        "recycleBin": reached.recycle_bin if reached else None,
        "warnings": warnings,
    }


def _server_report(
    url: str, check: ServerCheck | None = None, *, problem: str | None = None, fault: Fault | None = None
) -> ServerReport:
    tls = f"{check.tls_version}, {check.tls_cipher}" if check else None
    return {
        "url": url,
        "ok": problem is None and fault is None,
        "server": check.server if check else None,
        "tls": tls,
        "problem": fault.problem if fault else problem,
        "fault": fault.kind if fault else None,
        "advice": f"{fault.advice.rstrip('.')}." if fault else None,
    }


def functional_level_name(level: int | None) -> str:
    """A functional level with its Windows release, such as `7 (Windows Server 2016)`, where that is known."""
    if level is None:
        return _("unknown")
    try:
        name = FunctionalLevel(level).name.replace("_", " ").replace("WINDOWS", "Windows Server")
    except ValueError:
        return str(level)
    return f"{level} ({name})"


def fault_of(error: LdapError, url: str, settings: ServerSettings) -> Fault:
    """Why one server could not be used. It may be contacted once more to find out, without the password."""
    host, port = address_of(url)
    if isinstance(error, BadCredentials):
        return _bind_fault(error, settings)
    if isinstance(error, TlsError):
        return Fault(FaultKind.TLS, _translated_problem(error), _tls_advice(error.message or "", url, settings))
    if isinstance(error, InvalidValue):
        return Fault(FaultKind.BIND, _translated_problem(error), _("Type the name and the password anew"))
    if isinstance(error, Unavailable):
        obstacle = find_obstacle(url, settings.connect_seconds)
        reason, advice = _network_problem(obstacle, port, start_tls=settings.start_tls)
        problem = _("{host} cannot be reached: {reason}").format(host=host, reason=reason)
        return Fault(FaultKind(obstacle.value), problem, advice)
    advice = _("Look into the event log of the domain controller")
    return Fault(FaultKind.OTHER, _translated_problem(error) or type(error).__name__, advice)


def _translated_problem(error: LdapError) -> str:
    """The client's text of an error in the reader's language; empty when it has none."""
    return _translate(error.message or "")


def _translate(text: str) -> str:
    for pattern, template in _TRANSLATED_PATTERNS:
        if match := pattern.fullmatch(text):
            return _(template).format(**{name: _translate(part) for name, part in match.groupdict().items()})
    return translate_label(text)


def _bind_fault(error: BadCredentials, settings: ServerSettings) -> Fault:
    code = error.sub_code
    known = _BIND_REFUSALS.get(code or "")
    reason, advice = map(_, known) if known else (_("it does not say why"), _("Check both, and the account's state"))
    problem = f"{_translated_problem(error) or _('The directory refuses the bind name or the password')}: {reason}"
    if "=" not in settings.bind_dn and "@" not in settings.bind_dn and "\\" not in settings.bind_dn:
        advice = _("{name} alone is no name to bind with: write it with its domain, name@domain").format(
            name=settings.bind_dn
        )
    return Fault(FaultKind.BIND, problem, advice)


def _network_problem(obstacle: Obstacle, port: int, *, start_tls: bool) -> tuple[str, str]:
    """Why a server cannot be reached, and what to do about it."""
    other = _("389 for ldap:// with StartTLS") if start_tls else _("636 for ldaps://")
    match obstacle:
        case Obstacle.UNKNOWN_HOST:
            return (
                _("no DNS server knows this name"),
                _(
                    "Check how it is spelled. This machine has to know the domain's names: does it ask the domain's "
                    "DNS?"
                ),
            )
        case Obstacle.REFUSED_PORT:
            return (
                _("nothing listens on port {port}").format(port=port),
                _("Usual is {other}. A domain controller offers ldaps:// as soon as it has a certificate").format(
                    other=other
                ),
            )
        case Obstacle.SILENT:
            return (
                _("port {port} does not answer").format(port=port),
                _("A firewall on the way usually drops the packets: open the port"),
            )
        case Obstacle.NO_ROUTE:
            return _("there is no way to it from here"), _("Check the address, and the routes of this machine")
        case Obstacle.NOT_A_DIRECTORY:
            return (
                _("port {port} is open, but what answers there hangs up").format(port=port),
                _("Usual is {other}. A domain controller without a certificate hangs up on ldaps://").format(
                    other=other
                ),
            )


def _tls_advice(message: str, url: str, settings: ServerSettings) -> str:
    certificate = read_certificate(url, settings.connect_seconds)
    if "another name" in message or "another address" in message:
        names = ", ".join(certificate.names[:4]) if certificate else ""
        text = _("Name the server as its certificate does. It is for {names}.")
        return text.format(names=names) if names else _("Name the server as its certificate does.")
    if "authority" in message or "self-signed" in message:
        text = _("Paste the certificate of the authority that issued it under “CA certificate”")
        if certificate:
            text = _("Paste the certificate of the authority that issued it ({issuer}) under “CA certificate”")
            text = text.format(issuer=certificate.issuer)
        return text
    if "expired" in message:
        return _("Renew the domain controller's certificate")
    if "not valid yet" in message:
        return _("Compare the clocks of this machine and the domain controller")
    if "StartTLS" in message:
        return _("Use ldaps://, or give the domain controller a certificate")
    return _(
        "Check the port: ldaps:// is 636. An old domain controller may offer versions of TLS that are refused here"
    )


def base_fault(check: ServerCheck) -> Fault:
    """Why a server that was reached does not have the connection's base."""
    problem = _("{base} does not exist or cannot be read").format(base=check.base_dn)
    contexts = [(name, name.upper()) for name in check.naming_contexts]
    domains = [name for name, upper in contexts if upper.startswith("DC=") and "DNSZONES" not in upper]
    if not any(_is_within(check.base_dn, domain) for domain in domains):
        advice = _("This server's domain is {domain}").format(domain=domains[0]) if domains else _("Name its domain")
    else:
        advice = _("It is in this domain: check how it is spelled, and that the account may list and read it")
    return Fault(FaultKind.BASE, problem, advice)


def _is_within(dn: str, base: str) -> bool:
    try:
        return DistinguishedName.parse(dn).is_within(DistinguishedName.parse(base))
    except InvalidValue:
        return False
