"""A real Samba domain controller (LDAP only) on its own loopback address, for the demonstration and the tests.

It provisions, starts, stops and pauses; `lab.company` fills the domain. No password is stored here: callers choose them
and may set new ones while the controller is down.
"""

import json
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import ldap

from lab.processes import run
from lab.samba.certificates import CertificateAuthority
from lab.services import Service, is_port_free

REALM = "CORP.EXAMPLE.TEST"
NETBIOS_DOMAIN = "CORP"
HOST_NAME = "dc1"
BASE_DN = ",".join(f"DC={label.lower()}" for label in REALM.split("."))
ADMINISTRATOR_DN = f"CN=Administrator,CN=Users,{BASE_DN}"

SERVICE_ACCOUNT = "svc-gateway"
SERVICE_ACCOUNTS_UNIT = "OU=Service Accounts"
SERVICE_ACCOUNT_DN = f"CN={SERVICE_ACCOUNT},{SERVICE_ACCOUNTS_UNIT},{BASE_DN}"

SYSTEM_PYTHON = "/usr/bin/python3"
LDAP_PORTS = (389, 636, 3268, 3269)
_RESERVING_PORT = 635
"""A privileged port as those of LDAP, on which domain controllers do not listen."""
PROCESS_PER_CONNECTION = "standard"
"""The process model that answers readers while others wait to write, as Windows does: with `prefork`, all processes
would soon wait for the same write."""

_CONFIGURATION = """\
# Written by lab/samba/controller.py at every start.
[global]
    netbios name = {host}
    workgroup = {domain}
    realm = {realm}
    server role = active directory domain controller
    # LDAP alone: no Kerberos, no file sharing, no DNS, so that nothing else on the machine is touched.
    server services = ldap
    interfaces = {address}/8
    bind interfaces only = yes
    private dir = {directory}/private
    state directory = {directory}/state
    cache directory = {directory}/cache
    lock directory = {directory}/lock
    pid directory = {directory}/run
    ncalrpc dir = {directory}/ncalrpc
    xattr_tdb:file = {directory}/xattr.tdb
    tls cafile = {directory}/ca.pem
    tls certfile = {directory}/private/tls/cert.pem
    tls keyfile = {directory}/private/tls/key.pem
    prefork children:ldap = 4
    ldb:nosync = {nosync}
    log level = 1
"""


@contextmanager
def reserve(address: str) -> Iterator[bool]:
    """Keep a loopback address from other processes until the end of the block; yield whether it could be had.

    LDAP's ports are fixed, so each controller needs an address, and listens there only a while after it was chosen. A
    bound socket is the reservation: unlike a lock file it cannot outlive its process.
    """
    with socket.socket() as reservation:
        try:
            reservation.bind((address, _RESERVING_PORT))
        except OSError:
            yield False
            return
        yield all(is_port_free(address, port) for port in LDAP_PORTS)


