"""How a write becomes a request of the protocol. Sends, and waits for nothing."""

import ldap
from ldap.controls import LDAPControl, RequestControl

from active_directory.connections.connection import LdapObject
from active_directory.errors import InvalidValue
from active_directory.streaming import SD_FLAGS, SHOW_DELETED
from active_directory.writes.changes import Add, Delete, Modify, Rename, Write

TREE_DELETE = LDAPControl("1.2.840.113556.1.4.805", True)  # [MS-ADTS] 3.1.1.3.4.1.15
_STEPS = {"add": ldap.MOD_ADD, "delete": ldap.MOD_DELETE, "replace": ldap.MOD_REPLACE}


def send(link: LdapObject, write: Write) -> int:
    """Send the request and return the id under which its answer will come; ``InvalidValue`` if it cannot be sent."""
    try:
        match write:
            case Add(dn, attributes):
                return int(link.add_ext(dn, [(name, list(values)) for name, values in attributes.items()]))
            case Modify(dn, modifications):
                steps = [(_STEPS[step.op], step.attribute, list(step.values) or None) for step in modifications]
                return int(link.modify_ext(dn, steps, serverctrls=_controls(write)))
            case Delete(dn, tree):
                return int(link.delete_ext(dn, serverctrls=[TREE_DELETE] if tree else []))
            case Rename(dn, new_rdn, new_parent):
                return int(link.rename(dn, new_rdn, newsuperior=new_parent, delold=1))
    except (TypeError, ValueError) as error:  # python-ldap refuses NUL and lone surrogates before sending
        raise InvalidValue("A name in the write has characters the directory cannot take") from error


def _controls(write: Modify) -> list[RequestControl]:
    controls = []
    if write.deleted:
        controls.append(SHOW_DELETED)
    if any(step.attribute.lower() == "ntsecuritydescriptor" for step in write.modifications):
        controls.append(SD_FLAGS)
    return controls
