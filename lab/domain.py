"""A domain of one's own: provisioned once per version of its recipe, then copied and started."""

import fcntl
import hashlib
import shutil
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import ldap

from lab.clock import CLOCK
from lab.commands import PROJECT
from lab.directory import Directory, random_name
from lab.samba import controller as recipe
from lab.samba.controller import ADMINISTRATOR_DN, BASE_DN, SERVICE_ACCOUNT, SERVICE_ACCOUNT_DN, DomainController
from lab.services import is_port_free
from lab.waiting import wait_until

TEMPLATES = PROJECT / "var" / "tests" / ("clock" if CLOCK else "")
"""What takes long to make and is the same in every run."""
FOUR_WEEKS = 28 * 86_400
"""How long a template is used at most: the administrator's password expires after 42 days."""
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
        """The certificate of the authority that issued the controller's."""
        return self.controller.ca_file

    @property
    def ca_pem(self) -> str:
        """The same as text."""
        return self.ca_file.read_text()

    def connect(self, *, url: str | None = None) -> Directory:
        """An independent client, as the administrator, or through a proxy's URL. The caller closes it."""
        return Directory(
            url=url or self.url,
            ca_file=str(self.ca_file),
            bind_dn=self.admin_dn,
            bind_password=self.admin_password,
            base_dn=self.base_dn,
        )


@contextmanager
def running_domain(directory: Path, *, recycle_bin: bool = True, model: str = "prefork") -> Iterator[Domain]:
    """Copy the provisioned template, start it on a free loopback address, and stop it at the end."""
    with reserved_address() as address:
        shutil.copytree(_template(recycle_bin=recycle_bin), directory)
        controller = DomainController(directory, address, recycle_bin=recycle_bin, durable=False, model=model)
        try:
            controller.start_and_wait()
            yield Domain(controller)
        finally:
            controller.stop()


def wait_until_even(domains: Sequence[Domain]) -> None:
    """Wait until each of several domain controllers of one domain has what any of them has.

    Replication follows the order of changes: when a mark has arrived, what was changed before has too.
    """
    for source in domains if len(domains) > 1 else ():
        with closing(source.connect()) as there:
            guid = there.guid(there.add_unit(random_name("mark")))
        for other in domains:
            wait_until(partial(_has, other, guid), 600, "the domain controllers are not even")


def _has(domain: Domain, guid: uuid.UUID) -> bool:
    with suppress(ldap.LDAPError), closing(domain.connect()) as here:
        return here.exists(guid)
    return False


def _template(*, recycle_bin: bool) -> Path:
    """A provisioned domain kept between test runs (4 s saved in each), made anew when its recipe or the clock changes.

    What was made at another time has certificates that are not valid yet, or objects that come from the future.
    """
    sources = [Path(recipe.__file__), Path(recipe.__file__).with_name("setup.py"), Path(__file__)]
    era = f"{CLOCK} {time.time() // FOUR_WEEKS}".encode()
    digest = hashlib.sha256(b"".join([*(source.read_bytes() for source in sources), era])).hexdigest()[:12]
    kind = "recycle-bin" if recycle_bin else "tombstones"
    template = TEMPLATES / f"domain-{kind}-{digest}"
    TEMPLATES.mkdir(parents=True, exist_ok=True)
    with (TEMPLATES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the processes of a parallel run start together
        controller = DomainController(template, "127.0.40.1", recycle_bin=recycle_bin)
        if not controller.is_provisioned:
            for outdated in TEMPLATES.glob(f"domain-{kind}-*"):
                shutil.rmtree(outdated)
            controller.provision(administrator_password=ADMINISTRATOR_PASSWORD)
            controller.set_passwords({SERVICE_ACCOUNT: SERVICE_PASSWORD})
    return template


@contextmanager
def reserved_address() -> Iterator[str]:
    """A loopback address on which no domain controller runs, kept from other test processes while it is in use.

    LDAP's ports are fixed, so each controller needs an address. A bound socket is the reservation: unlike a lock file
    it cannot outlive its process.
    """
    for number in range(1, 255):
        address = f"127.0.40.{number}"
        with socket.socket() as reservation:
            try:
                reservation.bind((address, 635))
            except OSError:
                continue
            if all(is_port_free(address, port) for port in recipe.LDAP_PORTS):
                yield address
                return
    raise RuntimeError("Every loopback address from 127.0.40.1 to 127.0.40.254 is in use")
