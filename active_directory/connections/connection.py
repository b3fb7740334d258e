"""One authenticated connection to one server: opening it in bounded time, and saying why TLS failed.

Which server, and when, is the pool's decision.
"""

import contextlib
import os
import select
import socket
import ssl
import struct
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import ldap
import ldap.ldapobject

from active_directory.connections.settings import ServerSettings
from active_directory.errors import BadCredentials, InvalidValue, TlsError, Unavailable, bind_sub_code, error_from

LdapObject = Any  # python-ldap's SimpleLDAPObject, which has no type hints; tests of Windows' ways pass a fake

_START_TLS_REQUEST = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037"  # RFC 4511 4.14.1
_START_TLS_SUCCESS = b"\x0a\x01\x00"
_PORTS = {"ldap": 389, "ldaps": 636}
_FORGET, _LINGER = struct.pack("@ii", 1, 0), struct.pack("@ii", 0, 0)
"""What becomes of what was not sent when a socket is closed, by whatever: socket(7), SO_LINGER."""

# OpenSSL's X509_V_ERR_* codes that an administrator can do something about.
_CERTIFICATE_COMPLAINTS = {
    9: "its certificate is not valid yet",
    10: "its certificate has expired",
    18: "its certificate is self-signed and not among the trusted ones",
    19: "its certificate was not issued by a trusted authority",
    20: "its certificate was not issued by a trusted authority",
    21: "its certificate was not issued by a trusted authority",
    62: "its certificate is for another name",
    64: "its certificate is for another address",
}


@dataclass(eq=False)
class Connection:
    """An open connection. One thread uses it at a time."""

    ldap: LdapObject = field(repr=False)
    url: str
    descriptor: int
    last_used: float = field(default_factory=time.monotonic)
    abandoned: bool = False  # a search was given up: the rest of its answer may still come in

    def __post_init__(self) -> None:
        self._poll = select.poll()
        self._poll.register(self.descriptor, select.POLLIN)

    @property
    def server(self) -> str:
        """The host, for logs."""
        return host_of(self.url)

    def has_unexpected_input(self) -> bool:
        """Whether something arrived although nothing was asked: the server has closed, or is about to."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        """Say goodbye; the connection is gone whatever happens."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.descriptor)) as shared:
            shared.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        self._unbind()

    def abort(self) -> None:
        """Close without a goodbye, for which a broken connection would only wait; what was not sent never will be."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.descriptor)) as shared:
            shared.shutdown(socket.SHUT_RDWR)
        self._unbind()

    def _unbind(self) -> None:
        with contextlib.suppress(ldap.LDAPError):  # it may be broken already
            self.ldap.unbind_ext_s()

    def detach(self) -> None:
        """In a forked child: let go of the parent's connection without a word on its socket."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, self.descriptor)
        os.close(nowhere)


