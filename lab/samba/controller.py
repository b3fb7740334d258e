"""A real Samba domain controller (LDAP only) on a loopback address of its own, for the demonstration and the tests.

It provisions, starts, stops, pauses; what the domain contains is `organization`'s business. No password is kept here:
the callers choose them and may set new ones while the controller is down.
"""

import json
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import ldap

from lab.certificates import CertificateAuthority
from lab.processes import log_tail, signal_group, start_process, stop_process

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


class DomainControllerError(RuntimeError):
    """The domain controller could not be provisioned or started; the message says why."""


class DomainController:
    """One domain controller in one directory, reachable at ``ldaps://<address>`` (the ports cannot be changed).

    A directory provisioned once may be copied: everything that depends on the place or the address is written anew
    at each start. With ``durable=False`` writes do not wait for the disk: faster, and lost with the machine's power
    only. ``model`` is Samba's process model (see `command`).
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
        self.model = model
        self.log_file = self.directory / "samba.log"
        self._authority = CertificateAuthority(self.directory)
        self._marker = self.directory / "provisioned"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"ldaps://{self.address}"

    @property
    def ca_file(self) -> Path:
        """The certificate that verifies the controller's."""
        return self._authority.certificate_file

    @property
    def authority(self) -> CertificateAuthority:
        """The authority that issued the controller's certificate, for tests that need another certificate of it."""
        return self._authority

    @property
    def is_provisioned(self) -> bool:
        """Whether the directory holds a complete domain; an interrupted provisioning does not count."""
        return self._marker.exists()

    @property
    def command(self) -> list[str]:
        """What runs the controller in the foreground, once `prepare` has been called.

        Pre-forked workers, of the three process models: eight connections read about a sixth faster than with
        `single`, one slow search does not hold up the others, and a new connection costs 17 ms instead of the 27 ms of
        `standard`, which forks for each. Writes are serialised by the database whichever is chosen: one that waits
        for another holds up its process, and with `prefork` those who read there. All of its processes end when the
        first one is killed.
        """
        configuration = self.directory / "etc" / "smb.conf"
        return ["samba", "--foreground", f"--model={self.model}", "--debug-stdout", f"--configfile={configuration}"]

    def provision(
        self, *, administrator_password: str | None = None, when_provisioned: Callable[[], None] = lambda: None
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
        self._run(
            [
                *("samba-tool", "domain", "provision", f"--targetdir={self.directory}", "--server-role=dc"),
                *(f"--realm={REALM}", f"--domain={NETBIOS_DOMAIN}", f"--host-name={HOST_NAME}"),
                # One name server less, and no address but loopback in the directory.
                *("--dns-backend=NONE", f"--host-ip={self.address}"),
                f"--adminpass={administrator_password or random_password()}",
                f"--option=xattr_tdb:file={self.directory / 'xattr.tdb'}",
            ],
            failure="The domain could not be provisioned",
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
        self._authority.create(f"{NETBIOS_DOMAIN} demonstration authority")
        self.issue_certificate()

    def issue_certificate(self) -> None:
        """Give the controller a new certificate; it is used from the next start on."""
        tls = self.directory / "private" / "tls"
        realm = REALM.lower()
        # 127.0.0.1 is for proxies: libldap looks for the machine's own name when it is told to connect to "localhost".
        self._authority.issue(
            [f"{HOST_NAME}.{realm}", realm, "localhost", self.address, "127.0.0.1"],
            certificate_file=tls / "cert.pem",
            key_file=tls / "key.pem",
        )

    def start(self, *, prepare: bool = True, timeout: float = 120) -> None:
        """Start the controller and wait until it answers; ``prepare=False`` keeps a certificate put there by a test."""
        if self.is_running:
            return
        self.require_free_address()
        if prepare:
            self.prepare()
        with self.log_file.open("wb") as log:
            self._process = start_process(self.command, output=log)
        try:
            self.wait_until_ready(timeout=timeout)
        except BaseException:
            self.stop()
            raise

    def wait_until_ready(self, *, timeout: float = 120) -> None:
        """Wait for an answer over verified TLS; an anonymous read of the rootDSE needs no password."""
        deadline = time.monotonic() + timeout
        while True:
            reason = self._probe()
            if reason is None:
                return
            ended = self._process is not None and self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise DomainControllerError(
                    f"The domain controller at {self.url} does not answer ({reason}). Its log ends with:\n"
                    f"{log_tail(self.log_file)}"
                )
            time.sleep(0.1)

    def is_answering(self) -> bool:
        """Whether the controller answers over verified TLS at this moment."""
        return self._probe() is None

    @property
    def is_running(self) -> bool:
        """Whether the process started here is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def process_id(self) -> int:
        """The first of the controller's processes, from which all others descend."""
        if self._process is None:
            raise DomainControllerError("The domain controller does not run")
        return self._process.pid

    def stop(self) -> None:
        """End the processes started here, and no others."""
        if self._process is not None:
            stop_process(self._process)
            self._process = None

    def restart(self) -> None:
        """Stop and start again with the same data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the controller: connections stay open and nothing answers."""
        if self._process is not None:
            signal_group(self._process, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `pause`."""
        if self._process is not None:
            signal_group(self._process, signal.SIGCONT)

    def require_free_address(self) -> None:
        """Raise unless every port the controller needs is free on its address."""
        taken = [str(port) for port in LDAP_PORTS if not is_port_free(self.address, port)]
        if taken:
            raise DomainControllerError(
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
        script = Path(__file__).with_name("setup.py")
        self._run(
            [SYSTEM_PYTHON, script, self.directory],
            failure="The domain could not be set up",
            standard_input=json.dumps(request),
        )

    def _run(self, command: list[str | Path], *, failure: str, standard_input: str = "") -> None:
        try:
            done = subprocess.run(command, input=standard_input, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise DomainControllerError(f"{failure}: {error.filename} is not installed") from error
        if done.returncode != 0:
            output = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise DomainControllerError(f"{failure}:\n{output}")

    def _probe(self) -> str | None:
        connection = ldap.initialize(self.url)
        connection.set_option(ldap.OPT_X_TLS_CACERTFILE, str(self.ca_file))
        connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
        connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
        connection.set_option(ldap.OPT_NETWORK_TIMEOUT, 2)
        connection.set_option(ldap.OPT_TIMEOUT, 2)
        try:
            connection.search_s("", ldap.SCOPE_BASE, attrlist=["defaultNamingContext"])
        except ldap.LDAPError as error:
            return str(error.args[0].get("desc", error)) if error.args else type(error).__name__
        finally:
            connection.unbind_s()
        return None


def is_port_free(address: str, port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def random_password() -> str:
    """A password no policy refuses: 24 random characters with every class the complexity rule asks for."""
    return f"{secrets.token_urlsafe(18)}-aA1"
