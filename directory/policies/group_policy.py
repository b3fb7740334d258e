"""Which group policies an object inherits by its place (gPLink and gPOptions of what is above it), for warnings.

Whether a policy then applies (security filtering, WMI filters) is the clients' business and not looked at.
"""

import re

from active_directory import Client, DistinguishedName, Entry, LdapError
from core.text.messages import message
from directory.lookup.visibility import Visibility

_LINK = re.compile(r"\[LDAP://([^;\]]+);(\d+)\]", re.IGNORECASE)  # [MS-GPOL] 2.2.2
_DISABLED, _ENFORCED = 1, 2
_BLOCKS_INHERITANCE = 1
_SHOWN = 10


def inheritance_warnings(client: Client, entry: Entry, new_parent: str, visibility: Visibility) -> tuple[str, ...]:
    """What a move below another parent does to the policies inherited; `entry` was read with gPOptions."""
    blocks = entry.integer("gPOptions") == _BLOCKS_INHERITANCE
    before = _inherited(client, str(DistinguishedName.parse(entry.dn).parent), blocks)
    after = _inherited(client, new_parent, blocks)
    lost = {key: dn for key, dn in before.items() if key not in after}
    gained = {key: dn for key, dn in after.items() if key not in before}
    warnings = []
    if lost:
        warnings.append(message("Group policies no longer inherited: {names}.", names=_names(client, lost, visibility)))
    if gained:
        warnings.append(message("Group policies newly inherited: {names}.", names=_names(client, gained, visibility)))
    return tuple(warnings)


def _inherited(client: Client, parent: str, blocked: bool) -> dict[DistinguishedName, str]:
    """The policies linked to a container and those above it, as far as nothing on the way blocks them."""
    found: dict[DistinguishedName, str] = {}
    root = DistinguishedName.parse(client.default_naming_context)
    place: DistinguishedName | None = DistinguishedName.parse(parent)
    while place is not None and place.is_within(root):
        container = client.find(str(place), ("gPLink", "gPOptions"))
        if container is not None:
            for dn, options in _LINK.findall(container.text("gPLink") or ""):
                if not int(options) & _DISABLED and (int(options) & _ENFORCED or not blocked):
                    found.setdefault(DistinguishedName.parse(dn), dn)
            blocked = blocked or container.integer("gPOptions") == _BLOCKS_INHERITANCE
        place = place.parent
    return found


def _names(client: Client, policies: dict[DistinguishedName, str], visibility: Visibility) -> str:
    """The policies' names, sorted; of those that the caller may not know of only how many they are."""
    named = [dn for dn in policies.values() if visibility.can_see(dn)]
    shown = sorted(_name(client, dn) for dn in named[:_SHOWN])
    if len(named) > _SHOWN:
        shown.append(f"and {len(named) - _SHOWN} more")
    if others := len(policies) - len(named):
        shown.append(f"{others} outside the scopes")
    return ", ".join(shown)


def _name(client: Client, dn: str) -> str:
    try:
        policy = client.find(dn, ("displayName",))
    except LdapError:  # a link may hold what is no name any more
        return dn
    return (policy.text("displayName") if policy else None) or dn
