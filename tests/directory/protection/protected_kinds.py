"""One object of each kind that is protected, in the tests' domain, with the gateway's account delegated."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from lab.samba.database import add_trust, overwrite
from tests.support.delegated import Delegated
from tests.support.descriptors import add_entries, pack

# rightsGuids ([MS-ADTS] 5.1.3.2.1) and schemaIDGUIDs
RESET_PASSWORD = "00299570-246d-11d0-a768-00aa006e0529"
GET_CHANGES_ALL = "1131f6ad-9c07-11d1-f79f-00c04fc2dcd2"
GET_CHANGES_IN_FILTERED_SET = "89e95b76-444d-4c62-991a-0facbeda640c"
INSTALL_REPLICA = "9923a32a-3607-11d2-b9be-0000f87a36b2"
MIGRATE_SID_HISTORY = "ba33815a-4f93-4c76-87f3-57574bff8109"
MEMBER = "bf9679c0-0de6-11d0-a285-00aa003049e2"
ACCOUNT_RESTRICTIONS = "4c164200-20c0-11d0-a768-00aa006e0529"
COMPUTER = "bf967a86-0de6-11d0-a285-00aa003049e2"
USER = "bf967aba-0de6-11d0-a285-00aa003049e2"

ON_THE_DOMAIN = {
    "replication of secrets": f"(OA;;CR;{GET_CHANGES_ALL};;{{sid}})",
    "replication of filtered secrets": f"(OA;;CR;{GET_CHANGES_IN_FILTERED_SET};;{{sid}})",
    "all extended rights": "(A;;CR;;;{sid})",
    "write DACL": "(A;;WD;;;{sid})",
    "write owner": "(A;;WO;;;{sid})",
    "full control": "(A;;GA;;;{sid})",
    "full control of users": f"(OA;CIIO;GA;;{USER};{{sid}})",
    "reset password": f"(OA;;CR;{RESET_PASSWORD};;{{sid}})",
    "reset password of users": f"(OA;CIIO;CR;{RESET_PASSWORD};{USER};{{sid}})",
    "write all properties": "(A;CI;WP;;;{sid})",
    "write account restrictions of computers": f"(OA;CIIO;WP;{ACCOUNT_RESTRICTIONS};{COMPUTER};{{sid}})",
    "install replica": f"(OA;;CR;{INSTALL_REPLICA};;{{sid}})",
    "migrate SID history": f"(OA;;CR;{MIGRATE_SID_HISTORY};;{{sid}})",
}
ON_ADMIN_SD_HOLDER = {
    "write DACL": "(A;;WD;;;{sid})",
    "write owner": "(A;;WO;;;{sid})",
    "full control": "(A;;GA;;;{sid})",
    "reset password": f"(OA;;CR;{RESET_PASSWORD};;{{sid}})",
    "generic write": "(A;;GW;;;{sid})",
    "write members": f"(OA;;WP;{MEMBER};;{{sid}})",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A protected object. `resources` are the kinds of paths that it is reached by besides `objects`."""

    target: UUID
    resources: frozenset[str] = frozenset()
    is_container: bool = False
    """Whether what is created in it, moved or restored into it, counts too."""
    only_holds: bool = False
    """Whether it is not protected itself, but holds what is: it may be changed otherwise."""


Estate = dict[str, Kind]


@contextmanager
def protected_objects(domain: Domain, directory: Directory, delegated: Delegated) -> Iterator[Estate]:
    """An object of each kind, by the kind's name, for as long as the block lasts."""
    base = directory.base_dn
    unit = directory.add_unit(random_name("protected"))
    head, admin_sd_holder = directory.guid(base), directory.guid(f"CN=AdminSDHolder,CN=System,{base}")
    before = {guid: directory.descriptor(guid) for guid in (head, admin_sd_holder)}
    made = _Maker(domain, directory, unit)
    try:
        yield made.everything(delegated)
    finally:
        for guid, descriptor in before.items():
            directory.set_owner(guid, descriptor)
            directory.set_access_control(guid, descriptor)
        for guid in (directory.guid(unit), *made.elsewhere):
            directory.delete(guid, recursive=True)


