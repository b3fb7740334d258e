"""An account for the gateway that has what the product needs by delegation, and is in no administrative group.

What it holds is the table `RIGHTS`, and nothing else: the documentation of what an administrator has to grant.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab.directory import Directory, random_name
from lab.domain import Domain
from lab.samba.database import set_descriptor
from tests.support.descriptors import add_entries, pack

PASSWORD = "Delegated-Service-1"
DOMAIN, DELETED_OBJECTS = ("the domain", "its container of deleted objects")
"""Whose access control list an entry belongs to."""


@dataclass(frozen=True, slots=True)
class Right:
    """An entry in an access control list; `{sid}` is the group of the gateway's account."""

    entry: str
    purpose: str
    on: str = DOMAIN


# schemaIDGUIDs ([MS-ADSC])
_CLASSES = {
    "users": "bf967aba-0de6-11d0-a285-00aa003049e2",
    "groups": "bf967a9c-0de6-11d0-a285-00aa003049e2",
    "computers": "bf967a86-0de6-11d0-a285-00aa003049e2",
    "organizational units": "bf967aa5-0de6-11d0-a285-00aa003049e2",
    "contacts": "5cb41ed0-0e4c-11d0-a286-00aa003049e2",
    "containers": "bf967a8b-0de6-11d0-a285-00aa003049e2",
}
_ACCOUNTS = ("users", "computers")
# rightsGuids ([MS-ADTS] 5.1.3.2.1)
_RESET_PASSWORD = "00299570-246d-11d0-a768-00aa006e0529"
_REANIMATE_TOMBSTONES = "45ec5156-db7e-47bb-b53f-dbeb2d03c40f"

RIGHTS = (
    Right("(A;CI;LCRPLORC;;;{sid})", "List and read everything, access control lists included"),
    *(Right(f"(OA;CI;CCDC;{guid};;{{sid}})", f"Create and delete {name}") for name, guid in _CLASSES.items()),
    *(
        Right(f"(OA;CIIO;WPSDDT;;{guid};{{sid}})", f"Change, move, rename and delete {name}")
        for name, guid in _CLASSES.items()
    ),
    *(
        Right(f"(OA;CIIO;CR;{_RESET_PASSWORD};{_CLASSES[name]};{{sid}})", f"Reset the passwords of {name}")
        for name in _ACCOUNTS
    ),
    Right(f"(OA;;CR;{_REANIMATE_TOMBSTONES};;{{sid}})", "Restore deleted objects"),
    Right("(A;CI;LCRP;;;{sid})", "List and read deleted objects", on=DELETED_OBJECTS),
)
"""What is granted on the domain's head holds everywhere in it where inheritance is not blocked."""


@dataclass(frozen=True, slots=True)
class Delegated:
    """The account, the unit that it is in, and the groups it is in.

    `holder` has been granted RIGHTS; `other` has none of them, nor is anybody else in it.
    """

    bind_dn: str
    password: str
    unit: str
    holder: str
    other: str


@contextmanager
def delegated_account(domain: Domain, directory: Directory) -> Iterator[Delegated]:
    """Make the account and grant it its rights, for as long as the block lasts."""
    unit = directory.add_unit(random_name("gateway"))
    name = random_name("svc")
    account = directory.add_user(
        name, parent=unit, password=PASSWORD, userPrincipalName=f"{name}@corp.example.test", sAMAccountName=name
    )
    holder = directory.add_group("Gateway rights", parent=unit, members=[account])
    other = directory.add_group("Gateway servers", parent=unit, members=[account])
    sid = directory.sid(holder)
    granted = dict.fromkeys((DOMAIN, DELETED_OBJECTS), "")
    for right in RIGHTS:
        granted[right.on] += right.entry.format(sid=sid)
    before = directory.descriptor(directory.base_dn)
    add_entries(directory, directory.base_dn, granted[DOMAIN], domain_sid=directory.sid(directory.base_dn))
    # Its list names the system and the administrators, and the latter may only read.
    (deleted_objects,) = pack(f"O:SYG:SYD:P(A;;CCDCLCSWRPWPSDRCWDWO;;;SY)(A;;LCRP;;;BA){granted[DELETED_OBJECTS]}")
    set_descriptor(domain, f"CN=Deleted Objects,{directory.base_dn}", deleted_objects)
    try:
        yield Delegated(
            bind_dn=directory.dn(account),
            password=PASSWORD,
            unit=unit,
            holder=directory.dn(holder),
            other=directory.dn(other),
        )
    finally:
        directory.set_access_control(directory.base_dn, before)
        directory.delete(unit, recursive=True)
