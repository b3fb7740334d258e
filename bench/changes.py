"""Measures changes, with permission, protection, policy and record, against the same raw modifies."""

import uuid
from functools import partial
from itertools import count, cycle
from typing import Any

import ldap

from bench.client import Client
from bench.servers import Domain, Gateway
from bench.turns import RAW, Figure, Measure, Way
from lab.directory import Connection

_ENABLED, _DISABLED = b"544", b"546"
"""userAccountControl of a user without a password (MS-ADTS 2.2.16)."""


def _replace(connection: Connection, item: uuid.UUID, attribute: str, value: bytes) -> None:
    connection.modify_s(f"<GUID={item}>", [(ldap.MOD_REPLACE, attribute, [value])])


def _call(client: Client, path: str, body: dict[str, Any], counter: str, expected: int) -> None:
    """Send a change; ends the benchmark unless the answer counts as many as expected."""
    answer = client.call("POST", path, body)
    if answer[counter] != expected:
        raise SystemExit(f"{path} was answered with {str(answer)[:500]}")


def measure_batch(items: int) -> Measure:
    """A batch of updates with its records, against raw modifies one after the other: the same users get a new title."""

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        connection = domain.bind()
        ids = domain.add_users(domain.add_unit("Batch"), items)
        titles = (f"Title {number}" for number in count())

        def raw() -> None:
            title = next(titles).encode()
            for item in ids:
                _replace(connection, item, "title", title)

        def batch(gateway: Gateway) -> None:
            title = next(titles)
            body = {"items": [{"id": str(item), "replace": {"title": title}} for item in ids]}
            _call(Client(gateway), "/api/ad/users/batch/update", body, "succeeded", items)

        return {RAW: Way(raw)} | {gateway.name: Way(partial(batch, gateway)) for gateway in gateways}

    return Measure(f"batch of {items} updates with its log", Figure.TIMES, 1.1, prepare)


def measure_run(accounts: int) -> Measure:
    """A run that disables the accounts of a unit, with its log, against as many raw modifies.

    Each way has its own unit, whose accounts raw modifies enable again before each round.
    """

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        connection = domain.bind()

        def modify(ids: list[uuid.UUID], value: bytes) -> None:
            for item in ids:
                _replace(connection, item, "userAccountControl", value)

        def run(gateway: Gateway, unit: uuid.UUID) -> None:
            path = f"/api/ad/organization-units/{unit}/accounts/disable"
            _call(Client(gateway), path, {"kinds": ["user"]}, "succeeded", accounts)

        ids = domain.add_users(domain.add_unit("Run"), accounts)
        ways = {RAW: Way(partial(modify, ids, _DISABLED), partial(modify, ids, _ENABLED))}
        for gateway in gateways:
            unit = domain.add_unit("Run")
            theirs = domain.add_users(unit, accounts)
            ways[gateway.name] = Way(partial(run, gateway, domain.guid_of(unit)), partial(modify, theirs, _ENABLED))
        return ways

    return Measure(f"run of {accounts} with its log", Figure.TIMES, 1.2, prepare)


def measure_resets(resets: int) -> Measure:
    """Password resets, one per round, so that all ways meet the same load of a shared machine.

    Every account already has a password, since replacing one takes the domain controller half as long again.
    """

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        connection = domain.bind()
        ids = domain.add_users(domain.add_unit("Passwords"), min(50, resets))
        passwords = (f"Bench-Password-{number}" for number in count())
        accounts = cycle(ids)

        def raw() -> None:
            _replace(connection, next(accounts), "unicodePwd", f'"{next(passwords)}"'.encode("utf-16-le"))

        def through(client: Client) -> None:
            client.call("POST", f"/api/ad/users/{next(accounts)}/reset-password", {"newPassword": next(passwords)})

        for _ in ids:
            raw()
        return {RAW: Way(raw)} | {gateway.name: Way(partial(through, Client(gateway))) for gateway in gateways}

    return Measure("reset of a password", Figure.TIMES, 1.12, prepare, rounds=resets)


def measure_membership(members: int) -> Measure:
    """Members added to a group by one request, with all checks and the record, against one raw modify.

    Every round has its own group, since it is quicker to restore a membership that existed before. Adding takes longer
    the more groups a member is in, so the ways take turns at being the first.
    """

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        connection = domain.bind()
        unit = domain.add_unit("Members")
        ids = [str(item) for item in domain.add_users(unit, members)]
        names = [dn.encode() for dn, _ in connection.search_s(unit, ldap.SCOPE_ONELEVEL, attrlist=["1.1"])]
        group, path = "", ""

        def add_group() -> None:
            nonlocal group, path
            group = domain.add_group(unit)
            path = f"/api/ad/groups/{domain.guid_of(group)}/members"

        def through(gateway: Gateway) -> None:
            _call(Client(gateway), path, {"add": ids}, "added", members)

        ways = {RAW: Way(lambda: connection.modify_s(group, [(ldap.MOD_ADD, "member", names)]), add_group)}
        for gateway in gateways:
            ways[gateway.name] = Way(partial(through, gateway), add_group)
        return ways

    return Measure(f"{members} members into a group", Figure.TIMES, 1.25, prepare, rounds=9)
