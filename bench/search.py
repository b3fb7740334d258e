"""Measures searches with twenty attributes: a page of a thousand users, eight of these at once, a stream of all."""

import http.client
import os
import subprocess
import time
from contextlib import closing
from functools import partial
from urllib.parse import quote, urlsplit

import ldap

from bench.client import Client, expect, in_threads
from bench.servers import Domain, Gateway
from bench.turns import RAW, Figure, Measure, Way

# As an identity synchronisation would request.
ATTRIBUTES = (
    *("objectGUID", "objectSid", "objectClass", "sAMAccountName", "userPrincipalName", "userAccountControl"),
    *("whenCreated", "whenChanged", "pwdLastSet", "accountExpires", "cn", "displayName", "givenName", "sn", "mail"),
    *("telephoneNumber", "title", "department", "company", "employeeID"),
)
FILTER = "(&(objectClass=user)(!(objectClass=computer)))"


def add_people(domain: Domain, count: int) -> str:
    """Add users with these attributes in a new unit, and return the unit."""
    unit = domain.add_unit("Found")
    account = unit[9:17]

    def attributes_of(number: int) -> dict[str, str]:
        name = f"{account}{number:06}"
        return {
            "sAMAccountName": name,
            "userPrincipalName": f"{name}@corp.example.test",
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

    domain.add_users(unit, count, attributes_of)
    return unit


def _raw_search(domain: Domain, unit: str, expected: int) -> Way:
    connection = domain.bind()

    def search() -> None:
        found = len(connection.search_ext_s(unit, ldap.SCOPE_SUBTREE, FILTER, list(ATTRIBUTES)))
        if found != expected:
            raise SystemExit(f"{found} of {expected} users were found")

    return Way(search)


def _command_line_search(domain: Domain, unit: str) -> Way:
    command = [
        *("ldapsearch", "-H", domain.url, "-x", "-LLL", "-o", "ldif-wrap=no"),
        *("-D", domain.bind_dn, "-w", domain.bind_password, "-b", unit, FILTER, *ATTRIBUTES),
    ]
    environment = {**os.environ, "LDAPTLS_CACERT": str(domain.ca_file)}
    return Way(lambda: subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL))


def _page_search(client: Client, unit: str, expected: int) -> None:
    """Fetch a page, and retry while other large searches are under way."""
    path = f"/api/ad/users?pageSize={expected}&base={quote(unit)}&attributes={','.join(ATTRIBUTES)}"
    while (answer := client.send("GET", path)).status == 429:
        time.sleep(0.05)
    found = expect(answer).body.count(b'"kind":"user"')
    if found != expected:
        raise SystemExit(f"{found} of {expected} users were found")


def measure_search(users: int) -> Measure:
    """A page of users: raw, by an `ldapsearch` process, and through the gateway."""

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        unit = add_people(domain, users)
        ways = {RAW: _raw_search(domain, unit, users), "ldapsearch": _command_line_search(domain, unit)}
        for gateway in gateways:
            ways[gateway.name] = Way(partial(_page_search, Client(gateway), unit, users))
        return ways

    return Measure(f"search of {users} × {len(ATTRIBUTES)} attributes", Figure.SHARE, 0.8, prepare, rounds=9)


def measure_searches_at_once(users: int, searches: int = 8) -> Measure:
    """Several such searches at once; the memory of web processes shows what they leave behind."""

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        unit = add_people(domain, users)
        raws = [_raw_search(domain, unit, users) for _ in range(searches)]
        ways = {RAW: Way(partial(in_threads, [way.work for way in raws]))}
        for gateway in gateways:
            pages = [partial(_page_search, Client(gateway), unit, users) for _ in range(searches)]
            ways[gateway.name] = Way(partial(in_threads, pages))
        return ways

    name = f"{searches} searches of {users} × {len(ATTRIBUTES)} at once"
    return Measure(name, Figure.SHARE, None, prepare, requests=searches, rounds=3)


def _stream(gateway: Gateway, unit: str, expected: int) -> None:
    parts = urlsplit(gateway.base_url)
    path = f"/api/ad/users?base={quote(unit)}&attributes={','.join(ATTRIBUTES)}"
    with closing(http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=300)) as connection:
        connection.request("GET", path, headers={"X-API-Key": gateway.api_key, "Accept": "application/x-ndjson"})
        answer = connection.getresponse()
        lines = 0
        while part := answer.read1(1 << 18):
            lines += part.count(b"\n")
    if answer.status != 200 or lines != expected:
        raise SystemExit(f"a stream was answered with {answer.status} and {lines} of {expected} users")


def measure_stream(count: int) -> Measure:
    """A stream of users as NDJSON; adding them takes most of the time."""

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        unit = add_people(domain, count)
        ways = {RAW: _raw_search(domain, unit, count)}
        for gateway in gateways:
            ways[gateway.name] = Way(partial(_stream, gateway, unit, count))
        return ways

    return Measure(f"stream of {count} (NDJSON)", Figure.TIMES, 1.25, prepare, rounds=5)
