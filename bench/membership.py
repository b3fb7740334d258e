"""`python -m bench.membership`: 1000 members by one request against one raw modify, in turn; medians count.

Every measurement has a group of its own: a membership that was there before is quicker to bring back. They take
turns at being the first of a round: the more groups a member is in, the longer one more takes.
"""

import statistics
import uuid
from collections.abc import Callable
from functools import partial

import ldap

from bench.measuring import Gateway, add_users, row, seconds
from bench.stack import Stack, running_stack

ROUNDS = 9
MEMBERS = 1000
GLOBAL_SECURITY_GROUP = b"-2147483646"


def measure_membership(stack: Stack) -> tuple[float, float]:
    """Median seconds of adding the members: raw, and with their existence, scopes, cycles and record."""
    connection, gateway = stack.connect(), Gateway(stack)
    unit = f"OU=Members {uuid.uuid4().hex[:8]},{stack.base_dn}"
    ids = [str(item) for item in add_users(connection, unit, MEMBERS)]
    names = [dn.encode() for dn, _ in connection.search_s(unit, ldap.SCOPE_ONELEVEL, attrlist=["1.1"])]

    def new_group() -> tuple[str, uuid.UUID]:
        dn = f"CN=Bench {uuid.uuid4().hex[:8]},{unit}"
        connection.add_s(dn, [("objectClass", [b"group"]), ("groupType", [GLOBAL_SECURITY_GROUP])])
        entry = connection.search_s(dn, ldap.SCOPE_BASE, attrlist=["objectGUID"])[0][1]
        return dn, uuid.UUID(bytes_le=entry["objectGUID"][0])

    def raw(dn: str, _: uuid.UUID) -> None:
        connection.modify_s(dn, [(ldap.MOD_ADD, "member", names)])

    def through(_: str, group: uuid.UUID) -> None:
        status, body = gateway.call("POST", f"/api/ad/groups/{group}/members", {"add": ids})
        if status != 200 or body["added"] != MEMBERS:
            raise SystemExit(f"a change of members was answered with {status}: {body}")

    times: dict[Callable[[str, uuid.UUID], None], list[float]] = {raw: [], through: []}
    for number in range(ROUNDS + 1):
        for way in (raw, through) if number % 2 else (through, raw):
            times[way].append(seconds(partial(way, *new_group())))
    # The first opens pools and fills caches.
    return statistics.median(times[raw][1:]), statistics.median(times[through][1:])


def main() -> None:
    with running_stack("127.0.33.2") as stack:
        print("| Measure | raw python-ldap | gateway | result | target |\n|---|---|---|---|---|")
        raw, through = measure_membership(stack)
        row(f"{MEMBERS} members into a group", raw, through, f"{through / raw:.2f} × raw", "≤ 1.3 × raw")


if __name__ == "__main__":
    main()
