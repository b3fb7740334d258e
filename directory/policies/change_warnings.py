"""Warnings about changes: group policies that a move loses or gains, and the key that managed passwords need.

gPLink and gPOptions of the containers above an object determine which group policies it inherits. Whether one of these
then applies (security filtering, WMI filters) is decided by clients, and not looked at here.

The passwords of group-managed service accounts are derived from root keys, which the forest keeps below `CN=Master Root
Keys` ([MS-GKDI] 3.1.4.1). On Windows only domain administrators see them, so that finding none proves nothing: it is a
warning, and an explanation once the directory has refused.
"""

from collections.abc import Sequence

from active_directory import Client, DistinguishedName, Entry, Equals, LdapError, NotFound, Scope
from core.errors import GatewayError
from core.text.messages import message
from directory import errors
from directory.lookup.visibility import Visibility
from directory.shapes.object_references import POLICY_LINK

_DISABLED, _ENFORCED = 1, 2
_INHERITANCE_BLOCKED = 1
_MAX_NAMES = 10


def inheritance_warnings(client: Client, entry: Entry, new_parent: str, visibility: Visibility) -> tuple[str, ...]:
    """Warnings about the group policies that a move loses or gains; `entry` must have been read with gPOptions."""
    blocks = entry.integer("gPOptions") == _INHERITANCE_BLOCKED
    before = _inherited_policies(client, str(DistinguishedName.parse(entry.dn).parent), blocks)
    after = _inherited_policies(client, new_parent, blocks)
    lost = {key: dn for key, dn in before.items() if key not in after}
    gained = {key: dn for key, dn in after.items() if key not in before}
    warnings = []
    if lost:
        warnings.append(message("Group policies no longer inherited: {names}.", names=_names(client, lost, visibility)))
    if gained:
        warnings.append(message("Group policies newly inherited: {names}.", names=_names(client, gained, visibility)))
    return tuple(warnings)


def _inherited_policies(client: Client, parent: str, blocked: bool) -> dict[DistinguishedName, str]:
    """The group policies linked to a container or one above it that reach an object below, by parsed name."""
    found: dict[DistinguishedName, str] = {}
    root = DistinguishedName.parse(client.default_naming_context)
    name: DistinguishedName | None = DistinguishedName.parse(parent)
    while name is not None and name.is_within(root):
        container = client.find(str(name), ("gPLink", "gPOptions"))
        if container is not None:
            for link in POLICY_LINK.finditer(container.text("gPLink") or ""):
                options = int(link["options"]) if link["options"].isdecimal() else _DISABLED
                # An enforced link applies even where inheritance is blocked.
                if not options & _DISABLED and (options & _ENFORCED or not blocked):
                    found.setdefault(DistinguishedName.parse(link["name"]), link["name"])
            blocked = blocked or container.integer("gPOptions") == _INHERITANCE_BLOCKED
        name = name.parent
    return found


def _names(client: Client, policies: dict[DistinguishedName, str], visibility: Visibility) -> str:
    """The policies' names, sorted; of those that the caller may not see, only the number."""
    named = [dn for dn in policies.values() if visibility.can_see(dn)]
    shown = sorted(_name(client, dn) for dn in named[:_MAX_NAMES])
    if len(named) > _MAX_NAMES:
        shown.append(f"and {len(named) - _MAX_NAMES} more")
    if others := len(policies) - len(named):
        shown.append(f"{others} outside the scopes")
    return ", ".join(shown)


def _name(client: Client, dn: str) -> str:
    try:
        policy = client.find(dn, ("displayName",))
    except LdapError:  # a link may contain a malformed name
        return dn
    return (policy.text("displayName") if policy else None) or dn


GROUP_MANAGED_CLASS = "msDS-GroupManagedServiceAccount"

_NO_ROOT_KEY_SEEN = message(
    "No KDS root key of the forest can be seen by the gateway's account. Without one the domain makes no password for "
    "a group-managed service account: a domain administrator makes the key (Add-KdsRootKey, or samba-tool domain kds "
    "root-key create)."
)


def missing_root_key_warnings(client: Client, classes: Sequence[str]) -> tuple[str, ...]:
    """The warning for an object of these classes where no root key can be seen; empty for classes that need none."""
    if GROUP_MANAGED_CLASS not in classes or _is_root_key_visible(client):
        return ()
    return (_NO_ROOT_KEY_SEEN,)


def explain_missing_root_key(warnings: Sequence[str], refusal: GatewayError) -> GatewayError:
    """The directory's refusal to create an account, explained by the missing root key where `warnings` warned of it.

    Windows answers NTE_NO_KEY (`directory.errors`); Samba since 4.20 answers that an object, the key, does not exist.
    """
    cause = refusal.__cause__
    if _NO_ROOT_KEY_SEEN in warnings and isinstance(refusal, errors.ObjectNotFound) and isinstance(cause, LdapError):
        return errors.DirectoryRejected(_NO_ROOT_KEY_SEEN, directoryMessage=cause.message)
    return refusal


def _is_root_key_visible(client: Client) -> bool:
    keys = f"CN=Master Root Keys,CN=Group Key Distribution Service,CN=Services,{client.configuration_naming_context}"
    is_key = Equals("objectClass", "msKds-ProvRootKey")
    try:
        return any(client.search(keys, Scope.ONE_LEVEL, is_key, ("objectGUID",), limit=1))
    except NotFound:
        return False
