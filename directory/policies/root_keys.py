"""The root key that domain controllers derive the passwords of group-managed service accounts from.

The forest keeps its keys below `CN=Master Root Keys` ([MS-GKDI] 3.1.4.1). Windows lets domain administrators alone see
them, so that finding none is no proof: it is a warning, and an explanation once the directory has refused.
"""

from collections.abc import Sequence

from active_directory import Client, Equals, LdapError, NotFound, Scope
from core.errors import GatewayError
from core.text.messages import message
from directory import errors

GROUP_MANAGED_CLASS = "msDS-GroupManagedServiceAccount"

_SEEN_NONE = message(
    "No KDS root key of the forest can be seen by the gateway's account. Without one the domain makes no password for "
    "a group-managed service account: a domain administrator makes the key (Add-KdsRootKey, or samba-tool domain kds "
    "root-key create)."
)


def warnings_of_missing_key(client: Client, classes: Sequence[str]) -> tuple[str, ...]:
    """What to tell of the root key before an object of these classes is made: nothing, if there is one."""
    if GROUP_MANAGED_CLASS not in classes or _sees_root_key(client):
        return ()
    return (_SEEN_NONE,)


def explain_missing_key(warnings: Sequence[str], refusal: GatewayError) -> GatewayError:
    """What the directory's refusal means for an account whose creation was warned of by `warnings_of_missing_key`.

    Windows answers NTE_NO_KEY (`directory.errors`), Samba from 4.20 on that there is no such object: the key.
    """
    cause = refusal.__cause__
    if _SEEN_NONE in warnings and isinstance(refusal, errors.ObjectNotFound) and isinstance(cause, LdapError):
        return errors.DirectoryRejected(_SEEN_NONE, directoryMessage=cause.message)
    return refusal


def _sees_root_key(client: Client) -> bool:
    keys = f"CN=Master Root Keys,CN=Group Key Distribution Service,CN=Services,{client.configuration_naming_context}"
    is_key = Equals("objectClass", "msKds-ProvRootKey")
    try:
        return any(client.search(keys, Scope.ONE_LEVEL, is_key, ("objectGUID",), limit=1))
    except NotFound:
        return False