class _Maker:
    def __init__(self, domain: Domain, directory: Directory, unit: str) -> None:
        self._domain, self._directory, self._unit = domain, directory, unit
        self._base = directory.base_dn
        self.elsewhere: list[UUID] = []

    def everything(self, delegated: Delegated) -> Estate:
        return {
            **self._gateways(delegated),
            **self._administrators(),
            **self._holders(),
            **self._places(),
        }

    def _gateways(self, delegated: Delegated) -> Estate:
        directory = self._directory
        outer = directory.add_group(parent=self._unit, members=[delegated.other])
        return {
            "bind account": self._user(delegated.bind_dn),
            "bind account of a disabled connection": self._user(self._add_user("other-gateway")),
            "bind account's unit": self._holding(delegated.unit),
            "group that gives the bind account rights": self._group(delegated.other),
            "group above that": self._group(outer),
        }

    def _administrators(self) -> Estate:
        directory, base = self._directory, self._base
        nested = self._add_user()
        inner = directory.add_group(parent=self._unit, members=[nested])
        computer = directory.add_computer(parent=self._unit)
        unit = directory.add_unit(random_name("tier-0"), parent=self._unit)
        deep = directory.add_user(parent=directory.add_unit("Inner", parent=unit))
        outer = directory.add_group(parent=self._unit, members=[inner, computer, deep])
        directory.add_values(f"CN=Domain Admins,CN=Users,{base}", member=directory.dn(outer))
        trust_account = self._add_user()
        overwrite(self._domain, directory, {trust_account: {"userAccountControl": str(0x0820)}})
        return {
            "Administrator": self._user(f"CN=Administrator,CN=Users,{base}"),
            "krbtgt": self._user(f"CN=krbtgt,CN=Users,{base}"),
            "nested administrator": self._user(nested),
            "marked administrator": self._user(self._add_user(adminCount="1")),
            "account of a trust": self._user(trust_account),
            "Domain Admins": self._group(f"CN=Domain Admins,CN=Users,{base}"),
            "Administrators": self._group(f"CN=Administrators,CN=Builtin,{base}"),
            "group in an administrative one": self._group(inner),
            "administrators' computer": Kind(computer, frozenset({"computers"})),
            "domain controller": Kind(directory.guid(f"CN=DC1,OU=Domain Controllers,{base}"), frozenset({"computers"})),
            "unit that holds an administrator": self._holding(unit),
        }

    def _holders(self) -> Estate:
        directory = self._directory
        admin_sd_holder = f"CN=AdminSDHolder,CN=System,{self._base}"
        kinds: Estate = {}
        for place, name, rights in (
            (self._base, "the domain", ON_THE_DOMAIN),
            (admin_sd_holder, "AdminSDHolder", ON_ADMIN_SD_HOLDER),
        ):
            entries = []
            for right, entry in rights.items():
                user = self._add_user()
                entries.append(entry.format(sid=directory.sid(user)))
                kinds[f"{right} on {name}"] = self._user(user)
            if place == self._base:
                member = self._add_user()
                inner = directory.add_group(parent=self._unit, members=[member])
                group = directory.add_group(parent=self._unit, members=[inner])
                entries.append(ON_THE_DOMAIN["replication of secrets"].format(sid=directory.sid(group)))
                kinds["group that may replicate"] = self._group(group)
                kinds["group in that"] = self._group(inner)
                kinds["member of that"] = self._user(member)
            add_entries(directory, place, *entries, domain_sid=directory.sid(self._base))
            owner = self._add_user()
            directory.set_owner(place, pack(f"O:{directory.sid(owner)}")[0])
            kinds[f"owner of {name}"] = self._user(owner)
        return kinds

    def _places(self) -> Estate:
        directory, base = self._directory, self._base
        system, configuration = f"CN=System,{base}", f"CN=Configuration,{base}"
        policy = self._add(f"CN={{{random_name('policy')}}},CN=Policies,{system}", "groupPolicyContainer")
        settings = self._add(
            f"CN={random_name('settings')},CN=Password Settings Container,{system}",
            "msDS-PasswordSettings",
            **_PASSWORD_SETTINGS,
        )
        zones = self._add(f"CN={random_name('dns')},{system}", "container")
        zone = directory.add(f"DC=corp.example.test,{directory.dn(zones)}", {"objectClass": "dnsZone"})
        trust = directory.guid(add_trust(self._domain, f"{random_name('t')}.test"))
        self.elsewhere.append(trust)
        staging = self._add(f"CN={random_name('staging')},OU=Domain Controllers,{base}", "container")

        def existing(name: str, *, is_container: bool = False, resources: frozenset[str] = frozenset()) -> Kind:
            return Kind(directory.guid(name), resources, is_container=is_container)

        return {
            "policy": Kind(policy, is_container=True),
            "policies": existing(f"CN=Policies,{system}", is_container=True),
            "password settings": Kind(settings),
            "AdminSDHolder": existing(f"CN=AdminSDHolder,{system}", is_container=True),
            "System": existing(system, is_container=True),
            "DNS zone": Kind(zone, is_container=True),
            "trust": Kind(trust),
            "domain": existing(base),
            "Domain Controllers": existing(
                f"OU=Domain Controllers,{base}", is_container=True, resources=frozenset({"organization-units"})
            ),
            "object among the domain controllers": Kind(staging, is_container=True),
            "services of the forest": existing(f"CN=Services,{configuration}", is_container=True),
            "dSHeuristics": existing(f"CN=Directory Service,CN=Windows NT,CN=Services,{configuration}"),
            "class of the schema": existing(f"CN=User,CN=Schema,{configuration}"),
        }

    def _add_user(self, name: str | None = None, **attributes: Any) -> UUID:
        return self._directory.add_user(name, parent=self._unit, password=PASSWORD, **attributes)

    def _add(self, dn: str, object_class: str, **attributes: str) -> UUID:
        guid = self._directory.add(dn, {"objectClass": object_class, **attributes})
        self.elsewhere.append(guid)
        return guid

    def _user(self, target: UUID | str) -> Kind:
        return Kind(self._directory.guid(target), frozenset({"users"}))

    def _group(self, target: UUID | str) -> Kind:
        return Kind(self._directory.guid(target), frozenset({"groups"}))

    def _holding(self, unit: str) -> Kind:
        return Kind(self._directory.guid(unit), frozenset({"organization-units"}), only_holds=True)


_PASSWORD_SETTINGS = {
    "msDS-PasswordSettingsPrecedence": "10",
    "msDS-PasswordReversibleEncryptionEnabled": "FALSE",
    "msDS-PasswordHistoryLength": "5",
    "msDS-PasswordComplexityEnabled": "TRUE",
    "msDS-MinimumPasswordLength": "9",
    "msDS-MinimumPasswordAge": "-864000000000",
    "msDS-MaximumPasswordAge": "-36288000000000",
    "msDS-LockoutThreshold": "5",
    "msDS-LockoutObservationWindow": "-18000000000",
    "msDS-LockoutDuration": "-18000000000",
}
