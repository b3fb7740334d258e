"""Why an object is protected, in words for people. Whether it is, `policy` decides."""

from uuid import UUID

from directory.ldap import Client, DistinguishedName, Entry
from directory.ldap.flags import SystemFlags, UserAccountControl
from directory.policy import (
    find_protected_below,
    is_administrative_account,
    is_administrative_group,
    path_to_administrators,
    path_to_unreadable_group,
)
from directory.shapes.record import PROTECTION_ATTRIBUTES

_CONTROLLER_BITS = UserAccountControl.SERVER_TRUST_ACCOUNT | UserAccountControl.PARTIAL_SECRETS_ACCOUNT


def why_protected(client: Client, guid: UUID) -> str | None:
    """What protects an object, such as "member of Domain Admins through Helpdesk"; None when nothing does (any more).

    Of an object that only holds a protected one below it: which, and what protects that.
    """
    entry = client.find(guid, PROTECTION_ATTRIBUTES)
    if entry is None:
        return None
    if own := _own_reason(client, entry):
        return own
    below = find_protected_below(client, entry.dn)
    if below is None:
        return None
    if "objectGUID" not in below:
        return f"it holds {_name(below.dn)}, which the gateway's account may not read"
    return f"it holds {_name(below.dn)}, {_own_reason(client, below) or 'which is protected'}"


def _own_reason(client: Client, entry: Entry) -> str | None:
    """The most telling of the reasons. The marks come last: they are traces of the others, and can be left over."""
    if is_administrative_account(client, entry):
        return "a built-in administrative account"
    if is_administrative_group(client, entry):
        return "a built-in administrative group"
    if path := path_to_administrators(client, entry):
        *between, group = (_name(dn) for dn in path)
        return f"member of {group}" + (f" through {' and '.join(between)}" if between else "")
    if path := path_to_unreadable_group(client, entry):
        return f"member of {path[-1]}, which the gateway's account may not read"
    return next((words for is_so, words in _marks(client, entry) if is_so), None)


def _marks(client: Client, entry: Entry) -> tuple[tuple[bool, str], ...]:
    control, flags = entry.integer("userAccountControl") or 0, entry.integer("systemFlags") or 0
    configuration = client.configuration_naming_context.lower()
    return (
        (bool(control & _CONTROLLER_BITS), "a domain controller"),
        (entry.dn.lower().endswith(configuration), "a part of the forest's configuration"),
        (entry.boolean("isCriticalSystemObject"), "marked as a critical system object"),
        (entry.integer("adminCount") == 1, "marked as an administrator's: its adminCount is 1"),
        (bool(flags & SystemFlags.DISALLOW_DELETE), "marked as not to be deleted"),
    )


def _name(dn: str) -> str:
    return DistinguishedName.parse(dn).rdn_value
