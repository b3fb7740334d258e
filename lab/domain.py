"""Domains for tests: provisioned once per version of the recipe, then copied and started."""

import fcntl
import hashlib
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import ldap

from lab.clock import CLOCK
from lab.commands import PROJECT
from lab.directory import Directory, random_name
from lab.samba import controller as recipe
from lab.samba.controller import ADMINISTRATOR_DN, BASE_DN, SERVICE_ACCOUNT, SERVICE_ACCOUNT_DN, DomainController
from lab.waiting import wait_until

TEMPLATES = PROJECT / "var" / "tests" / ("clock" if CLOCK else "")
"""Provisioned domains, which every run copies."""

TEMPLATE_LIFETIME = 28 * 86_400
"""Seconds. The administrator's password expires after 42 days."""

ADMINISTRATOR_PASSWORD = "Administrator-1"
SERVICE_PASSWORD = "Gateway-Service-1"


class Domain:
    """A running domain and what a client needs to reach it."""

    def __init__(self, controller: DomainController) -> None:
        self.controller = controller
        self.base_dn = BASE_DN
        self.bind_dn = SERVICE_ACCOUNT_DN
        self.bind_password = SERVICE_PASSWORD
        self.admin_dn = ADMINISTRATOR_DN
        self.admin_password = ADMINISTRATOR_PASSWORD

    @property
    def url(self) -> str:
        """``ldaps://<address>``."""
        return self.controller.url

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that issued the controller's certificate."""
        return self.controller.ca_file

    @property
    def ca_pem(self) -> str:
        """The same as text."""
        return self.ca_file.read_text()

    def renew(self) -> None:
        """Start it again as it was provisioned, at the same address and with the same identifiers and certificates."""
        controller = self.controller
        controller.stop()
        shutil.rmtree(controller.directory)
        shutil.copytree(_template(recycle_bin=controller.recycle_bin), controller.directory)
        controller.start_and_wait()

    def connect(self, *, url: str | None = None) -> Directory:
        """Connect an independent client as the administrator, perhaps through a proxy's URL. The caller closes it."""
        return Directory(
            url=url or self.url,
            ca_file=str(self.ca_file),
            bind_dn=self.admin_dn,
            bind_password=self.admin_password,
            base_dn=self.base_dn,
        )


@contextmanager
def running_domain(
    directory: Path,
    *,
    recycle_bin: bool = True,
    durable: bool = False,
    model: str = "prefork",
    fill: Callable[[DomainController], object] = lambda _: None,
) -> Iterator[Domain]:
    """Copy the provisioned template, `fill` it, start it on a free loopback address, and stop it at the end."""
    with reserved_address() as address:
        shutil.copytree(_template(recycle_bin=recycle_bin), directory)
        controller = DomainController(directory, address, recycle_bin=recycle_bin, durable=durable, model=model)
        fill(controller)
        try:
            controller.start_and_wait()
            yield Domain(controller)
        finally:
            controller.stop()


def wait_until_replicated(domains: Sequence[Domain]) -> None:
    """Wait until the domain controllers of one domain have replicated all changes made so far.

    Replication keeps the order of changes (USNs): when a marker has arrived, so have all earlier changes.
    """
    for source in domains if len(domains) > 1 else ():
        with closing(source.connect()) as source_client:
            guid = source_client.guid(source_client.add_unit(random_name("mark")))
        for other in domains:
            wait_until(partial(_has_object, other, guid), 600, "the domain controllers are not even")


def _has_object(domain: Domain, guid: uuid.UUID) -> bool:
    with suppress(ldap.LDAPError), closing(domain.connect()) as client:
        return client.exists(guid)
    return False


def _template(*, recycle_bin: bool) -> Path:
    """Return a provisioned domain, kept between test runs to save 4 s each, for this recipe and clock.

    A domain made at another time has certificates that are not valid yet, or objects from the future.
    """
    sources = [Path(recipe.__file__), Path(recipe.__file__).with_name("setup.py"), Path(__file__)]
    era = f"{CLOCK} {time.time() // TEMPLATE_LIFETIME}".encode()
    digest = hashlib.sha256(b"".join([*(source.read_bytes() for source in sources), era])).hexdigest()[:12]
    kind = "recycle-bin" if recycle_bin else "tombstones"
    template = TEMPLATES / f"domain-{kind}-{digest}"
    TEMPLATES.mkdir(parents=True, exist_ok=True)
    with (TEMPLATES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # processes of a parallel run start at the same time
        controller = DomainController(template, "127.0.40.1", recycle_bin=recycle_bin)
        if not controller.is_provisioned:
            for outdated in TEMPLATES.glob(f"domain-{kind}-*"):
                shutil.rmtree(outdated)
            controller.provision(administrator_password=ADMINISTRATOR_PASSWORD)
            controller.set_passwords({SERVICE_ACCOUNT: SERVICE_PASSWORD})
    return template


@contextmanager
def reserved_address(network: str = "127.0.40", first: str = "") -> Iterator[str]:
    """A loopback address on which no domain controller runs, kept from other processes while it is in use.

    It is the `first` one if that is free, or else the first free one of the network.
    """
    for address in filter(None, (first, *(f"{network}.{number}" for number in range(1, 255)))):
        with recipe.reserve(address) as is_reserved:
            if is_reserved:
                yield address
                return
    raise RuntimeError(
        f"A domain controller needs port 389 and 636 of an address {network}.x: run as root, or free one"
    )
