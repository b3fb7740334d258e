"""Why an object is protected, in words for people. Whether it is, `rules` decides."""

from collections.abc import Iterator
from uuid import UUID

from active_directory import Client, DistinguishedName, Entry, SystemFlags, UserAccountControl
from core.text.messages import message
from directory.protection.bind_accounts import bind_accounts, groups_of_bind_accounts
from directory.protection.domain_control import domain_owners
from directory.protection.domain_infrastructure import places_of, why_governing
from directory.protection.rules import find_protected_below, path_to_holders, path_to_unreadable_group
from directory.protection.state import administrative_accounts, administrative_groups
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
        return message("it holds {name}, which the gateway's account may not read", name=_name(below.dn))
    return message(
        "it holds {name}, {protection}",
        name=_name(below.dn),
        protection=_own_reason(client, below) or message("which is protected"),
    )


def _own_reason(client: Client, entry: Entry) -> str | None:
    """The most telling of the reasons. The marks come last: they are traces of the others, and can be left over."""
    return next(_reasons(client, entry), None)


def _reasons(client: Client, entry: Entry) -> Iterator[str]:
    domain_sid = places_of(client).domain_sid
    sid = next(iter(entry.values("objectSid")), None)
    if sid in administrative_accounts(domain_sid):
        yield message("a built-in administrative account")
    if sid in administrative_groups(domain_sid):
        yield message("a built-in administrative group")
    if sid is not None and (connection := bind_accounts(client).get(sid)) is not None:
        yield (
            message("the account that the gateway signs in with (connection {name})", name=connection)
            if connection
            else message("the account that the gateway signs in with")
        )
    path, right = path_to_holders(client, entry)
    if path:
        *between, group = (_name(dn) for dn in path)
        way = message("member of {group}", group=group)
        if between:
            way = message("member of {group} through {between}", group=group, between=" and ".join(between))
        yield message("{membership}, which {right}", membership=way, right=right) if right else way
    if sid is not None and sid in (by_access := domain_owners(client)):
        yield message("one that {right}", right=by_access[sid])
    if path := path_to_unreadable_group(client, entry):
        yield message("member of {group}, which the gateway's account may not read", group=path[-1])
    if sid is not None and "primaryGroupID" not in entry and sid in groups_of_bind_accounts(client):
        yield message("a group that gives the gateway's own account its rights")
    if entry.number("userAccountControl") & _CONTROLLER_BITS:
        yield message("a domain controller")
    if place := why_governing(client, entry.dn):
        yield place
    yield from (words for is_so, words in _marks(entry) if is_so)


def _marks(entry: Entry) -> tuple[tuple[bool, str], ...]:
    control, flags = entry.number("userAccountControl"), entry.number("systemFlags")
    return (
        (
            bool(control & UserAccountControl.INTERDOMAIN_TRUST_ACCOUNT),
            message("the account of a trust between domains"),
        ),
        (entry.boolean("isCriticalSystemObject"), message("marked as a critical system object")),
        (entry.integer("adminCount") == 1, message("marked as an administrator's: its adminCount is 1")),
        (bool(flags & SystemFlags.DISALLOW_DELETE), message("marked as not to be deleted")),
    )


def _name(dn: str) -> str:
    return DistinguishedName.parse(dn).rdn_value
