"""Single reads: of people and of scratch accounts, on one connection and on eight, whole and by If-None-Match."""

import uuid
from collections.abc import Callable, Sequence
from functools import partial

import ldap

from bench.client import Client, expect, in_threads
from bench.domain import Domain
from bench.gateway import Gateway
from bench.turns import RAW, Figure, Measure, Way

ATTRIBUTES = ["cn", "displayName", "mail", "sAMAccountName", "userPrincipalName", "department", "title"]
"""What is read of a user."""
ACCOUNTS = 50
_RECORDED_WITHIN = 1.2
"""Seconds after a read in which its record is written."""

Accounts = Callable[[Domain, int], list[uuid.UUID]]


def people(domain: Domain, count: int) -> list[uuid.UUID]:
    """Enabled accounts with passwords and groups, in a domain with password settings objects."""
    return domain.find_people(count)


def scratch(domain: Domain, count: int) -> list[uuid.UUID]:
    """Disabled accounts in no group."""
    return domain.add_users(domain.add_unit("Reads"), count)


def path_of(item: uuid.UUID) -> str:
    return f"/api/ad/users/{item}?attributes={','.join(ATTRIBUTES)}"


def raw_reads(domain: Domain, ids: Sequence[uuid.UUID], connections: int, each: int) -> Way:
    def read(connection: ldap.ldapobject.SimpleLDAPObject) -> None:
        for number in range(each):
            connection.search_ext_s(f"<GUID={ids[number % len(ids)]}>", ldap.SCOPE_BASE, attrlist=ATTRIBUTES)

    opened = [domain.connect() for _ in range(connections)]
    return Way(partial(in_threads, [partial(read, connection) for connection in opened]))


def gateway_reads(
    gateway: Gateway, ids: Sequence[uuid.UUID], connections: int, each: int, *, url: str | None = None
) -> Way:
    paths = [path_of(item) for item in ids]

    def read(client: Client) -> None:
        for number in range(each):
            expect(client.send("GET", paths[number % len(paths)]))

    clients = [Client(gateway, url) for _ in range(connections)]
    return Way(partial(in_threads, [partial(read, client) for client in clients]))


def _known_reads(gateway: Gateway, ids: Sequence[uuid.UUID], each: int) -> Way:
    """Reads of what the client has already."""
    client = Client(gateway)
    known = [
        (path_of(item), f"If-None-Match: {expect(client.send('GET', path_of(item))).header('ETag')}\r\n")
        for item in ids
    ]

    def read() -> None:
        for number in range(each):
            path, header = known[number % len(known)]
            expect(client.send("GET", path, headers=header), 304)

    return Way(read)


def measure_reads(accounts: Accounts, connections: int, count: int) -> Measure:
    """Reads of such accounts on so many connections, a round of `count` in all."""
    each = count // connections

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        ids = accounts(domain, min(ACCOUNTS, count))
        ways = {gateway.name: gateway_reads(gateway, ids, connections, each) for gateway in gateways}
        return {RAW: raw_reads(domain, ids, connections, each), **ways}

    figure, target = (Figure.ADDED, 1.0) if connections == 1 else (Figure.SHARE, 0.5)
    return Measure(
        name=f"read of {accounts.__name__} on {connections} connection{'s' if connections > 1 else ''}",
        figure=figure,
        target=target,
        prepare=prepare,
        requests=each * connections,
        settle=_RECORDED_WITHIN,
    )


def measure_bare_reads(bare_url: str, connections: int, count: int) -> Measure:
    """The same by `bench.bare`, which says what a web server in Python can reach at all."""
    each = count // connections

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        ids = people(domain, min(ACCOUNTS, count))
        return {
            RAW: raw_reads(domain, ids, connections, each),
            "bare function": gateway_reads(gateways[0], ids, connections, each, url=bare_url),
        }

    return Measure(
        f"read of people on {connections} connections without a gateway",
        Figure.SHARE,
        None,
        prepare,
        each * connections,
    )


def measure_known_reads(count: int) -> Measure:
    """A read that is answered with 304 against a full one, both through the gateway."""

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        ids = people(domain, min(ACCOUNTS, count))
        ways = {gateway.name: _known_reads(gateway, ids, count) for gateway in gateways}
        return {RAW: gateway_reads(gateways[0], ids, 1, count), **ways}

    return Measure(
        name="304 by `If-None-Match`",
        figure=Figure.TIMES,
        target=0.8,
        prepare=prepare,
        requests=count,
        settle=_RECORDED_WITHIN,
        reference="full read",
    )
