"""One authenticated connection to one server, opened in bounded time, and when a read should move to another one.

The pool decides which server to connect to, and when.
"""

import contextlib
import enum
import os
import select
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import ldap
import ldap.ldapobject

from active_directory.errors import (
    BadCredentials,
    InvalidValue,
    LdapError,
    TlsError,
    Unavailable,
    bind_sub_code,
    error_from,
)

LdapObject = Any  # python-ldap's SimpleLDAPObject, which has no type hints; tests of Windows' behaviour pass a fake

_START_TLS_REQUEST = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037"  # RFC 4511 4.14.1
_START_TLS_SUCCESS = b"\x0a\x01\x00"
_PORTS = {"ldap": 389, "ldaps": 636}
_FORGET, _LINGER = struct.pack("@ii", 1, 0), struct.pack("@ii", 0, 0)
"""Whether the kernel drops unsent data when a socket is closed, or goes on sending it (socket(7), SO_LINGER)."""

# OpenSSL's X509_V_ERR_* codes for which an administrator can do something.
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


@dataclass(frozen=True)
class ServerSettings:
    """How to reach one directory. Times are in seconds; ``urls`` are tried in order."""

    urls: tuple[str, ...]
    base_dn: str
    bind_dn: str
    bind_password: str = field(repr=False)
    ca_certificate: str | None = field(default=None, repr=False)  # PEM text; None trusts the system's authorities
    start_tls: bool = False
    connect_seconds: float = 5  # for each server: TCP, TLS and bind
    operation_seconds: float = 20
    pool_size: int = 8
    idle_seconds: float = 30  # after which an unused connection is checked before its next use
    schema_seconds: float = 600  # after which the schema is loaded again
    other_passwords: tuple[str, ...] = field(default=(), repr=False)  # a rotation may not have replicated


def deadline_of(settings: ServerSettings) -> float:
    """The deadline, by the monotonic clock, of an operation that starts now."""
    return time.monotonic() + settings.connect_seconds + settings.operation_seconds


@dataclass(eq=False)
class Connection:
    """An open connection. One thread uses it at a time."""

    ldap: LdapObject = field(repr=False)
    url: str
    descriptor: int
    last_used: float = field(default_factory=time.monotonic)
    abandoned: bool = False  # a search was abandoned: the rest of its answer may still arrive

    def __post_init__(self) -> None:
        self._poll = select.poll()
        self._poll.register(self.descriptor, select.POLLIN)

    @property
    def server(self) -> str:
        """The server's host name, for logs."""
        return host_of(self.url)

    def has_unexpected_input(self) -> bool:
        """Whether data arrived that nothing requested: the server has closed the connection, or is about to."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        """Unbind and close, whatever errors there are."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.descriptor)) as shared:
            shared.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        self._unbind()

    def abort(self) -> None:
        """Close without an unbind, which a broken connection would wait for, and drop data that was not sent."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.descriptor)) as shared:
            shared.shutdown(socket.SHUT_RDWR)
        self._unbind()

    def _unbind(self) -> None:
        with contextlib.suppress(ldap.LDAPError):  # it may be broken already
            self.ldap.unbind_ext_s()

    def detach(self) -> None:
        """In a forked child: drop the parent's connection without sending an unbind on the shared socket."""
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
    """Connect and bind with the gateway's own account.

    Raises ``BadCredentials``, ``TlsError`` with the reason, or ``Unavailable``.
    """
    return sign_in(url, settings, seconds, settings.bind_dn, settings.bind_password)


def sign_in(url: str, settings: ServerSettings, seconds: float, bind_name: str, password: str) -> Connection:
    """Connect and bind with any credentials. Raises as `open_connection`, and ``InvalidValue``.

    It refuses an empty password, with which AD would accept an unauthenticated bind (RFC 4513 5.1.2).
    """
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
    # libldap takes fractions of a second for "no limit".
    connection.set_option(ldap.OPT_NETWORK_TIMEOUT, max(1.0, seconds))
    connection.set_option(ldap.OPT_TIMEOUT, max(1.0, seconds))
    # Without this libldap waits for ever for a server that accepts the connection and then is silent in the TLS
    # handshake: the time-out above covers that only for non-blocking sockets.
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
    """Limit each send and receive to `seconds`, and make the kernel drop unsent data when the socket is closed.

    libldap's own time-outs cover only waiting for an answer: if a server stops while a large request is sent or the
    rest of a message is read, it would wait for ever.

    While the server cannot be reached, the kernel would go on sending for minutes. But once nobody waits for a write
    any more and the domain controller shows no sign of it, it counts as not made. It must not be made after that, nor
    after the process was killed.
    """
    limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
    with socket.socket(fileno=os.dup(descriptor)) as shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _FORGET)


def _discard(connection: LdapObject) -> None:
    with contextlib.suppress(ldap.LDAPError):  # it may never have been connected
        connection.unbind_ext_s()


def accepts_start_tls(plain: socket.socket) -> bool:
    """Send StartTLS; return whether the server agrees to a TLS handshake."""
    plain.sendall(_START_TLS_REQUEST)
    return _START_TLS_SUCCESS in plain.recv(4096)


