"""Reanimating a deleted object ([MS-ADTS] 3.1.1.5.3.7), and how to say it to a server that refuses the usual way.

Samba (seen on 4.17) reanimates tombstones as documented. With the recycle bin enabled it still removes `isRecycled`
from the object, which has none then, and adds defaults that the object has kept: it refuses its own request. Nothing is
changed by that, so the same reanimation can be sent again, worded so that what the server adds fits. Windows never
gives this answer and is never sent this wording.
"""

from collections.abc import Sequence

from active_directory.entry import Entry
from active_directory.errors import LdapError
from active_directory.writes.changes import Modification, Modify, Write

KEPT_DEFAULTS = (
    *("accountExpires", "badPasswordTime", "badPwdCount", "codePage", "countryCode", "lastLogoff", "lastLogon"),
    *("logonCount",),
)
"""What Samba adds to an account unless the request itself says something about it."""
RARE_DEFAULTS = ("adminCount", "operatorCount")
"""The same for accounts and groups, most of which have none of these: then the request says so."""
READ_TO_REWORD = (*KEPT_DEFAULTS, *RARE_DEFAULTS, "pwdLastSet", "msDS-LastKnownRDN")
"""What `reworded` needs of the deleted object."""
_NO_SUCH_ATTRIBUTE = 16


def reanimate(deleted_dn: str, new_dn: str, refill: Sequence[Modification] = ()) -> Modify:
    """The one modify that makes a deleted object live again under a name; `refill` are other attributes it gets."""
    return Modify(
        deleted_dn,
        (
            Modification("delete", "isDeleted"),
            Modification("replace", "distinguishedName", (new_dn.encode(),)),
            *refill,
        ),
        deleted=True,
    )


def is_refused_for_recycle_bin(write: Write, refusal: LdapError) -> bool:
    """Whether a server stumbled over its own removal of `isRecycled`."""
    return (
        isinstance(write, Modify)
        and write.deleted
        and refusal.result_code == _NO_SUCH_ATTRIBUTE
        and (refusal.attribute or "").lower() == "isrecycled"
    )


def reworded(write: Modify, entry: Entry) -> Modify:
    """The same reanimation for a server that refused it so; `entry` was read with READ_TO_REWORD.

    What is kept is said to be replaced by what it is. pwdLastSet cannot: only 0 or -1 may be written, of a deleted
    object only 0, and without a word about it Samba adds a second value and fails. The account would have to change its
    password, so the present time has to follow in a write of its own (`directory.changes.restoring.restore`).
    """
    said = {step.attribute.lower() for step in write.modifications}
    kept = tuple(
        Modification("replace", name, tuple(entry.values(name)))
        for name in (*KEPT_DEFAULTS, *RARE_DEFAULTS)
        if (name in entry or name in RARE_DEFAULTS) and name.lower() not in said
    )
    if "pwdLastSet" in entry:
        kept += (Modification("replace", "pwdLastSet", (b"0",)),)
    if "msDS-LastKnownRDN" in entry:  # Samba would add another one at the next deletion, and fail
        kept += (Modification("delete", "msDS-LastKnownRDN"),)
    return Modify(write.dn, (Modification("add", "isRecycled", (b"TRUE",)), *write.modifications, *kept), deleted=True)
