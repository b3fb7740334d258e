"""Changes, with permission, protection, policy and record, against the same raw modifies."""

import uuid
from functools import partial
from itertools import count, cycle
from typing import Any

import ldap

from bench.client import Client, on_each
from bench.servers import Domain, Gateway
from bench.turns import RAW, Way, Ways, compare
from lab.directory import Connection

_ENABLED, _DISABLED = b"544", b"546"
"""userAccountControl of a user without a password (MS-ADTS 2.2.16)."""


def _replace(connection: Connection, attribute: str, value: bytes, *items: uuid.UUID) -> None:
    """Give an attribute of these objects a value, one after another."""
    for item in items:
        connection.modify_s(f"<GUID={item}>", [(ldap.MOD_REPLACE, attribute, [value])])


def _call(client: Client, path: str, body: dict[str, Any], counter: str, expected: int) -> None:
    """Send a change; ends the benchmark unless the answer counts as many as expected."""
    answer = client.call("POST", path, body)
    if answer[counter] != expected:
        raise SystemExit(f"{path} was answered with {str(answer)[:500]}")


def compare_batches(items: int, domain: Domain, gateways: list[Gateway]) -> Ways:
    """A batch of updates with its records, against raw modifies one after the other: the same users get a new title."""
    ids = domain.add_users(domain.add_unit("Batch"), items)
    titles = (f"Title {number}" for number in count())

    def raw(connection: Connection, _: int) -> None:
        _replace(connection, "title", next(titles).encode(), *ids)

    def batch(client: Client, _: int) -> None:
        title = next(titles)
        body = {"items": [{"id": str(item), "replace": {"title": title}} for item in ids]}
        _call(client, "/api/ad/users/batch/update", body, "succeeded", items)

    return compare(domain, gateways, raw, batch)


def compare_runs(accounts: int, domain: Domain, gateways: list[Gateway]) -> Ways:
    """A run that disables the accounts of a unit, with its log, against as many raw modifies.

    Each way has its own unit, whose accounts raw modifies enable again before each round.
    """
    switch = partial(_replace, domain.bind(), "userAccountControl")
    ids = domain.add_users(domain.add_unit("Run"), accounts)
    ways = {RAW: Way(partial(switch, _DISABLED, *ids), partial(switch, _ENABLED, *ids))}
    for gateway in gateways:
        unit = domain.add_unit("Run")
        theirs = domain.add_users(unit, accounts)
        path = f"/api/ad/organization-units/{domain.directory.guid(unit)}/accounts/disable"
        run = partial(_call, Client(gateway), path, {"kinds": ["user"]}, "succeeded", accounts)
        ways[gateway.name] = Way(run, partial(switch, _ENABLED, *theirs))
    return ways


def compare_resets(resets: int, domain: Domain, gateways: list[Gateway]) -> Ways:
    """Password resets, one per round, so that all ways meet the same load of a shared machine.

    Every account already has a password, since replacing one takes the domain controller half as long again.
    """
    ids = domain.add_users(domain.add_unit("Passwords"), min(50, resets))
    passwords = (f"Bench-Password-{number}" for number in count())
    accounts = cycle(ids)

    def raw(connection: Connection, _: int) -> None:
        _replace(connection, "unicodePwd", f'"{next(passwords)}"'.encode("utf-16-le"), next(accounts))

    def through(client: Client, _: int) -> None:
        client.call("POST", f"/api/ad/users/{next(accounts)}/reset-password", {"newPassword": next(passwords)})

    on_each([domain.bind()], len(ids), raw)
    return compare(domain, gateways, raw, through)


def compare_memberships(members: int, domain: Domain, gateways: list[Gateway]) -> Ways:
    """Members added to a group by one request, with all checks and the record, against one raw modify.

    Every round has its own group, since it is quicker to restore a membership that existed before. Adding takes longer
    the more groups a member is in, so the ways take turns at being the first.
    """
    unit = domain.add_unit("Members")
    ids = [str(item) for item in domain.add_users(unit, members)]
    names = [name.encode() for name in domain.children_of(unit)]
    group = path = ""

    def add_group() -> None:
        nonlocal group, path
        guid = domain.directory.add_group(parent=unit)
        group, path = domain.directory.dn(guid), f"/api/ad/groups/{guid}/members"

    def raw(connection: Connection, _: int) -> None:
        connection.modify_s(group, [(ldap.MOD_ADD, "member", names)])

    def through(client: Client, _: int) -> None:
        _call(client, path, {"add": ids}, "added", members)

    return compare(domain, gateways, raw, through, before=add_group)
