"""A batch of 1000 updates against 1000 raw modifies done one after the other."""

import statistics
import uuid
from functools import partial

import ldap

from bench.measuring import Gateway, add_users, seconds
from bench.stack import Stack

ROUNDS = 5
ITEMS = 1000


def measure_batch(stack: Stack) -> tuple[float, float]:
    """Median seconds of giving 1000 users another title: raw, and as one batch with its log."""
    connection = stack.connect()
    ids = add_users(connection, f"OU=Batch {uuid.uuid4().hex[:8]},{stack.base_dn}", ITEMS)
    names = [f"<GUID={item}>" for item in ids]

    def raw(title: str) -> None:
        for name in names:
            connection.modify_s(name, [(ldap.MOD_REPLACE, "title", [title.encode()])])

    def batch(title: str) -> None:
        items = [{"id": str(item), "replace": {"title": title}} for item in ids]
        # A new connection: while the raw modifies were done an old one may have been idle for too long.
        status, body = Gateway(stack).call("POST", "/api/ad/users/batch/update", {"items": items})
        if status != 200 or body["succeeded"] != ITEMS:
            raise SystemExit(f"a batch was answered with {status}: {str(body)[:500]}")

    raw("first"), batch("second")
    raws, batches = [], []
    for number in range(ROUNDS):
        raws.append(seconds(partial(raw, f"raw {number}")))
        batches.append(seconds(partial(batch, f"batch {number}")))
    return statistics.median(raws), statistics.median(batches)
