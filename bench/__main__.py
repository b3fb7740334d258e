"""`make bench`: the table of ratios. Gateway and raw python-ldap take turns in each of five rounds; medians count."""

import statistics
import uuid

import ldap

from bench.batch import ITEMS, measure_batch
from bench.measuring import ATTRIBUTES, Gateway, add_users, in_threads, row, seconds
from bench.membership import MEMBERS, measure_membership
from bench.passwords import measure_resets
from bench.search import print_search
from bench.stack import Stack, memory_of, running_stack

ROUNDS = 5
READS = 400
ACCOUNTS = 100


def raw_reads(connection: ldap.ldapobject.SimpleLDAPObject, ids: list[uuid.UUID], count: int) -> None:
    for number in range(count):
        connection.search_ext_s(f"<GUID={ids[number % len(ids)]}>", ldap.SCOPE_BASE, attrlist=ATTRIBUTES)


def gateway_reads(gateway: Gateway, ids: list[uuid.UUID], count: int) -> None:
    query = "?attributes=" + ",".join(ATTRIBUTES)
    for number in range(count):
        status, _ = gateway.send("GET", f"/api/ad/users/{ids[number % len(ids)]}{query}")
        if status != 200:
            raise SystemExit(f"a read was answered with {status}")


def measure_reads(stack: Stack, ids: list[uuid.UUID], connections: int) -> tuple[float, float, float]:
    """Median seconds of one read, raw, through the gateway, and through `bare`, with so many connections at once."""
    raws = [stack.connect() for _ in range(connections)]
    gateways = [Gateway(stack) for _ in range(connections)]
    bares = [Gateway(stack, stack.bare_url) for _ in range(connections)]
    each = READS // connections
    for gateway in (*gateways, *bares):  # opens the pools
        gateway_reads(gateway, ids, 20)
    raw, through, bare = [], [], []
    for _ in range(ROUNDS):
        raw.append(in_threads([lambda c=c: raw_reads(c, ids, each) for c in raws]))
        for times, clients in ((through, gateways), (bare, bares)):
            times.append(in_threads([lambda g=g: gateway_reads(g, ids, each) for g in clients]))
    one, two, three = (statistics.median(times) / (each * connections) for times in (raw, through, bare))
    return one, two, three


def measure_run(stack: Stack) -> tuple[float, float]:
    """Median seconds of changing 100 accounts: raw modifies one after the other, and a run with its log."""
    connection, gateway = stack.connect(), Gateway(stack)
    unit = f"OU=Run {uuid.uuid4().hex[:8]},{stack.base_dn}"
    ids = add_users(connection, unit, ACCOUNTS)
    unit_id = uuid.UUID(
        bytes_le=connection.search_s(unit, ldap.SCOPE_BASE, attrlist=["objectGUID"])[0][1]["objectGUID"][0]
    )
    names = [f"<GUID={item}>" for item in ids]

    def raw(value: bytes) -> None:
        for name in names:
            connection.modify_s(name, [(ldap.MOD_REPLACE, "userAccountControl", [value])])

    def run(action: str) -> None:
        status, body = gateway.call(
            "POST", f"/api/ad/organization-units/{unit_id}/accounts/{action}", {"kinds": ["user"]}
        )
        if status != 200 or body["succeeded"] != ACCOUNTS:
            raise SystemExit(f"a run was answered with {status}: {body}")

    run("disable"), run("enable")
    raws, runs = [], []
    for _ in range(ROUNDS):
        raws.append(seconds(lambda: raw(b"546")))
        raw(b"544")
        runs.append(seconds(lambda: run("disable")))
        run("enable")
    return statistics.median(raws), statistics.median(runs)


def main() -> None:
    with running_stack() as stack:
        connection = stack.connect()
        ids = add_users(connection, f"OU=Reads,{stack.base_dn}", 50)
        print("| Measure | raw python-ldap | gateway | result | target |\n|---|---|---|---|---|")
        raw, through, bare = measure_reads(stack, ids, 1)
        added = f"{(through - raw) * 1000:.2f} ms added ({(bare - raw) * 1000:.2f} by a bare WSGI function)"
        row("read one, 1 connection", raw, through, added, "≤ 1.0 ms added")
        raw, through, bare = measure_reads(stack, ids, 8)
        ratio = f"{raw / through:.2f} of raw ({raw / bare:.2f} by a bare WSGI function)"
        row("read one, 8 connections", raw, through, ratio, "≥ 0.45 of raw")
        raw, through = measure_run(stack)
        row(f"run of {ACCOUNTS} accounts with its log", raw, through, f"{through / raw:.2f} × raw", "≤ 1.3 × raw")
        raw, through = measure_batch(stack)
        row(f"batch of {ITEMS} updates with its log", raw, through, f"{through / raw:.2f} × raw", "≤ 1.15 × raw")
        raw, through = measure_resets(stack)
        row("reset one password", raw, through, f"{through / raw:.2f} × raw", "≤ 1.15 × raw")
        raw, through = measure_membership(stack)
        row(f"{MEMBERS} members into a group", raw, through, f"{through / raw:.2f} × raw", "≤ 1.3 × raw")
        print_search(stack)
        print("\n| Process | resident memory | proportional |\n|---|---|---|")
        for name, group in stack.processes.items():
            for process, resident, proportional in memory_of(group):
                print(f"| {name} ({process}) | {resident:.0f} MB | {proportional:.0f} MB |")


if __name__ == "__main__":
    main()
