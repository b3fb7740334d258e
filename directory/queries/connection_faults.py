"""What stands in the way of a connection, in words for whoever sets it up: what is wrong, and what to do about it."""

from enum import StrEnum
from typing import NamedTuple

from directory.ldap import (
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
    bind_sub_code_of,
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
_REFUSED_BINDS = {
    "525": ("there is no such account", "Check the name: a distinguished name, or name@domain"),
    "52e": ("the name or the password is wrong", "Check both. A wrong password counts towards the account's lock-out"),
    "530": ("the account may not sign in at this time", "Widen its logon hours in Active Directory"),
    "531": ("the account may not sign in from here", "Widen its list of workstations in Active Directory"),
    "532": ("its password has expired", "Set a new one, and let it not expire: the gateway can rotate it by itself"),
    "533": ("the account is disabled", "Enable it in Active Directory"),
    "701": ("the account has expired", "Extend it in Active Directory"),
    "773": ("its password must be changed first", "Set a new one without “must change at next sign-in”"),
    "775": ("the account is locked", "Unlock it in Active Directory, then try once"),
}


def fault_of(error: LdapError, url: str, settings: ServerSettings) -> Fault:
    """Why one server could not be used. It may be looked at once more, without a password."""
    host, port = address_of(url)
    if isinstance(error, BadCredentials):
        return _bind_fault(error, settings)
    if isinstance(error, TlsError):
        return Fault(FaultKind.TLS, error.message or "", _tls_advice(error.message or "", url, settings))
    if isinstance(error, InvalidValue):
        return Fault(FaultKind.BIND, error.message or "", "Type the name and the password anew")
    if isinstance(error, Unavailable):
        obstacle = find_obstacle(url, settings.connect_seconds)
        says, advice = _on_the_way(obstacle, port, start_tls=settings.start_tls)
        return Fault(FaultKind(obstacle.value), f"{host} cannot be reached: {says}", advice)
    advice = "Look into the event log of the domain controller"
    return Fault(FaultKind.OTHER, error.message or type(error).__name__, advice)


def _bind_fault(error: BadCredentials, settings: ServerSettings) -> Fault:
    code = bind_sub_code_of(error)
    says, advice = _REFUSED_BINDS.get(code or "", ("it does not say why", "Check both, and the account's state"))
    message = f"{error.message or 'The directory refuses the bind name or the password'}: {says}"
    if "=" not in settings.bind_dn and "@" not in settings.bind_dn and "\\" not in settings.bind_dn:
        advice = f"{settings.bind_dn} alone is no name to bind with: write it with its domain, name@domain"
    return Fault(FaultKind.BIND, message, advice)


def _on_the_way(obstacle: Obstacle, port: int, *, start_tls: bool) -> tuple[str, str]:
    other = "389 for ldap:// with StartTLS" if start_tls else "636 for ldaps://"
    match obstacle:
        case Obstacle.UNKNOWN_HOST:
            return (
                "no DNS server knows this name",
                "Check how it is spelled. This machine has to know the domain's names: does it ask the domain's DNS?",
            )
        case Obstacle.REFUSED_PORT:
            return (
                f"nothing listens on port {port}",
                f"Usual is {other}. A domain controller offers ldaps:// as soon as it has a certificate",
            )
        case Obstacle.SILENT:
            return f"port {port} does not answer", "A firewall on the way usually drops the packets: open the port"
        case Obstacle.NO_ROUTE:
            return "there is no way to it from here", "Check the address, and the routes of this machine"
        case Obstacle.NOT_A_DIRECTORY:
            return (
                f"port {port} is open, but what answers there hangs up",
                f"Usual is {other}. A domain controller without a certificate hangs up on ldaps://",
            )


def _tls_advice(message: str, url: str, settings: ServerSettings) -> str:
    certificate = read_certificate(url, settings.connect_seconds)
    if "another name" in message or "another address" in message:
        names = f" It is for {', '.join(certificate.names[:4])}." if certificate and certificate.names else ""
        return f"Name the server as its certificate does.{names}"
    if "authority" in message or "self-signed" in message:
        issuer = f" ({certificate.issuer})" if certificate else ""
        return f"Paste the certificate of the authority that issued it{issuer} under “CA certificate”"
    if "expired" in message:
        return "Renew the domain controller's certificate"
    if "not valid yet" in message:
        return "Compare the clocks of this machine and the domain controller"
    if "StartTLS" in message:
        return "Use ldaps://, or give the domain controller a certificate"
    return "Check the port: ldaps:// is 636. An old domain controller may offer versions of TLS that are refused here"


def base_fault(found: ServerCheck) -> Fault:
    """Why the base of a server that was reached is not there."""
    says = f"{found.base_dn} does not exist or cannot be read"
    contexts = [(name, name.upper()) for name in found.naming_contexts]
    domains = [name for name, upper in contexts if upper.startswith("DC=") and "DNSZONES" not in upper]
    if not any(_is_within(found.base_dn, domain) for domain in domains):
        return Fault(FaultKind.BASE, says, f"This server's domain is {domains[0]}" if domains else "Name its domain")
    return Fault(
        FaultKind.BASE, says, "It is in this domain: check how it is spelled, and that the account may list and read it"
    )


def _is_within(dn: str, base: str) -> bool:
    try:
        return DistinguishedName.parse(dn).is_within(DistinguishedName.parse(base))
    except InvalidValue:
        return False
