"""A real Samba domain controller (LDAP only) on a loopback address of its own, for the demonstration and the tests.

It provisions, starts, stops, pauses; what the domain contains is `organization`'s business. No password is kept here:
the callers choose them and may set new ones while the controller is down.
"""

import json
import secrets
import shutil
from collections.abc import Callable
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
PROCESS_PER_CONNECTION = "standard"
"""The process model that answers readers while others wait to write, as Windows does: pre-forked processes would all
wait for the same write soon."""

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


class DomainController(Service):
    """One domain controller in one directory, reachable at ``ldaps://<address>`` (the ports cannot be changed).

    A directory provisioned once may be copied: everything that depends on the place or the address is written anew
    at each start. With ``durable=False`` writes do not wait for the disk: faster, and lost with the machine's power
    only. ``model`` is Samba's process model.

    Pre-forked workers, of the three models: eight connections read about a sixth faster than with `single`, one slow
    search does not hold up the others, and a new connection costs 17 ms instead of the 27 ms of `standard`, which forks
    for each. Writes are serialised by the database whichever is chosen: one that waits for another holds up its
    process, and with `prefork` those who read there. All of its processes end when the first one is killed.
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
        """Where clients connect."""
        return f"ldaps://{self.address}"

    @property
    def ca_file(self) -> Path:
        """The certificate that verifies the controller's."""
        return self.authority.certificate_file

    @property
    def is_provisioned(self) -> bool:
        """Whether the directory holds a complete domain; an interrupted provisioning does not count."""
        return self._marker.exists()

    def provision(
        self, *, administrator_password: str | None = None, when_provisioned: Callable[[], object] = lambda: None
    ) -> None:
        """Create the domain (about 4 s, as root): whatever an interrupted attempt left behind is removed first.

        The gateway gets an account of its own, a member of Domain Admins: the gateway manages every kind of object,
        protected administrators included, and only that group may write those (AdminSDHolder). It still refuses what
        the gateway itself refuses. A production domain delegates less and names what the gateway shall not touch.
        ``when_provisioned`` puts more into the domain, before it counts as complete.
        """
        if self.directory.exists():
            shutil.rmtree(self.directory)
        self.directory.mkdir(parents=True, mode=0o700)
        run(
            [
                *("samba-tool", "domain", "provision", f"--targetdir={self.directory}", "--server-role=dc"),
                *(f"--realm={REALM}", f"--domain={NETBIOS_DOMAIN}", f"--host-name={HOST_NAME}"),
                # One name server less, and no address but loopback in the directory.
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
        """Write configuration and certificate for this directory and address."""
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
        """Give the controller a new certificate; it is used from the next start on."""
        tls = self.directory / "private" / "tls"
        realm = REALM.lower()
        # 127.0.0.1 is for proxies: libldap looks for the machine's own name when it is told to connect to "localhost".
        self.authority.issue(
            [f"{HOST_NAME}.{realm}", realm, "localhost", self.address, "127.0.0.1"],
            certificate_file=tls / "cert.pem",
            key_file=tls / "key.pem",
        )

    def start_and_wait(self, seconds: float = 120, *, prepare: bool = True) -> None:
        """As any server; ``prepare=False`` keeps a certificate put there by a test."""
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
        run([SYSTEM_PYTHON, Path(__file__).with_name("setup.py"), self.directory], given=json.dumps(request))


def random_password() -> str:
    """A password no policy refuses: 24 random characters with every class the complexity rule asks for."""
    return f"{secrets.token_urlsafe(18)}-aA1"
