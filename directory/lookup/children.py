"""Whether anything lies below an object. What lies there is read by whoever needs it."""

from active_directory import Client, Entry, Scope


def has_children(client: Client, entry: Entry) -> bool:
    """Whether there is an object directly below an entry.

    Most objects hold nothing, and Samba looks at the whole domain to find what is below one however deep (70 ms among
    10,000 objects), while it has an index for what is directly below (1 ms).
    """
    return any(True for _ in client.search(entry.dn, Scope.ONE_LEVEL, attributes=("objectGUID",), limit=1))
