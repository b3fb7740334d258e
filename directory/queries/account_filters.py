"""Which entries are a user's, a computer's or a service's account, for whoever looks for accounts and not for objects.

The kinds themselves are in `shapes.kinds`. Left out here are those nobody signs in with: trusts and the ticket keys.
"""

from collections.abc import Collection

from active_directory import (
    And,
    BitAnd,
    Client,
    DomainRid,
    Equals,
    Filter,
    Not,
    Or,
    Present,
    UserAccountControl,
    text_to_sid,
)
from directory.lookup.domain_sid import domain_sid
from directory.shapes.kinds import RESOURCES, Kind

CONTROL = "userAccountControl"

MANAGED = Equals("objectClass", "msDS-ManagedServiceAccount")
GROUP_MANAGED = Equals("objectClass", "msDS-GroupManagedServiceAccount")
# Came with Windows Server 2025: an older schema does not know the class, and then nothing is of it.
DELEGATED_MANAGED = Equals("objectClass", "msDS-DelegatedManagedServiceAccount")


def user_accounts(client: Client) -> Filter:
    """Users without the accounts of trusts between domains and those that hold the keys of all tickets.

    krbtgt is told by its RID; a read-only domain controller's has a number of its own ([MS-ADA2], attribute
    msDS-SecondaryKrbTgtNumber).
    """
    return And(
        RESOURCES["users"].condition,
        Not(BitAnd(CONTROL, UserAccountControl.INTERDOMAIN_TRUST_ACCOUNT)),
        Not(Equals("objectSid", text_to_sid(f"{domain_sid(client)}-{DomainRid.KRBTGT}"))),
        Not(Present("msDS-SecondaryKrbTgtNumber")),
    )


def accounts_of(client: Client, kinds: Collection[Kind]) -> Filter:
    """The accounts of these kinds."""
    filters: dict[Kind, Filter] = {
        Kind.USER: user_accounts(client),
        Kind.COMPUTER: RESOURCES["computers"].condition,
        Kind.SERVICE_ACCOUNT: Or(MANAGED, GROUP_MANAGED, DELEGATED_MANAGED),
    }
    return Or(*(filters[kind] for kind in dict.fromkeys(kinds)))