def _tls_complaint(url: str, settings: ServerSettings, seconds: float) -> str | None:
    """Repeat the TLS handshake with Python's ssl, which gives the reason that libldap hides; None if it succeeds."""
    host, port = address_of(url)
    context = ssl.create_default_context(cadata=settings.ca_certificate)  # None: the system's authorities
    try:
        with socket.create_connection((host, port), timeout=seconds) as plain:
            if urlsplit(url).scheme == "ldap" and not accepts_start_tls(plain):
                return "it does not offer StartTLS"
            with context.wrap_socket(plain, server_hostname=host):
                return None
    except ssl.SSLCertVerificationError as error:
        return _CERTIFICATE_COMPLAINTS.get(error.verify_code, error.verify_message)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return None  # the server hung up, which says nothing about trust
    except ssl.SSLError as error:
        return f"the TLS handshake failed ({error.reason or 'no reason given'})"
    except OSError:
        return None


# Samba's prefork model serves many connections in each of a few processes, one request at a time: while one searches,
# every connection of its process waits. A free process accepts a new connection. So a read that gets no answer for a
# moment moves to a new connection.

# Errors of the connection rather than of the request.
BROKEN = (ldap.SERVER_DOWN, ldap.CONNECT_ERROR, ldap.TIMEOUT, ldap.UNAVAILABLE, ldap.BUSY, ldap.DECODING_ERROR)
_READ_ATTEMPTS = 3

SILENT_SECONDS = 0.2
"""The time without an answer after which a read moves to a new connection. That takes 15 ms, a read only 1 or 2 ms."""
_SLOW_SECONDS = 5.0


class ConnectionSilent(Exception):
    """No answer has arrived yet: the connection may be waiting for another one's search."""


class Pace:
    """Remembers that a server as a whole is slow, so that moving to another connection gains nothing."""

    def __init__(self) -> None:
        self._slow_until = 0.0

    def note_slow(self) -> None:
        """Note that even a new connection was silent."""
        self._slow_until = time.monotonic() + _SLOW_SECONDS

    @property
    def is_slow(self) -> bool:
        return time.monotonic() < self._slow_until


class Attempts:
    """The attempts of one read, each on another connection; a ``patient`` read stays on a silent one."""

    def __init__(self, settings: ServerSettings, pace: Pace, *, patient: bool = False) -> None:
        self.deadline = deadline_of(settings)
        self.needs_new = False
        """Whether the next attempt needs a new connection."""
        self.is_last = False
        """Whether another attempt is impossible because a part of the answer was passed on."""
        self._operation_seconds = settings.operation_seconds
        self._pace = pace
        self._may_move = not patient and not pace.is_slow
        self._began = 0.0
        self._left = _READ_ATTEMPTS

    @property
    def seconds(self) -> float:
        """How long to wait for one answer now."""
        return min(self._operation_seconds, max(0.1, self.deadline - time.monotonic()))

    @property
    def first_seconds(self) -> float | None:
        """How long to wait for the first message before `ConnectionSilent`; None: as long as for any other."""
        return SILENT_SECONDS if self._may_move else None

    def move(self) -> None:
        """Move to a new connection because this one was silent; the next attempt waits for its answer."""
        self.needs_new, self._may_move = True, False
        self._began = time.monotonic()

    def note_answer(self) -> None:
        """Note that the first message has arrived."""
        if self.needs_new and time.monotonic() - self._began > SILENT_SECONDS:
            self._pace.note_slow()
        self.needs_new = False

    def count(self, error: ldap.LDAPError) -> None:
        """Count a failed attempt; raises this layer's error if it was the last."""
        self._left -= 1
        if self.is_last or not self._left or time.monotonic() >= self.deadline:
            raise error_from(error) from error


class BindResult(enum.Enum):
    """AD's answer to a bind. Every one except WRONG proves that the password is right."""

    OK = "ok"
    WRONG = "wrong"
    DISABLED = "disabled"
    EXPIRED = "expired"
    MUST_CHANGE = "must change"
    PASSWORD_EXPIRED = "password expired"  # noqa: S105 - a state, not a secret
    LOCKED = "locked"
    NOT_ALLOWED_NOW = "not allowed now"


# By `BadCredentials.sub_code`; others, such as ERROR_NO_SUCH_USER and ERROR_LOGON_FAILURE, mean WRONG.
_BY_SUB_CODE = {
    "530": BindResult.NOT_ALLOWED_NOW,  # ERROR_INVALID_LOGON_HOURS
    "531": BindResult.NOT_ALLOWED_NOW,  # ERROR_INVALID_WORKSTATION
    "532": BindResult.PASSWORD_EXPIRED,  # ERROR_PASSWORD_EXPIRED
    "533": BindResult.DISABLED,  # ERROR_ACCOUNT_DISABLED
    "701": BindResult.EXPIRED,  # ERROR_ACCOUNT_EXPIRED
    "773": BindResult.MUST_CHANGE,  # ERROR_PASSWORD_MUST_CHANGE
    "775": BindResult.LOCKED,  # ERROR_ACCOUNT_LOCKED_OUT
}


def authenticate(settings: ServerSettings, urls: Sequence[str], bind_name: str, password: str) -> BindResult:
    """Check a name and password with a bind on a connection of its own.

    It tries the next server only if one cannot be reached: more attempts with a wrong password could lock the account.
    Raises ``Unavailable``.
    """
    problem: Unavailable | None = None
    deadline = deadline_of(settings)
    for url in urls:
        seconds = min(settings.connect_seconds, deadline - time.monotonic())
        if seconds <= 0:
            break
        try:
            sign_in(url, settings, seconds, bind_name, password).close()
        except BadCredentials as error:
            return _BY_SUB_CODE.get(error.sub_code or "", BindResult.WRONG)
        except InvalidValue:  # no account has such a name or password
            return BindResult.WRONG
        except Unavailable as error:
            problem = error
        except LdapError:
            return BindResult.WRONG
        else:
            return BindResult.OK
    raise problem or Unavailable("No domain controller answers in time")
