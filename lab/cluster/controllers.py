"""Two domain controllers of one domain that replicate, each on its own host and in its own site.

For that Samba needs what the demonstration's single controller does without: Kerberos, DNS, and RPC.
"""

import shutil
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
from lab.waiting import retry

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
"""The sites of the first and the second domain controller. The gateway's hosts are in the first."""

_USE_NOTIFY = b"1"
"""NTDSSITELINK_OPT_USE_NOTIFY ([MS-ADTS] 6.1.1.2.2.3.2): replicate on change notification, not at intervals."""

_REPLICATION_SECONDS = 600.0
"""How long it may take until two controllers that have just started replicate."""


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
        """Do nothing: the host has the address for itself."""

    def prepare(self) -> None:
        """Write the configuration and the certificate."""
        for name in ("etc", "state", "cache", "lock", "run", "ncalrpc", "private/tls"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        facts = {"name": self.host.name.upper(), "domain": NETBIOS_DOMAIN, "realm": REALM, "directory": self.directory}
        (self.directory / "etc" / "smb.conf").write_text(_CONFIGURATION.format(**facts))
        self.authority.create("Authority of the cluster")
        if not (self.directory / "ca.pem").exists():
            shutil.copy(self.ca_file, self.directory / "ca.pem")
        tls = self.directory / "private" / "tls"
        self.authority.issue([self.name, self.address], certificate_file=tls / "cert.pem", key_file=tls / "key.pem")

    def create_domain(self) -> None:
        """Provision the domain, with the gateway's account."""
        self._run_domain_command("provision", "--server-role=dc", f"--realm={REALM}", f"--domain={NETBIOS_DOMAIN}",
                   f"--host-name={self.host.name}", f"--host-ip={self.address}",
                   f"--adminpass={ADMINISTRATOR_PASSWORD}", f"--site={self.site}")  # fmt: skip
        self._set_up(initial=True, passwords={SERVICE_ACCOUNT: SERVICE_PASSWORD})

    def join(self, first: "ReplicatingController") -> None:
        """Join the domain as another domain controller, with a copy of the first one's directory."""
        self._run_domain_command("join", REALM.lower(), "DC", f"--server={first.name}", _CREDENTIALS,
                   f"--workgroup={NETBIOS_DOMAIN}", f"--option=netbios name={self.host.name.upper()}",
                   f"--site={self.site}")  # fmt: skip

    def add_site(self, name: str, *, others: str, subnet: str) -> None:
        """Add a site with its subnet; the subnet `others` is our site's. Call it while the controller is stopped."""
        database = f"tdb://{self.directory}/private/sam.ldb"
        for words in (("create", name), ("subnet", "create", others, self.site), ("subnet", "create", subnet, name)):
            self._tool("sites", *words, "-H", database, "-s", f"{self.directory}/etc/smb.conf")

    def link_sites(self) -> None:
        """Join the sites by DEFAULTIPSITELINK, which every forest has, with change notification."""
        with closing(Domain(self).connect()) as directory:
            sites = f"CN=Sites,CN=Configuration,{BASE_DN}"
            changes = [
                (ldap.MOD_REPLACE, "siteList", [f"CN={site},{sites}".encode() for site in SITES]),
                (ldap.MOD_REPLACE, "options", [_USE_NOTIFY]),
                (ldap.MOD_REPLACE, "replInterval", [b"15"]),  # minutes; the minimum
            ]
            directory.connection.modify_s(f"CN=DEFAULTIPSITELINK,CN=IP,CN=Inter-Site Transports,{sites}", changes)

    def _run_domain_command(self, command: str, *arguments: str) -> None:
        options = (f"--option=xattr_tdb:file={self.directory}/xattr.tdb", "--option=interfaces=lo eth0")
        self._tool("domain", command, *arguments, f"--targetdir={self.directory}", "--dns-backend=SAMBA_INTERNAL",
                   *options, "--option=bind interfaces only=yes")  # fmt: skip
        self.prepare()

    def register_principal_names(self) -> None:
        """Register the service principal names under which the other controller requests tickets for this one."""
        configuration = self.directory / "etc" / "smb.conf"
        run(self.host.command("samba_spnupdate", "-s", configuration))

    def compute_replication_partners(self) -> None:
        """Have its KCC compute the replication partners."""
        retry(
            partial(self._tool, "drs", "kcc", self.name, _CREDENTIALS), _REPLICATION_SECONDS
        )  # refused until all services run

    def replicate_from(self, source: "ReplicatingController") -> None:
        """Replicate from the other one now. After that the other one notifies this one of each change."""
        for partition in _PARTITIONS:
            words = ("drs", "replicate", self.name, source.name, partition, _CREDENTIALS)
            retry(partial(self._tool, *words), _REPLICATION_SECONDS)

    def _tool(self, *words: str) -> None:
        run(self.host.command("samba-tool", *words))


def make_domain(folder: Path, hosts: tuple[Host, Host]) -> tuple[ReplicatingController, ReplicatingController]:
    """Make and start both controllers, each in its site, replicating in both directions."""
    first = ReplicatingController(folder / hosts[0].name, hosts[0], SITES[0])
    first.create_domain()
    first.add_site(SITES[1], others=f"{NETWORK}.0/24", subnet=f"{hosts[1].address}/32")
    first.start_and_wait(prepare=False)
    first.link_sites()
    first.register_principal_names()
    second = ReplicatingController(folder / hosts[1].name, hosts[1], SITES[1], first.authority)
    second.join(first)
    second.start_and_wait(prepare=False)
    second.register_principal_names()
    first.register_principal_names()
    for controller in (first, second):
        controller.compute_replication_partners()
    for controller, source in ((second, first), (first, second)):
        controller.replicate_from(source)
    return first, second


def kerberos_configuration(addresses: tuple[str, str]) -> str:
    """A krb5.conf that names the KDCs, so that nobody has to look them up in DNS."""
    servers = "\n".join(f"kdc = {address}" for address in addresses)
    return (
        f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_realm = false\ndns_lookup_kdc = false\n"
        f"[realms]\n{REALM} = {{\n{servers}\n}}\n"
        f"[domain_realm]\n.{REALM.lower()} = {REALM}\n{REALM.lower()} = {REALM}\n"
    )
