"""The domain that is measured: a domain controller on a loopback address of its own, with people in it."""

import os
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import ldap

from lab.commands import PROJECT
from lab.samba.controller import BASE_DN, SERVICE_ACCOUNT, SERVICE_ACCOUNT_DN, SYSTEM_PYTHON, DomainController

PASSWORD = "Bench-Service-1"
_DISABLED, _NO_PASSWORD_NEEDED, _NORMAL = 0x2, 0x20, 0x200
SCRATCH = str(_NORMAL | _NO_PASSWORD_NEEDED | _DISABLED)
_AHEAD = 32
_STAFF_IN_GROUPS = f"(&(objectCategory=person)(memberOf=*)(!(userAccountControl:1.2.840.113556.1.4.803:={_DISABLED})))"


@dataclass(frozen=True)
class Domain:
    """What raw measurements talk to, and the gateways behind it."""

    controller: DomainController
    base_dn: str = BASE_DN

    @property
    def processes(self) -> dict[str, int]:
        """The domain controller's first process."""
        return {"domain controller": self.controller.process_id}

    @property
    def client_environment(self) -> dict[str, str]:
        """What the command line's LDAP programs need to trust the domain controller."""
        return {**os.environ, "LDAPTLS_CACERT": str(self.controller.ca_file)}

    def connect(self) -> ldap.ldapobject.SimpleLDAPObject:
        """A raw connection, bound as the gateway binds."""
        connection = ldap.initialize(self.controller.url)
        connection.set_option(ldap.OPT_X_TLS_CACERTFILE, str(self.controller.ca_file))
        connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
        connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
        connection.set_option(ldap.OPT_REFERRALS, 0)
        connection.simple_bind_s(SERVICE_ACCOUNT_DN, PASSWORD)
        return connection

    def find_people(self, count: int) -> list[uuid.UUID]:
        """Enabled accounts of the company, which are in groups and have passwords, by objectGUID."""
        found = self.connect().search_ext_s(
            f"OU=Staff,{self.base_dn}", ldap.SCOPE_SUBTREE, _STAFF_IN_GROUPS, ["objectGUID"]
        )
        if len(found) < count:
            raise SystemExit(f"{len(found)} of {count} people are in the domain")
        return [_guid_of(attributes) for _, attributes in found[:count]]

    def add_unit(self, name: str) -> str:
        """The distinguished name of a new organizational unit, whose name begins as given."""
        dn = f"OU={name} {uuid.uuid4().hex[:8]},{self.base_dn}"
        self.connect().add_s(dn, [("objectClass", [b"organizationalUnit"])])
        return dn

    def add_users(
        self, unit: str, count: int, attributes_of: Callable[[int], Mapping[str, str]] = lambda _: {}
    ) -> list[uuid.UUID]:
        """Scratch accounts without a password, disabled; their objectGUIDs. Several are on their way at a time."""
        connection = self.connect()
        under_way: list[int] = []
        for number in range(count):
            account = f"b{uuid.uuid4().hex[:12]}"
            values = {
                "objectClass": "user",
                "sAMAccountName": account,
                "userAccountControl": SCRATCH,
                "displayName": "Bench",
                "department": "Measures",
                **attributes_of(number),
            }
            entry = [(attribute, [value.encode()]) for attribute, value in values.items()]
            under_way.append(connection.add_ext(f"CN=Bench {number:05} {account},{unit}", entry))
            if len(under_way) == _AHEAD:
                connection.result3(under_way.pop(0))
        for message in under_way:
            connection.result3(message)
        found = connection.search_ext_s(unit, ldap.SCOPE_ONELEVEL, "(objectClass=user)", ["objectGUID"])
        return [_guid_of(attributes) for _, attributes in found]

    def guid_of(self, dn: str) -> uuid.UUID:
        """The objectGUID of an object."""
        return _guid_of(self.connect().search_s(dn, ldap.SCOPE_BASE, attrlist=["objectGUID"])[0][1])


def _guid_of(attributes: Mapping[str, list[bytes]]) -> uuid.UUID:
    return uuid.UUID(bytes_le=attributes["objectGUID"][0])


@contextmanager
def running_domain(address: str = "127.0.41.1", *, people: int = 0, durable: bool = True) -> Iterator[Domain]:
    """Provision and start a domain in a temporary directory; nothing is left behind.

    `people` of the demonstration's company work there, in its groups, some under password settings of their own. Where
    no write to the directory is measured it need not be `durable`, and is filled sooner.
    """
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as place:
        controller = DomainController(Path(place) / "domain", address, durable=durable)
        script = PROJECT / "demo" / "fill_domain.py"

        def fill() -> None:
            command = [SYSTEM_PYTHON, str(script), str(controller.directory), str(people)]
            subprocess.run(command, check=True, cwd=PROJECT, stdout=subprocess.DEVNULL)

        controller.provision(when_provisioned=fill if people else lambda: None)
        controller.set_passwords({SERVICE_ACCOUNT: PASSWORD})
        controller.start()
        try:
            yield Domain(controller)
        finally:
            controller.stop()
