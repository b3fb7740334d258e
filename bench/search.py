"""Searches with twenty attributes: a page of a thousand users, several of these at once, a stream of all."""

import os
import subprocess
import time
from functools import partial
from urllib.parse import quote

import ldap

from bench.client import Client, expect, on_each
from bench.servers import Domain, Gateway
from bench.turns import RAW, Way, Ways, compare
from lab.directory import Connection
from lab.http import Http

# As an identity synchronisation would request.
ATTRIBUTES = (
    "objectGUID objectSid objectClass sAMAccountName userPrincipalName userAccountControl whenCreated whenChanged"
    " pwdLastSet accountExpires cn displayName givenName sn mail telephoneNumber title department company employeeID"
).split()
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


def _require(found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"{found} of {expected} users were found")


def _search_raw(unit: str, users: int, connection: Connection, _: int) -> None:
    _require(len(connection.search_ext_s(unit, ldap.SCOPE_SUBTREE, FILTER, ATTRIBUTES)), users)


def _search_page(unit: str, users: int, client: Client, _: int) -> None:
    """Fetch a page, and retry while other large searches are under way."""
    path = f"/api/ad/users?pageSize={users}&base={quote(unit)}&attributes={','.join(ATTRIBUTES)}"
    while (answer := client.send("GET", path)).status == 429:
        time.sleep(0.05)
    _require(expect(answer).body.count(b'"kind":"user"'), users)


def _search_by_command(domain: Domain, unit: str) -> None:
    command = [
        *("ldapsearch", "-H", domain.url, "-x", "-LLL", "-o", "ldif-wrap=no"),
        *("-D", domain.bind_dn, "-w", domain.bind_password, "-b", unit, FILTER, *ATTRIBUTES),
    ]
    environment = {**os.environ, "LDAPTLS_CACERT": str(domain.ca_file)}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def compare_searches(users: int, at_once: int, domain: Domain, gateways: list[Gateway]) -> Ways:
    """A page of users raw and through the gateway, several at once; a single one by an `ldapsearch` process, too.

    The memory of web processes shows what several leave behind.
    """
    unit = add_people(domain, users)
    raw, page = partial(_search_raw, unit, users), partial(_search_page, unit, users)
    ways = compare(domain, gateways, raw, page, connections=at_once)
    return ways | ({"ldapsearch": Way(partial(_search_by_command, domain, unit))} if at_once == 1 else {})


def compare_streams(users: int, domain: Domain, gateways: list[Gateway]) -> Ways:
    """A stream of users as NDJSON; adding them takes most of the time."""
    unit = add_people(domain, users)
    path = f"/api/ad/users?base={quote(unit)}&attributes={','.join(ATTRIBUTES)}"

    def stream(gateway: Gateway) -> None:
        headers = {"X-API-Key": gateway.api_key, "Accept": "application/x-ndjson"}
        answer = Http(gateway.base_url, headers).send("GET", path)
        _require(answer.body.count(b"\n") if answer.status == 200 else 0, users)

    ways = {gateway.name: Way(partial(stream, gateway)) for gateway in gateways}
    return {RAW: Way(partial(on_each, [domain.bind()], 1, partial(_search_raw, unit, users))), **ways}
