"""Protection from accidental deletion: an entry of the access control list, which the gateway itself enforces."""

from active_directory import Entry, is_protected_from_deletion
from core.text.messages import message
from directory import errors
from directory.security.access_control import descriptor_of


def require_deletable(entry: Entry) -> None:
    """Raise DeletionProtected when an entry, read with its descriptor, must not be deleted or moved."""
    # Without the right to read the list the gateway cannot tell, and AD would not let it delete either.
    if "nTSecurityDescriptor" in entry and is_protected_from_deletion(descriptor_of(entry)):
        raise errors.DeletionProtected(message("{dn} is protected from accidental deletion.", dn=entry.dn))
