"""Builds the company, of any size, as plain data: units, people, groups, computers, delegations.

Everything follows from the seed, the number of users and the time, so that two machines get the same company.
`fill_domain` writes it.
"""

import datetime
import random
from collections.abc import Iterable, Iterator

from lab.company import names
from lab.company.names import Name, NameSet
from lab.company.shapes import (
    ADMINISTRATION,
    COMPANY,
    CONTRACTORS,
    DEPARTMENTS,
    DISABLED,
    DOMAIN,
    DOMAIN_LOCAL,
    GLOBAL,
    GROUPS,
    HELPDESK,
    HR_OPERATORS,
    LISTS,
    MANAGED_ACCOUNTS,
    NEVER_EXPIRES,
    NORMAL,
    NOT_REQUIRED,
    OTHER_UNITS,
    SECURITY,
    SERVICE_ACCOUNTS,
    SHARES,
    SITE_OPERATORS,
    SITES,
    STAFF,
    TEMPORARY_COUNT,
    TEMPORARY_STAFF,
    TIER_0,
    UNIVERSAL,
    WORKSTATION,
    Delegation,
    Entry,
    Organization,
    Site,
    escape_rdn,
    filetime,
)


def build_organization(
    users: int = 640, *, seed: int = 1815, now: datetime.datetime | None = None, base_dn: str
) -> Organization:
    """Build a company with ``users`` people, plus accounts for services and administration, as of ``now``."""
    return _Builder(users, random.Random(seed), now or datetime.datetime.now(datetime.UTC), base_dn).build()


