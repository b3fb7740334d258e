"""Two domain controllers of one domain that replicate, each on a host and in a site of its own.

Samba needs for it what the demonstration's single one does without: Kerberos, names (its own DNS), and remote calls.
"""

import shutil
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import ldap

from lab.cluster.network import NETWORK, Host
from lab.domain import ADMINISTRATOR_PASSWORD, SERVICE_PASSWORD, Domain
from lab.processes import run
from lab.samba.certificates import CertificateAuthority
from lab.samba.controller import (
    BASE_DN,
    NETBIOS_DOMAIN,
    PROCESS_PER_CONNECTION,
    REALM,
    SERVICE_ACCOUNT,
    DomainController,
)

_CONFIGURATION = """\
[global]
    netbios name = {name}
    workgroup = {domain}
    realm = {realm}
    server role = active directory domain controller
    server services = rpc ldap cldap kdc drepl dns kcc
    interfaces = lo eth0
    bind interfaces only = yes
    dns forwarder =
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
    dreplsrv:notify_interval = 1
    ldb:nosync = yes
    log level = 1
"""
_CREDENTIALS = f"-U{NETBIOS_DOMAIN}\\Administrator%{ADMINISTRATOR_PASSWORD}"
_PARTITIONS = (BASE_DN, f"CN=Configuration,{BASE_DN}", f"CN=Schema,CN=Configuration,{BASE_DN}")
SITES = ("Headquarters", "Branch")
"""Of the first and of the second domain controller. The gateway's hosts are in the first."""
_USE_NOTIFY = b"1"
"""NTDSSITELINK_OPT_USE_NOTIFY ([MS-ADTS] 6.1.1.2.2.3.2): a change is told of at once, not when the interval is over."""
_PATIENCE = 600.0
"""Seconds until two that were just started replicate: a busy machine may take its time."""


class ReplicatingController(DomainController):
    """A domain controller on a host."""

    def __init__(self, directory: Path, host: Host, site: str, authority: CertificateAuthority | None = None) -> None:
        super().__init__(directory, host.address, durable=False, model=PROCESS_PER_CONNECTION)
        self.command = host.command(*self.command)
        self.host = host
        self.site = site
        self.name = f"{host.name}.{REALM.lower()}"
        if authority is not None:
            self.authority = authority

    def require_free_address(self) -> None:
        """It is the host's alone."""

    def prepare(self) -> None:
        """Write configuration and certificate."""
        for name in ("etc", "state", "cache", "lock", "run", "ncalrpc", "private/tls"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        facts = {"name": self.host.name.upper(), "domain": NETBIOS_DOMAIN, "realm": REALM, "directory": self.directory}
        (self.directory / "etc" / "smb.conf").write_text(_CONFIGURATION.format(**facts))
        self.authority.create("Authority of the cluster")
        if not (self.directory / "ca.pem").exists():
            shutil.copy(self.ca_file, self.directory / "ca.pem")
        tls = self.directory / "private" / "tls"
        self.authority.issue([self.name, self.address], certificate_file=tls / "cert.pem", key_file=tls / "key.pem")

    def found(self) -> None:
        """Make the domain, with the gateway's account in it."""
        self._make("provision", "--server-role=dc", f"--realm={REALM}", f"--domain={NETBIOS_DOMAIN}",
                   f"--host-name={self.host.name}", f"--host-ip={self.address}",
                   f"--adminpass={ADMINISTRATOR_PASSWORD}", f"--site={self.site}")  # fmt: skip
        self._set_up(initial=True, passwords={SERVICE_ACCOUNT: SERVICE_PASSWORD})

    def join(self, first: "ReplicatingController") -> None:
        """Become another domain controller of the domain, which begins with all that the first one has."""
        self._make("join", REALM.lower(), "DC", f"--server={first.name}", _CREDENTIALS,
                   f"--workgroup={NETBIOS_DOMAIN}", f"--option=netbios name={self.host.name.upper()}",
                   f"--site={self.site}")  # fmt: skip

    def add_site(self, name: str, *, others: str, subnet: str) -> None:
        """Another site with an address of its own; the `others` are this one's. To be called while it does not run."""
        database = f"tdb://{self.directory}/private/sam.ldb"
        for words in (("create", name), ("subnet", "create", others, self.site), ("subnet", "create", subnet, name)):
            self._tool("sites", *words, "-H", database, "-s", f"{self.directory}/etc/smb.conf")

    def link_sites(self) -> None:
        """Join the sites by the link that every forest has, with change notification."""
        with closing(Domain(self).connect()) as directory:
            sites = f"CN=Sites,CN=Configuration,{BASE_DN}"
            changes = [
                (ldap.MOD_REPLACE, "siteList", [f"CN={site},{sites}".encode() for site in SITES]),
                (ldap.MOD_REPLACE, "options", [_USE_NOTIFY]),
                (ldap.MOD_REPLACE, "replInterval", [b"15"]),  # minutes; less there is not
            ]
            directory.connection.modify_s(f"CN=DEFAULTIPSITELINK,CN=IP,CN=Inter-Site Transports,{sites}", changes)

    def _make(self, what: str, *arguments: str) -> None:
        options = (f"--option=xattr_tdb:file={self.directory}/xattr.tdb", "--option=interfaces=lo eth0")
        self._tool("domain", what, *arguments, f"--targetdir={self.directory}", "--dns-backend=SAMBA_INTERNAL",
                   *options, "--option=bind interfaces only=yes")  # fmt: skip
        self.prepare()

    def be_known(self) -> None:
        """Register the names by which the other one asks for it (servicePrincipalName)."""
        configuration = self.directory / "etc" / "smb.conf"
        run(self.host.command("samba_spnupdate", "-s", configuration))

    def compute_partners(self) -> None:
        """Let it find out from whom to replicate."""
        _insist(partial(self._tool, "drs", "kcc", self.name, _CREDENTIALS))  # refused until all of its services run

    def pull(self, source: "ReplicatingController") -> None:
        """Replicate from the other one now. From then on that one tells of each change."""
        for partition in _PARTITIONS:
            _insist(partial(self._tool, "drs", "replicate", self.name, source.name, partition, _CREDENTIALS))

    def _tool(self, *words: str) -> None:
        run(self.host.command("samba-tool", *words))


def _insist(step: Callable[[], None]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            step()
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(2)
        else:
            return


def make_domain(folder: Path, hosts: tuple[Host, Host]) -> tuple[ReplicatingController, ReplicatingController]:
    """Both of them, each in its site, started and replicating in both directions."""
    first = ReplicatingController(folder / hosts[0].name, hosts[0], SITES[0])
    first.found()
    first.add_site(SITES[1], others=f"{NETWORK}.0/24", subnet=f"{hosts[1].address}/32")
    first.start_and_wait(prepare=False)
    first.link_sites()
    first.be_known()
    second = ReplicatingController(folder / hosts[1].name, hosts[1], SITES[1], first.authority)
    second.join(first)
    second.start_and_wait(prepare=False)
    second.be_known()
    first.be_known()
    for controller in (first, second):
        controller.compute_partners()
    for controller, source in ((second, first), (first, second)):
        controller.pull(source)
    return first, second


def kerberos_configuration(addresses: tuple[str, str]) -> str:
    """Where the keys are given out, so that nobody has to ask for it."""
    servers = "\n".join(f"kdc = {address}" for address in addresses)
    return (
        f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_realm = false\ndns_lookup_kdc = false\n"
        f"[realms]\n{REALM} = {{\n{servers}\n}}\n"
        f"[domain_realm]\n.{REALM.lower()} = {REALM}\n{REALM.lower()} = {REALM}\n"
    )
