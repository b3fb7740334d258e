"""Whether a domain controller is still at work on a write whose connection is gone: asked by a write of nothing."""

from typing import Final
from uuid import UUID, uuid4

import ldap

from active_directory.connections.attempts import BROKEN
from active_directory.connections.pool import Pool
from active_directory.streaming import reference
from active_directory.writes.changes import Modification, Modify
from active_directory.writes.sending import send

_SECONDS: Final = 5.0


def has_finished_writing(pool: Pool, deadline: float, server: str | None, at: UUID | str) -> bool:
    """Whether the server has finished, or undone, the write of this object that it was at when this was asked.

    A domain controller shows the state from before a write for as long as it takes, and carries out writes of one
    object (Samba: all writes) one after another. So a write of this object that changes nothing, since it removes a
    value that is not there, is answered after the one that it found at work; whatever its answer is. Of writes that
    wait for their turn as it does it may overtake some: they have had theirs when it is asked again a moment later.
    False when no answer comes in time. Raises Unavailable.
    """
    nothing = Modification("delete", "description", (f"none {uuid4()}".encode(),))
    connection = pool.acquire(deadline, server=server)
    try:
        connection.ldap.result3(send(connection.ldap, Modify(reference(at), (nothing,))), timeout=_SECONDS)
    except BROKEN:
        pool.discard(connection)
        return False
    except ldap.LDAPError:  # no such value, no such object, no right to write it: it is answered
        pool.release(connection)
        return True
    except BaseException:
        pool.discard(connection)
        raise
    pool.release(connection)
    return True