class _Builder:
    def __init__(self, users: int, chance: random.Random, now: datetime.datetime, base_dn: str) -> None:
        self.users = users
        self.chance = chance
        self.now = now
        self.base_dn = base_dn
        self.entries: list[Entry] = []
        self.members: dict[str, list[str]] = {}
        self.deleted: list[str] = []
        self._account_names: set[str] = set()
        self._dns: set[str] = set()

    def build(self) -> Organization:
        self.entries += [Entry(dn, {"objectClass": "organizationalUnit"}) for dn in self._units()]
        self._add_groups()
        self._add_staff()
        self._add_temporary_staff()
        self._add_administration()
        self._add_service_accounts()
        self._add_computers()
        self._add_contacts()
        self._add_leavers()
        self._add_password_policy()
        return Organization(
            entries=self.entries,
            members=self.members,
            delegations=[
                Delegation(STAFF, HELPDESK, "Reset password"),
                Delegation(STAFF, HELPDESK, "Unlock"),
                Delegation(STAFF, HR_OPERATORS, "Write phone numbers"),
                Delegation("OU=Leavers", HR_OPERATORS, "Create and delete users"),
                Delegation(f"OU=Αθήνα,{STAFF}", SITE_OPERATORS, "Full control"),
                Delegation("OU=Workstations", HELPDESK, "Create and delete computers"),
            ],
            protected_units=[ADMINISTRATION],
            deleted=self.deleted,
        )

    def _units(self) -> Iterator[str]:
        yield STAFF
        for site in SITES:
            yield f"OU={site.name},{STAFF}"
            for department in DEPARTMENTS:
                yield f"OU={department},OU={site.name},{STAFF}"
        yield from OTHER_UNITS

    def _add_groups(self) -> None:
        """Put accounts into global groups, and these into domain local groups with the rights (Microsoft's AGDLP)."""
        for department in DEPARTMENTS:
            self._add_group(f"Department {department}", GLOBAL | SECURITY, f"Everyone in {department}")
        for site in SITES:
            self._add_group(f"Site {site.name}", GLOBAL | SECURITY, f"Everyone in {site.name}")
            for department in DEPARTMENTS:
                name = f"{site.code} {department}"
                self._add_group(name, GLOBAL | SECURITY, f"{department} in {site.name}")
                self._join(f"Department {department}", self._group_dn(name))
                self._join(f"Site {site.name}", self._group_dn(name))
        for share in SHARES:
            for right in ("Read", "Write"):
                name = f"Share {share} {right}"
                self._add_group(name, DOMAIN_LOCAL | SECURITY, f"{right} access to \\\\files\\{share}")
                for department in self.chance.sample(sorted(DEPARTMENTS), 2):
                    self._join(name, self._group_dn(f"Department {department}"))
            self._join(f"Share {share} Read", self._group_dn(f"Share {share} Write"))
        for name in LISTS:
            self._add_group(name, UNIVERSAL, f"Mailing list {name}", mail=f"{name.lower().replace(' ', '-')}@{DOMAIN}")
        for site in SITES:
            self._join("All Staff", self._group_dn(f"Site {site.name}", GLOBAL | SECURITY))
        for name, description in (
            (HELPDESK, "Resets passwords and unlocks accounts of the staff"),
            (HR_OPERATORS, "Keeps phone numbers and leavers"),
            (CONTRACTORS, "People of other companies; stricter password policy"),
            (SITE_OPERATORS, "Full control of the unit Αθήνα"),
            (TIER_0, "Nested in Domain Admins: every member is a protected account"),
            ("VPN Users", "May sign in from outside"),
        ):
            self._add_group(name, GLOBAL | SECURITY, description)
        self._join(HELPDESK, self._group_dn("BER IT"))
        self._join(HR_OPERATORS, self._group_dn("BER Human Resources"))
        self._join("Domain Admins", self._group_dn(TIER_0))

    def _add_staff(self) -> None:
        heads: dict[str, str] = {}
        places = [(site, department) for department in DEPARTMENTS for site in SITES]
        for number in range(self.users):
            site, department = places[number % len(places)]
            unit = f"OU={department},OU={site.name},{STAFF}"
            given, family, people = self._person(site, first=number == 0)
            head = heads.get(unit)
            entry = self._user(
                unit,
                given,
                family,
                people,
                department=department,
                title=f"Head of {department}" if head is None else self.chance.choice(DEPARTMENTS[department]),
                company=COMPANY,
                l=site.name,
                c=site.country,
                physicalDeliveryOfficeName=f"{site.code}-{self.chance.randint(1, 9)}.{self.chance.randint(1, 60):02}",
                telephoneNumber=f"{site.phone} {self.chance.randint(1000, 9999)}",
                employeeID=f"{10000 + number}",
                **({"manager": f"{head},{self.base_dn}"} if head else {}),
            )
            heads.setdefault(unit, entry.dn)
            if number >= len(places):  # heads of departments have ordinary accounts
                self._give_state(entry, number)
            else:
                self._signed_in(entry, days_ago=number % 7)
            self._join(f"{site.code} {department}", entry.dn)
            if number % 4 == 0:
                self._join("VPN Users", entry.dn)
            if number % 9 == 0:
                self._join(LISTS[number // 9 % (len(LISTS) - 1) + 1], entry.dn)

    def _give_state(self, entry: Entry, number: int) -> None:
        """Give accounts their states, in fixed proportions; nearly two thirds are ordinary."""
        state = number % 25
        self._signed_in(entry, days_ago=number % 20)
        if state == 0:
            self._set_control(entry, NORMAL | DISABLED)
        elif state == 1:
            entry.attributes["accountExpires"] = filetime(self.now - datetime.timedelta(days=number % 200 + 1))
        elif state == 2:
            entry.attributes["accountExpires"] = filetime(self.now + datetime.timedelta(days=number % 25 + 2))
        elif state == 3:
            # The contractors' policy locks until an unlock; the domain's lock-out ends after 30 minutes.
            entry.history["lockoutTime"] = filetime(self.now - datetime.timedelta(hours=number % 48 + 1))
            entry.history["badPwdCount"] = "5"
            self._join(CONTRACTORS, entry.dn)
        elif state in (4, 5):
            entry.history.pop("lastLogonTimestamp")
            entry.history.pop("lastLogon")
        elif state == 6:
            entry.history["pwdLastSet"] = "0"
        elif state in (7, 8):
            self._signed_in(entry, days_ago=number % 300 + 95)
        elif state == 9:
            self._set_control(entry, NORMAL | NEVER_EXPIRES)
        elif state == 10:
            entry.history["pwdLastSet"] = filetime(self.now - datetime.timedelta(days=number % 300 + 43))
        elif state == 11:
            entry.history["pwdLastSet"] = filetime(self.now - datetime.timedelta(days=38))
        elif number % 100 == 12:
            self._set_control(entry, NORMAL | NOT_REQUIRED)

    def _add_temporary_staff(self) -> None:
        """Add the unit of the last step of docs/getting-started.md: all enabled, the last a protected administrator."""
        for number in range(TEMPORARY_COUNT):
            given, family, people = self._person(self.chance.choice(SITES))
            entry = self._user(TEMPORARY_STAFF, given, family, people, title="Temporary Assistant", company=COMPANY)
            self._signed_in(entry, days_ago=number)
            self._join(CONTRACTORS, entry.dn)
        entry.attributes["title"] = "Temporary Administrator"
        self._join(TIER_0, entry.dn)

    def _add_administration(self) -> None:
        for name, description in (
            ("svc-breakglass", "For emergencies; an administrator through Tier 0 Operators"),
            ("adm-lovelace", "Administrative account of Ada Lovelace"),
        ):
            entry = self._service_user(name, ADMINISTRATION, description)
            self._join(TIER_0, entry.dn)

    def _add_service_accounts(self) -> None:
        for name, service, host in (
            ("svc-sql", "MSSQLSvc", "srv-ber-01"),
            ("svc-web", "HTTP", "intranet"),
            ("svc-backup", "backup", "srv-ath-02"),
        ):
            entry = self._service_user(name, SERVICE_ACCOUNTS, f"Runs {service} on {host}")
            entry.attributes["servicePrincipalName"] = [f"{service}/{host}", f"{service}/{host}.{DOMAIN}"]
        for object_class, prefix in (
            ("msDS-ManagedServiceAccount", "msa"),
            ("msDS-GroupManagedServiceAccount", "gmsa"),
        ):
            for service in ("reports", "print", "scan"):
                name = f"{prefix}-{service}"
                entry = Entry(
                    f"CN={name},{MANAGED_ACCOUNTS}",
                    {
                        "objectClass": object_class,
                        "sAMAccountName": f"{name}$",
                        "dNSHostName": f"{name}.{DOMAIN}",
                        "userAccountControl": str(WORKSTATION),
                        "description": f"Managed account of the {service} service",
                    },
                )
                if prefix == "gmsa":
                    entry.attributes["msDS-ManagedPasswordInterval"] = "30"
                self.entries.append(entry)

    def _add_computers(self) -> None:
        for number in range(64):
            site = SITES[number % len(SITES)]
            server = number % 3 == 2
            name = f"{'srv' if server else 'pc'}-{site.code.lower()}-{number // len(SITES) + 1:02}"
            control = WORKSTATION | (DISABLED if number % 10 == 9 else 0)
            entry = Entry(
                f"CN={name.upper()},OU={'Servers' if server else 'Workstations'}",
                {
                    "objectClass": "computer",
                    "sAMAccountName": f"{name.upper()}$",
                    "userAccountControl": str(control),
                    "dNSHostName": f"{name}.{DOMAIN}",
                    "servicePrincipalName": [f"HOST/{name.upper()}", f"HOST/{name}.{DOMAIN}"],
                    "operatingSystem": "Windows Server 2022 Standard" if server else "Windows 11 Enterprise",
                    "operatingSystemVersion": "10.0 (20348)" if server else "10.0 (22631)",
                    "location": site.name,
                },
            )
            if number % 13 != 12:
                self._signed_in(entry, days_ago=200 + number if number % 8 == 7 else number % 14)
            self.entries.append(entry)

    def _add_contacts(self) -> None:
        for number in range(10):
            given, family, people = self._person(SITES[number % len(SITES)])
            name = _common_name(given, family, people)
            mail = f"{given.latin}.{family.latin}@partner.example"
            attributes: dict[str, str | list[str]] = {
                "objectClass": "contact",
                "displayName": name,
                "mail": mail,
                "company": "Partner Ltd",
            }
            dn = self._free_dn(name, "OU=Contacts")
            self.entries.append(Entry(dn, attributes))
            self._join("Newsletter", dn)

    def _add_leavers(self) -> None:
        """Add people who left: disabled accounts, half of which are then deleted."""
        for number in range(20):
            given, family, people = self._person(SITES[number % len(SITES)])
            entry = self._user("OU=Leavers", given, family, people, company=COMPANY, description="Left the company")
            self._signed_in(entry, days_ago=60 + 11 * number)
            self._set_control(entry, NORMAL | DISABLED)
            if number % 2:
                self.deleted.append(entry.dn)

    def _add_password_policy(self) -> None:
        """Add fine-grained policies. Intervals are negative counts of 100 ns; the smallest integer means never."""
        day = 24 * 3600 * 10_000_000
        for name, precedence, length, days, group in (
            ("Contractors", 20, 12, 30, CONTRACTORS),
            ("Administrators", 10, 15, 365, TIER_0),
        ):
            self.entries.append(
                Entry(
                    f"CN={name},CN=Password Settings Container,CN=System",
                    {
                        "objectClass": "msDS-PasswordSettings",
                        "msDS-PasswordSettingsPrecedence": str(precedence),
                        "msDS-PasswordReversibleEncryptionEnabled": "FALSE",
                        "msDS-PasswordHistoryLength": "24",
                        "msDS-PasswordComplexityEnabled": "TRUE",
                        "msDS-MinimumPasswordLength": str(length),
                        "msDS-MinimumPasswordAge": str(-day),
                        "msDS-MaximumPasswordAge": str(-days * day),
                        "msDS-LockoutThreshold": "5",
                        "msDS-LockoutObservationWindow": str(-day // 24),
                        "msDS-LockoutDuration": str(-(2**63)),
                        "msDS-PSOAppliesTo": f"{self._group_dn(group)},{self.base_dn}",
                    },
                )
            )

    def _add_group(self, name: str, group_type: int, description: str, **attributes: str) -> None:
        self.entries.append(
            Entry(
                self._group_dn(name, group_type),
                {
                    "objectClass": "group",
                    "sAMAccountName": name,
                    "groupType": str(group_type),
                    "description": description,
                    **attributes,
                },
            )
        )

    def _group_dn(self, name: str, group_type: int = SECURITY) -> str:
        return f"CN={escape_rdn(name)},OU={'Security' if group_type < 0 else 'Distribution'},{GROUPS}"

    def _join(self, group: str, member_dn: str) -> None:
        self.members.setdefault(group, []).append(member_dn)

    def _person(self, site: Site, *, first: bool = False) -> tuple[Name, Name, NameSet]:
        """Choose a name: three of five people have names of their site, and the first person is always the same."""
        if first:
            return names.ENGLISH.given[0], names.ENGLISH.family[0], names.ENGLISH
        people = site.people if self.chance.random() < 0.6 else self.chance.choice(names.ALL)
        return self.chance.choice(people.given), self.chance.choice(people.family), people

    def _user(self, unit: str, given: Name, family: Name, people: NameSet, **attributes: str) -> Entry:
        account = self._free_account_name(f"{given.latin}.{family.latin}")
        name = _common_name(given, family, people)
        entry = Entry(
            self._free_dn(name, unit),
            {
                "objectClass": "user",
                "sAMAccountName": account,
                "userPrincipalName": f"{account}@{DOMAIN}",
                "userAccountControl": str(NORMAL),
                "displayName": name,
                "givenName": given.written,
                "sn": family.written,
                "mail": f"{account}@{DOMAIN}",
                **attributes,
            },
            has_password=True,
        )
        self.entries.append(entry)
        return entry

    def _service_user(self, name: str, unit: str, description: str) -> Entry:
        entry = Entry(
            f"CN={name},{unit}",
            {
                "objectClass": "user",
                "sAMAccountName": name,
                "userPrincipalName": f"{name}@{DOMAIN}",
                "displayName": name,
                "userAccountControl": str(NORMAL | NEVER_EXPIRES),
                "description": description,
            },
            has_password=True,
        )
        self.entries.append(entry)
        return entry

    def _free_account_name(self, wanted: str) -> str:
        """A free sAMAccountName of at most 20 characters, AD's limit ([MS-ADTS] 3.1.1.8.1), numbered if need be."""
        for suffix in _suffixes():
            name = wanted[: 20 - len(suffix)].rstrip(".") + suffix
            if name not in self._account_names:
                self._account_names.add(name)
                return name
        raise AssertionError("numbers do not run out")

    def _free_dn(self, name: str, unit: str) -> str:
        for suffix in _suffixes():
            dn = f"CN={escape_rdn(name + (f' ({suffix})' if suffix else ''))},{unit}"
            if dn not in self._dns:
                self._dns.add(dn)
                return dn
        raise AssertionError("numbers do not run out")

    def _signed_in(self, entry: Entry, *, days_ago: int) -> None:
        moment = filetime(self.now - datetime.timedelta(days=days_ago, hours=self.chance.randint(0, 9)))
        entry.history |= {"lastLogonTimestamp": moment, "lastLogon": moment}

    @staticmethod
    def _set_control(entry: Entry, value: int) -> None:
        entry.attributes["userAccountControl"] = str(value)


def _common_name(given: Name, family: Name, people: NameSet) -> str:
    if people.family_first_with_comma:
        return f"{family.written}, {given.written}"
    if people is names.CHINESE_JAPANESE_KOREAN:
        return f"{family.written} {given.written}"
    if given.latin == "andrii":
        return f'{given.written} "Енді" {family.written}'
    return f"{given.written} {family.written}"


def _suffixes() -> Iterable[str]:
    yield ""
    number = 2
    while True:
        yield str(number)
        number += 1