def address_of(url: str) -> tuple[str, int]:
    """The host and the port in an LDAP URL."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORTS.get(parts.scheme, _PORTS["ldaps"])


def host_of(url: str) -> str:
    """The host in an LDAP URL."""
    return address_of(url)[0]


def open_connection(url: str, settings: ServerSettings, seconds: float) -> Connection:
    """Connect and sign in as the gateway.

    Raises ``BadCredentials``, ``TlsError`` with the reason, or ``Unavailable``.
    """
    deadline = time.monotonic() + seconds
    try:
        return sign_in(url, settings, seconds, settings.bind_dn, settings.bind_password)
    except BadCredentials as refused:
        if not settings.other_passwords or not refused.is_wrong_password:
            raise
        for password in settings.other_passwords:
            with contextlib.suppress(BadCredentials):
                left = max(0.1, deadline - time.monotonic())
                return sign_in(url, settings, left, settings.bind_dn, password)
        raise


def sign_in(url: str, settings: ServerSettings, seconds: float, bind_name: str, password: str) -> Connection:
    """Connect and bind with any credentials; an empty password is refused, as AD takes it for an anonymous bind."""
    if not bind_name or not password:
        raise BadCredentials("A bind name and a password are needed")
    deadline = time.monotonic() + seconds
    connection = _prepare(url, settings, seconds)
    try:
        if settings.start_tls and urlsplit(url).scheme == "ldap":
            connection.start_tls_s()
        message = connection.simple_bind(bind_name, password)
        connection.result3(message, timeout=max(0.1, deadline - time.monotonic()))
    except ldap.INVALID_CREDENTIALS as error:
        _discard(connection)
        code = bind_sub_code(error)
        shown = f" (data {code})" if code else ""
        raise BadCredentials(f"The directory refuses the bind name or the password{shown}", result_code=49) from error
    except (ldap.SERVER_DOWN, ldap.CONNECT_ERROR, ldap.PROTOCOL_ERROR) as error:
        _discard(connection)
        reason = None if time.monotonic() >= deadline else _tls_complaint(url, settings, seconds)
        if reason is not None:
            raise TlsError(f"{host_of(url)} cannot be trusted: {reason}") from error
        raise Unavailable(f"{host_of(url)} cannot be reached") from error
    except ldap.LDAPError as error:
        failure = error_from(error)
        if isinstance(failure, Unavailable):
            failure.may_have_bound = bool(connection.get_option(ldap.OPT_X_TLS_VERSION))
        _discard(connection)
        raise failure from error
    except (TypeError, ValueError) as error:  # NUL or a lone surrogate in the name or the password
        _discard(connection)
        raise InvalidValue("A bind name or password cannot contain such characters") from error
    descriptor = connection.fileno()
    _bound(descriptor, settings.operation_seconds)
    return Connection(connection, url, descriptor)


def _prepare(url: str, settings: ServerSettings, seconds: float) -> LdapObject:
    scheme = urlsplit(url).scheme
    if scheme not in _PORTS or (scheme == "ldap" and not settings.start_tls):
        raise TlsError("Only ldaps://, or ldap:// with StartTLS, keeps the password from being read on the way")
    connection = ldap.initialize(url)
    connection.protocol_version = ldap.VERSION3
    connection.set_option(ldap.OPT_REFERRALS, 0)
    # libldap takes a part of a second for "no limit".
    connection.set_option(ldap.OPT_NETWORK_TIMEOUT, max(1.0, seconds))
    connection.set_option(ldap.OPT_TIMEOUT, max(1.0, seconds))
    # Without this libldap waits for ever for a server that accepts the connection and is silent in the TLS handshake;
    # the time-out above covers it only where sockets do not block.
    connection.set_option(ldap.OPT_CONNECT_ASYNC, 1)
    connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
    try:
        _trust(connection, settings.ca_certificate)
    except (ldap.LDAPError, ssl.SSLError, ValueError) as error:
        raise TlsError("The certificate of the directory's authority cannot be read") from error
    return connection


def _trust(connection: LdapObject, ca_certificate: str | None) -> None:
    if ca_certificate is None:
        paths = ssl.get_default_verify_paths()
        if paths.cafile:
            connection.set_option(ldap.OPT_X_TLS_CACERTFILE, paths.cafile)
        connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
        return
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=ca_certificate or "empty")  # raises
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(ca_certificate.encode())
        file.flush()
        connection.set_option(ldap.OPT_X_TLS_CACERTFILE, file.name)
        connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)  # reads the file, and must come after the other TLS options


def _bound(descriptor: int, seconds: float) -> None:
    """Bound each send and receive, and let nothing be sent any more once the connection is given up.

    libldap's own time-outs begin when it waits for an answer: while a request larger than the socket's buffer is being
    sent, or the rest of a message is being read, it would wait for ever for a server that has stopped in between.

    The system would go on sending for minutes, while the other side cannot be reached. A write whose answer was given
    up and of which the domain controller shows nothing was not made; it must not be made after that, nor after the
    process was killed.
    """
    limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
    with socket.socket(fileno=os.dup(descriptor)) as shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _FORGET)


def _discard(connection: LdapObject) -> None:
    with contextlib.suppress(ldap.LDAPError):  # it may never have come to be
        connection.unbind_ext_s()


def begins_tls(plain: socket.socket) -> bool:
    """Ask for StartTLS; whether the handshake may begin."""
    plain.sendall(_START_TLS_REQUEST)
    return _START_TLS_SUCCESS in plain.recv(4096)


def _tls_complaint(url: str, settings: ServerSettings, seconds: float) -> str | None:
    """Try the handshake with Python's own TLS, which tells what libldap keeps to itself; None: it was not that."""
    host, port = address_of(url)
    context = ssl.create_default_context(cadata=settings.ca_certificate)  # None: the system's authorities
    try:
        with socket.create_connection((host, port), timeout=seconds) as plain:
            if urlsplit(url).scheme == "ldap" and not begins_tls(plain):
                return "it does not offer StartTLS"
            with context.wrap_socket(plain, server_hostname=host):
                return None
    except ssl.SSLCertVerificationError as error:
        return _CERTIFICATE_COMPLAINTS.get(error.verify_code, error.verify_message)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return None  # it hung up, which says nothing about trust
    except ssl.SSLError as error:
        return f"the TLS handshake failed ({error.reason or 'no reason given'})"
    except OSError:
        return None
