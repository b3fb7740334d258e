"""The company's sites, departments and units, and the shapes of its entries."""

import datetime
from dataclasses import dataclass, field
from typing import NamedTuple

from lab.company import names
from lab.company.names import NameSet

DOMAIN = "corp.example.test"
COMPANY = "Example Corporation"
STAFF = "OU=Staff"
TEMPORARY_STAFF = "OU=Temporary Staff"
ADMINISTRATION = "OU=Administration"
GROUPS = "OU=Groups"
SERVICE_ACCOUNTS = "OU=Service Accounts"
MANAGED_ACCOUNTS = "CN=Managed Service Accounts"

# userAccountControl, MS-ADTS 2.2.16
DISABLED, NOT_REQUIRED, NORMAL, WORKSTATION, NEVER_EXPIRES = 0x0002, 0x0020, 0x0200, 0x1000, 0x10000
# groupType, MS-ADTS 2.2.12; the security bit makes the signed integer negative
GLOBAL, DOMAIN_LOCAL, UNIVERSAL, SECURITY = 0x2, 0x4, 0x8, -0x80000000


class Site(NamedTuple):
    """A site and the names that most of its people have."""

    name: str
    code: str
    country: str
    phone: str
    people: NameSet


SITES = (
    Site("Berlin", "BER", "DE", "+49 30 555", names.CENTRAL_EUROPEAN),
    Site("São Paulo", "SAO", "BR", "+55 11 5555", names.ROMANCE),
    Site("Αθήνα", "ATH", "GR", "+30 21 5555", names.GREEK),
    Site("Київ", "KYI", "UA", "+380 44 555", names.CYRILLIC),
    Site("東京", "TYO", "JP", "+81 3 5555", names.CHINESE_JAPANESE_KOREAN),
)
DEPARTMENTS = {
    "Accounting": ("Accountant", "Payroll Clerk", "Controller"),
    "Engineering": ("Engineer", "Senior Engineer", "Architect"),
    "Human Resources": ("Recruiter", "HR Partner", "HR Clerk"),
    "IT": ("Administrator", "Support Analyst", "Network Engineer"),
    "Legal": ("Counsel", "Paralegal", "Contract Manager"),
    "Research & Development": ("Researcher", "Scientist", "Laboratory Technician"),
    "Sales": ("Account Manager", "Sales Representative", "Sales Engineer"),
}
SHARES = ("Budget", "Contracts", "Designs", "Handbook", "Invoices", "Minutes", "Payroll", "Projects", "Specifications")
LISTS = (
    "All Staff",
    "Announcements",
    "Board",
    "Canteen",
    "Cycling Club",
    "Facilities",
    "Newsletter",
    "On Call",
    "Works Council",
)
OTHER_UNITS = (
    GROUPS,
    f"OU=Security,{GROUPS}",
    f"OU=Distribution,{GROUPS}",
    "OU=Workstations",
    "OU=Servers",
    "OU=Contacts",
    "OU=Leavers",
    TEMPORARY_STAFF,
    ADMINISTRATION,
)
TEMPORARY_COUNT = 12
HELPDESK, HR_OPERATORS = "Helpdesk", "HR Operators"
CONTRACTORS, TIER_0, SITE_OPERATORS = "Contractors", "Tier 0 Operators", "Athens Operators"


@dataclass
class Entry:
    """An object: its name relative to the domain, its attributes, and attributes written after its creation."""

    dn: str
    attributes: dict[str, str | list[str]]
    # Written past the checks for LDAP clients: times of sign-in, lock-out and password that would take months to arise.
    history: dict[str, str] = field(default_factory=dict)
    has_password: bool = False


class Delegation(NamedTuple):
    """A task on a unit that is delegated to a group, both by name."""

    unit: str
    group: str
    task: str


@dataclass
class Organization:
    """Everything to write, in this order; names are relative to the domain."""

    entries: list[Entry]
    members: dict[str, list[str]]  # group → members, groups by sAMAccountName
    delegations: list[Delegation]
    protected_units: list[str]  # from accidental deletion
    deleted: list[str]  # created and then deleted, so that they can be restored


def filetime(moment: datetime.datetime) -> str:
    """A time as a FILETIME, in 100 ns since 1601."""
    since = moment - datetime.datetime(1601, 1, 1, tzinfo=datetime.UTC)
    return str(int(since.total_seconds()) * 10_000_000)


def escape_rdn(value: str) -> str:
    """Escape a value for a relative distinguished name (RFC 4514 section 2.4)."""
    escaped = "".join(f"\\{character}" if character in ',+"\\<>;=' else character for character in value)
    return f"\\{escaped}" if escaped.startswith(("#", " ")) else escaped
