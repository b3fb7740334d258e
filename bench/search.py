"""Searches against raw python-ldap and ldapsearch, in turn, and a whole result as a stream: `python -m bench.search`.

A number behind it is how many users are streamed (20000); adding them takes most of the time.
"""

import http.client
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, urlsplit

import ldap

from bench.measuring import Gateway, row, seconds
from bench.stack import PASSWORD, Stack, memory_of, running_stack
from demo.domain_controller import SERVICE_ACCOUNT_DN

ROUNDS = 9
FOUND = 1000
STREAMED = 20_000
# What a synchronisation of identities asks for.
ATTRIBUTES = (
    *("objectGUID", "objectSid", "objectClass", "sAMAccountName", "userPrincipalName", "userAccountControl"),
    *("whenCreated", "whenChanged", "pwdLastSet", "accountExpires", "cn", "displayName", "givenName", "sn", "mail"),
    *("telephoneNumber", "title", "department", "company", "employeeID"),
)
FILTER = "(&(objectClass=user)(!(objectClass=computer)))"
_AHEAD = 32


def add_people(connection: ldap.ldapobject.SimpleLDAPObject, unit: str, count: int) -> None:
    """Users with the attributes that are searched for, several on their way at a time."""
    connection.add_s(unit, [("objectClass", [b"organizationalUnit"])])
    under_way: list[int] = []
    for number in range(count):
        name = f"{unit[3:7].lower()}{number:06}"
        person = {
            "objectClass": "user",
            "sAMAccountName": name,
            "userPrincipalName": f"{name}@corp.example.test",
            "userAccountControl": "546",
            "displayName": f"Jörg {number} Möller",
            "givenName": "Jörg",
            "sn": "Möller",
            "mail": f"{name}@corp.example.test",
            "telephoneNumber": f"+49 30 {number:06}",
            "title": "Engineer",
            "department": "Engineering",
            "company": "Example Corporation",
            "employeeID": str(number),
        }
        attributes = [(attribute, [value.encode()]) for attribute, value in person.items()]
        under_way.append(connection.add_ext(f"CN=Jörg {number} Möller,{unit}", attributes))
        if len(under_way) == _AHEAD:
            connection.result3(under_way.pop(0))
    for message in under_way:
        connection.result3(message)


def raw_search(connection: ldap.ldapobject.SimpleLDAPObject, unit: str) -> int:
    return len(connection.search_ext_s(unit, ldap.SCOPE_SUBTREE, FILTER, list(ATTRIBUTES)))


def command_line_search(stack: Stack, unit: str) -> None:
    subprocess.run(
        [
            *("ldapsearch", "-H", stack.ldap_url, "-x", "-LLL", "-o", "ldif-wrap=no"),
            *("-D", SERVICE_ACCOUNT_DN, "-w", PASSWORD, "-b", unit, FILTER, *ATTRIBUTES),
        ],
        env={**os.environ, "LDAPTLS_CACERT": stack.ca_file},
        check=True,
        stdout=subprocess.DEVNULL,
    )


def processor_seconds(group: int) -> float:
    """What the processes of a group have used of the processors."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[2] == str(group):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure_search(stack: Stack) -> dict[str, float]:
    """Median seconds of finding 1000 users: raw, by ldapsearch, through the gateway, and its processor's among them."""
    connection, gateway = stack.connect(), Gateway(stack)
    unit = f"OU=Found,{stack.base_dn}"
    add_people(connection, unit, FOUND)
    path = f"/api/ad/users?pageSize={FOUND}&base={quote(unit)}&attributes={','.join(ATTRIBUTES)}"

    def through() -> None:
        status, body = gateway.send("GET", path)
        if status != 200 or body.count(b'"kind":"user"') != FOUND:
            raise SystemExit(f"a search was answered with {status}: {body[:200]!r}")

    ways: dict[str, Callable[[], object]] = {
        "raw": lambda: raw_search(connection, unit),
        "ldapsearch": lambda: command_line_search(stack, unit),
        "gateway": through,
    }
    times: dict[str, list[float]] = {name: [] for name in (*ways, "processor")}
    through()
    for _ in range(ROUNDS):
        for name, way in ways.items():
            used = processor_seconds(stack.processes["web"])
            times[name].append(seconds(way))
            if name == "gateway":
                times["processor"].append(processor_seconds(stack.processes["web"]) - used)
    return {name: statistics.median(values) for name, values in times.items()}


def stream(stack: Stack, path: str) -> Iterator[bytes]:
    """The octets of an NDJSON answer as they come."""
    parts = urlsplit(stack.base_url)
    with closing(http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)) as connection:
        connection.request("GET", path, headers={"X-API-Key": stack.api_key, "Accept": "application/x-ndjson"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(f"a stream was answered with {answer.status}: {answer.read(200)!r}")
        while part := answer.read1(1 << 18):
            yield part


def measure_stream(stack: Stack, count: int) -> tuple[float, float, float]:
    """Seconds of reading all users raw and as NDJSON, and by how many megabytes the largest web process grew."""
    connection = stack.connect()
    unit = f"OU=Streamed,{stack.base_dn}"
    add_people(connection, unit, count)
    path = f"/api/ad/users?base={quote(unit)}&attributes={','.join(ATTRIBUTES)}"
    for _ in stream(stack, f"{path}&filter={quote('(employeeID=1*)')}"):  # fills what every process keeps anyway
        pass
    raws, streams, growth = [], [], 0.0
    for _ in range(3):
        before = max(process.resident for process in memory_of(stack.processes["web"]))
        raws.append(seconds(lambda: raw_search(connection, unit)))
        lines = 0

        def read() -> None:
            nonlocal lines
            lines = sum(part.count(b"\n") for part in stream(stack, path))

        streams.append(seconds(read))
        if lines != count:
            raise SystemExit(f"{lines} of {count} users were streamed")
        growth = max(growth, max(process.resident for process in memory_of(stack.processes["web"])) - before)
    return statistics.median(raws), statistics.median(streams), growth


def print_search(stack: Stack) -> None:
    """The rows of the table for searches."""
    times = measure_search(stack)
    ratio = f"{times['raw'] / times['gateway']:.2f} of raw, {times['processor'] * 1000:.0f} ms of processor time"
    row(f"search of {FOUND}, {len(ATTRIBUTES)} attributes", times["raw"], times["gateway"], ratio, "≥ 0.75 of raw")
    ratio = f"{times['ldapsearch'] / times['gateway']:.2f} of ldapsearch"
    row("the same by `ldapsearch`", times["ldapsearch"], times["gateway"], ratio, "> 1 of ldapsearch")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else STREAMED
    with running_stack("127.0.31.9", durable=False) as stack:
        print("| Measure | raw python-ldap | gateway | result | target |\n|---|---|---|---|---|")
        print_search(stack)
        raw, through, growth = measure_stream(stack, count)
        row(f"stream of {count}", raw, through, f"{through / raw:.2f} × raw, {growth:.1f} MB grown", "constant memory")


if __name__ == "__main__":
    main()
