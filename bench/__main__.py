"""`make bench`: the table of ratios. Gateway and raw python-ldap take turns in each of five rounds; medians count."""

import json
import socket
import statistics
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import ldap

from bench.stack import Stack, resident_megabytes, running_stack

ROUNDS = 5
READS = 400
ACCOUNTS = 100
ATTRIBUTES = ["cn", "displayName", "mail", "sAMAccountName", "userPrincipalName", "department", "title"]


class Gateway:
    """One keep-alive connection to the gateway, on a bare socket: a client library would be measured, too."""

    def __init__(self, stack: Stack) -> None:
        parts = urlsplit(stack.base_url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f"Host: {parts.netloc}\r\nX-API-Key: {stack.api_key}\r\n"

    def send(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body of one exchange."""
        content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._socket.sendall(f"{method} {path} HTTP/1.1\r\n{self._head}{content}\r\n".encode() + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._socket.recv(65536)
        head, _, rest = answer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(rest) < length:
            rest += self._socket.recv(65536)
        return int(head[9:12]), rest

    def call(self, method: str, path: str, body: object) -> tuple[int, dict[str, Any]]:
        status, content = self.send(method, path, json.dumps(body).encode())
        return status, json.loads(content)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_threads(workers: list[Callable[[], object]]) -> float:
    with ThreadPoolExecutor(len(workers)) as pool:
        return seconds(lambda: list(pool.map(lambda work: work(), workers)))


def add_users(connection: ldap.ldapobject.SimpleLDAPObject, unit: str, count: int) -> list[uuid.UUID]:
    found = []
    connection.add_s(unit, [("objectClass", [b"organizationalUnit"])])
    for number in range(count):
        dn = f"CN=Bench {uuid.uuid4().hex[:8]} {number},{unit}"
        name = f"b{uuid.uuid4().hex[:12]}".encode()
        connection.add_s(
            dn,
            [
                ("objectClass", [b"user"]),
                ("sAMAccountName", [name]),
                ("userAccountControl", [b"544"]),
                ("displayName", [b"Bench"]),
                ("department", [b"Measures"]),
            ],
        )
        entry = connection.search_s(dn, ldap.SCOPE_BASE, attrlist=["objectGUID"])[0][1]
        found.append(uuid.UUID(bytes_le=entry["objectGUID"][0]))
    return found


def raw_reads(connection: ldap.ldapobject.SimpleLDAPObject, ids: list[uuid.UUID], count: int) -> None:
    for number in range(count):
        connection.search_ext_s(f"<GUID={ids[number % len(ids)]}>", ldap.SCOPE_BASE, attrlist=ATTRIBUTES)


def gateway_reads(gateway: Gateway, ids: list[uuid.UUID], count: int) -> None:
    query = "?attributes=" + ",".join(ATTRIBUTES)
    for number in range(count):
        status, _ = gateway.send("GET", f"/api/ad/users/{ids[number % len(ids)]}{query}")
        if status != 200:
            raise SystemExit(f"a read was answered with {status}")


def measure_reads(stack: Stack, ids: list[uuid.UUID], connections: int) -> tuple[float, float]:
    """Median seconds of one read, raw and through the gateway, with so many connections at once."""
    raws = [stack.connect() for _ in range(connections)]
    gateways = [Gateway(stack) for _ in range(connections)]
    each = READS // connections
    for gateway in gateways:  # opens the pools
        gateway_reads(gateway, ids, 20)
    raw, through = [], []
    for _ in range(ROUNDS):
        raw.append(in_threads([lambda c=c: raw_reads(c, ids, each) for c in raws]) / (each * connections))
        through.append(in_threads([lambda g=g: gateway_reads(g, ids, each) for g in gateways]) / (each * connections))
    return statistics.median(raw), statistics.median(through)


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


def row(name: str, raw: float, through: float, ratio: str, target: str) -> None:
    print(f"| {name} | {raw * 1000:.2f} ms | {through * 1000:.2f} ms | {ratio} | {target} |")


def main() -> None:
    with running_stack() as stack:
        connection = stack.connect()
        ids = add_users(connection, f"OU=Reads,{stack.base_dn}", 50)
        print("| Measure | raw python-ldap | gateway | result | target |\n|---|---|---|---|---|")
        raw, through = measure_reads(stack, ids, 1)
        row("read one, 1 connection", raw, through, f"{(through - raw) * 1000:.2f} ms added", "≤ 1.0 ms added")
        raw, through = measure_reads(stack, ids, 8)
        row("read one, 8 connections", raw, through, f"{raw / through:.2f} of raw", "≥ 0.45 of raw")
        raw, through = measure_run(stack)
        row(f"run of {ACCOUNTS} accounts with its log", raw, through, f"{through / raw:.2f} × raw", "≤ 1.3 × raw")
        print("\n| Process | resident memory |\n|---|---|")
        for name, group in stack.processes.items():
            for process, size in resident_megabytes(group):
                print(f"| {name} ({process}) | {size:.0f} MB |")


if __name__ == "__main__":
    main()
