"""Who a security identifier stands for: names and objects, looked up many at a time."""

from collections.abc import Iterable, Mapping

from active_directory import WELL_KNOWN_SIDS, Client, Entry, Equals, sid_to_text, text_to_sid
from directory.lookup.visibility import Visibility
from directory.shapes.access_control import Principal

_FOREIGN = "foreignSecurityPrincipal"


def find_principals(
    client: Client, sids: Iterable[str], *, visibility: Visibility | None = None
) -> Mapping[str, Principal]:
    """Name and objectGUID of each, by SID.

    The accounts that every Windows system knows have a name and no object. The name is None for what the domain does
    not know: an account of another domain, or one that was deleted; and, given a caller's `visibility`, for what lies
    outside of it. Who may read access control is told by whom it is held, wherever they are.
    """
    found: dict[str, Principal] = {}
    wanted = []
    for sid in dict.fromkeys(sids):
        found[sid] = {"sid": sid, "name": WELL_KNOWN_SIDS.get(sid), "id": None}
        if sid not in WELL_KNOWN_SIDS:
            wanted.append(sid)
    # Accounts may be anywhere in the domain, outside the base and the caller's scopes too.
    is_one = (Equals("objectSid", text_to_sid(sid)) for sid in wanted)
    for entry in client.find_any(is_one, ("objectSid", "objectGUID", "objectClass", "name")):
        if visibility is None or visibility.can_see(entry.dn):
            sid = sid_to_text(entry.values("objectSid")[0])
            found[sid] = {"sid": sid, "name": _name(entry), "id": str(entry.guid)}
    return found


def _name(entry: Entry) -> str | None:
    # The object that stands for an account of another domain is named by the SID, which is no name.
    return None if _FOREIGN in entry.object_classes else entry.text("name")