class DomainController(Service):
    """One domain controller in one directory, reachable at ``ldaps://<address>`` (the ports cannot be changed).

    A provisioned directory may be copied: everything that depends on the path or the address is rewritten at each
    start. With ``durable=False`` writes do not wait for the disk: they are faster, and only lost if the machine
    crashes. ``model`` is Samba's process model.

    Of the three models, with `prefork` eight connections read about a sixth faster than with `single`, a slow search
    does not delay others, and a new connection costs 17 ms instead of the 27 ms of `standard`, which forks for each.
    In all models the database serialises writes: a write that waits blocks its process, and with `prefork` the readers
    of that process, too. All processes end when the first one is killed.
    """

    def __init__(
        self,
        directory: Path,
        address: str,
        *,
        recycle_bin: bool = True,
        durable: bool = True,
        model: str = "prefork",
    ) -> None:
        self.directory = directory.resolve()
        self.address = address
        self.recycle_bin = recycle_bin
        self.durable = durable
        self.authority = CertificateAuthority(self.directory)
        self._marker = self.directory / "provisioned"
        configuration = self.directory / "etc" / "smb.conf"
        super().__init__(
            f"the domain controller at {self.url}",
            ["samba", "--foreground", f"--model={model}", "--debug-stdout", f"--configfile={configuration}"],
            is_ready=self.is_answering,
            log_file=self.directory / "samba.log",
        )

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"ldaps://{self.address}"

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority, which verifies the controller's certificate."""
        return self.authority.certificate_file

    @property
    def is_provisioned(self) -> bool:
        """Whether the directory holds a complete domain; an interrupted provisioning does not count."""
        return self._marker.exists()

    def provision(
        self, *, administrator_password: str | None = None, when_provisioned: Callable[[], object] = lambda: None
    ) -> None:
        """Create the domain (about 4 s, as root), after removing what an interrupted attempt left behind.

        The gateway gets an account in Domain Admins, since it manages protected administrators, too, which only that
        group may write (AdminSDHolder). A production domain delegates less. ``when_provisioned`` fills the domain
        before it counts as complete.
        """
        if self.directory.exists():
            shutil.rmtree(self.directory)
        self.directory.mkdir(parents=True, mode=0o700)
        run(
            [
                *("samba-tool", "domain", "provision", f"--targetdir={self.directory}", "--server-role=dc"),
                *(f"--realm={REALM}", f"--domain={NETBIOS_DOMAIN}", f"--host-name={HOST_NAME}"),
                # Without DNS, and with no other address than loopback in the directory.
                *("--dns-backend=NONE", f"--host-ip={self.address}"),
                f"--adminpass={administrator_password or random_password()}",
                f"--option=xattr_tdb:file={self.directory / 'xattr.tdb'}",
            ]
        )
        self.prepare()
        self._set_up(initial=True, passwords={})
        when_provisioned()
        self._marker.touch()

    def set_passwords(self, passwords: dict[str, str]) -> None:
        """Set passwords by sAMAccountName and enable the accounts, while the controller is down."""
        self._set_up(initial=False, passwords=passwords)

    def prepare(self) -> None:
        """Write the configuration and the certificate for this directory and address."""
        for name in ("etc", "cache", "lock", "run", "ncalrpc", "private/tls"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        (self.directory / "etc" / "smb.conf").write_text(
            _CONFIGURATION.format(
                host=HOST_NAME.upper(),
                domain=NETBIOS_DOMAIN,
                realm=REALM,
                address=self.address,
                directory=self.directory,
                nosync="no" if self.durable else "yes",
            )
        )
        self.authority.create(f"{NETBIOS_DOMAIN} demonstration authority")
        self.issue_certificate()

    def issue_certificate(self) -> None:
        """Issue a new certificate, which the controller uses from its next start on."""
        tls = self.directory / "private" / "tls"
        realm = REALM.lower()
        # 127.0.0.1 is for proxies: for "localhost", libldap would expect the machine's own name.
        self.authority.issue(
            [f"{HOST_NAME}.{realm}", realm, "localhost", self.address, "127.0.0.1"],
            certificate_file=tls / "cert.pem",
            key_file=tls / "key.pem",
        )

    def start_and_wait(self, seconds: float = 120, *, prepare: bool = True) -> None:
        """Start it and wait; ``prepare=False`` keeps a certificate that a test has put there."""
        if not self.is_running:
            self.require_free_address()
            if prepare:
                self.prepare()
        super().start_and_wait(seconds)

    def is_answering(self) -> bool:
        """Whether it answers over verified TLS; an anonymous read of the rootDSE needs no password."""
        connection = ldap.initialize(self.url)
        connection.set_option(ldap.OPT_X_TLS_CACERTFILE, str(self.ca_file))
        connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
        connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
        connection.set_option(ldap.OPT_NETWORK_TIMEOUT, 2)
        connection.set_option(ldap.OPT_TIMEOUT, 2)
        try:
            connection.search_s("", ldap.SCOPE_BASE, attrlist=["defaultNamingContext"])
        except ldap.LDAPError:
            return False
        finally:
            connection.unbind_s()
        return True

    def require_free_address(self) -> None:
        """Raise unless every port the controller needs is free on its address."""
        taken = [str(port) for port in LDAP_PORTS if not is_port_free(self.address, port)]
        if taken:
            raise RuntimeError(
                f"The domain controller cannot listen on {self.address}: port {', '.join(taken)} in use or not allowed"
            )

    def _set_up(self, *, initial: bool, passwords: dict[str, str]) -> None:
        account = {
            "name": SERVICE_ACCOUNT,
            "parent": SERVICE_ACCOUNTS_UNIT,
            "groups": ["Domain Admins"],
            "description": "Account of the Directory Management Gateway",
        }
        request = {"initial": initial, "recycleBin": self.recycle_bin, "accounts": [account], "passwords": passwords}
        run([SYSTEM_PYTHON, Path(__file__).with_name("setup.py"), self.directory], stdin=json.dumps(request))


def random_password() -> str:
    """A random password with all character classes that the complexity policy demands."""
    return f"{secrets.token_urlsafe(18)}-aA1"
