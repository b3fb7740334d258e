"""What stands in the way of a connection, in words for whoever sets it up: what is wrong, and what to do about it.

The words are in the language of whoever asks; programs ask in English.
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from active_directory import (
    BadCredentials,
    DistinguishedName,
    InvalidValue,
    LdapError,
    Obstacle,
    ServerCheck,
    ServerSettings,
    TlsError,
    Unavailable,
    address_of,
    find_obstacle,
    read_certificate,
)


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
    """`says` is what is wrong, `advice` what to do about it; both are whole sentences without their full stop."""

    kind: FaultKind
    says: str
    advice: str


# By the sub-code of a refused bind, a Win32 error code in hexadecimal ([MS-ERREF] 2.2).
_REFUSED_BINDS: Final = {
    "525": (
        gettext_lazy("there is no such account"),
        gettext_lazy("Check the name: a distinguished name, or name@domain"),
    ),
    "52e": (
        gettext_lazy("the name or the password is wrong"),
        gettext_lazy("Check both. A wrong password counts towards the account's lock-out"),
    ),
    "530": (
        gettext_lazy("the account may not sign in at this time"),
        gettext_lazy("Widen its logon hours in Active Directory"),
    ),
    "531": (
        gettext_lazy("the account may not sign in from here"),
        gettext_lazy("Widen its list of workstations in Active Directory"),
    ),
    "532": (
        gettext_lazy("its password has expired"),
        gettext_lazy("Set a new one, and let it not expire: the gateway can rotate it by itself"),
    ),
    "533": (gettext_lazy("the account is disabled"), gettext_lazy("Enable it in Active Directory")),
    "701": (gettext_lazy("the account has expired"), gettext_lazy("Extend it in Active Directory")),
    "773": (
        gettext_lazy("its password must be changed first"),
        gettext_lazy("Set a new one without “must change at next sign-in”"),
    ),
    "775": (gettext_lazy("the account is locked"), gettext_lazy("Unlock it in Active Directory, then try once")),
}
# What `active_directory` says, which speaks English alone: with something in it, and as it is.
_SAID: Final = (
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
_SAID_AS_IT_IS: Final = frozenset(
    {
        gettext_noop("A bind name and a password are needed"),
        gettext_noop("A bind name or password cannot contain such characters"),
        gettext_noop("No domain controller answers in time"),
        gettext_noop("Only ldaps://, or ldap:// with StartTLS, keeps the password from being read on the way"),
        gettext_noop("The certificate of the directory's authority cannot be read"),
        gettext_noop("The directory refuses the bind name or the password"),
        gettext_noop("it does not offer StartTLS"),
        gettext_noop("its certificate has expired"),
        gettext_noop("its certificate is for another address"),
        gettext_noop("its certificate is for another name"),
        gettext_noop("its certificate is not valid yet"),
        gettext_noop("its certificate is self-signed and not among the trusted ones"),
        gettext_noop("its certificate was not issued by a trusted authority"),
    }
)


def fault_of(error: LdapError, url: str, settings: ServerSettings) -> Fault:
    """Why one server could not be used. It may be looked at once more, without a password."""
    host, port = address_of(url)
    if isinstance(error, BadCredentials):
        return _bind_fault(error, settings)
    if isinstance(error, TlsError):
        return Fault(FaultKind.TLS, _said(error), _tls_advice(error.message or "", url, settings))
    if isinstance(error, InvalidValue):
        return Fault(FaultKind.BIND, _said(error), _("Type the name and the password anew"))
    if isinstance(error, Unavailable):
        obstacle = find_obstacle(url, settings.connect_seconds)
        says, advice = _on_the_way(obstacle, port, start_tls=settings.start_tls)
        says = _("{host} cannot be reached: {reason}").format(host=host, reason=says)
        return Fault(FaultKind(obstacle.value), says, advice)
    advice = _("Look into the event log of the domain controller")
    return Fault(FaultKind.OTHER, _said(error) or type(error).__name__, advice)


def _said(error: LdapError) -> str:
    """What the client says of an error, empty when it says nothing."""
    return _in_words(error.message or "")


def _in_words(text: str) -> str:
    for pattern, says in _SAID:
        if found := pattern.fullmatch(text):
            return _(says).format(**{name: _in_words(part) for name, part in found.groupdict().items()})
    return _(text) if text in _SAID_AS_IT_IS else text


def _bind_fault(error: BadCredentials, settings: ServerSettings) -> Fault:
    code = error.sub_code
    known = _REFUSED_BINDS.get(code or "")
    says, advice = known or (_("it does not say why"), _("Check both, and the account's state"))
    message = f"{_said(error) or _('The directory refuses the bind name or the password')}: {says}"
    if "=" not in settings.bind_dn and "@" not in settings.bind_dn and "\\" not in settings.bind_dn:
        advice = _("{name} alone is no name to bind with: write it with its domain, name@domain").format(
            name=settings.bind_dn
        )
    return Fault(FaultKind.BIND, message, str(advice))


def _on_the_way(obstacle: Obstacle, port: int, *, start_tls: bool) -> tuple[str, str]:
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


def base_fault(found: ServerCheck) -> Fault:
    """Why the base of a server that was reached is not there."""
    says = _("{base} does not exist or cannot be read").format(base=found.base_dn)
    contexts = [(name, name.upper()) for name in found.naming_contexts]
    domains = [name for name, upper in contexts if upper.startswith("DC=") and "DNSZONES" not in upper]
    if not any(_is_within(found.base_dn, domain) for domain in domains):
        advice = _("This server's domain is {domain}").format(domain=domains[0]) if domains else _("Name its domain")
    else:
        advice = _("It is in this domain: check how it is spelled, and that the account may list and read it")
    return Fault(FaultKind.BASE, says, advice)


def _is_within(dn: str, base: str) -> bool:
    try:
        return DistinguishedName.parse(dn).is_within(DistinguishedName.parse(base))
    except InvalidValue:
        return False
