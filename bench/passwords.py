"""Resets, with permission, protection, policy and record, against raw modifies of unicodePwd."""

from functools import partial
from itertools import count, cycle

import ldap

from bench.client import Client
from bench.domain import Domain
from bench.gateway import Gateway
from bench.turns import RAW, Figure, Measure, Way


def measure_resets(resets: int) -> Measure:
    """One reset a round, so that all ways meet the same load of a shared machine.

    Every account has a password already: replacing one takes the domain controller half as long again as the first.
    """

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        connection = domain.connect()
        ids = domain.add_users(domain.add_unit("Passwords"), min(50, resets))
        passwords = (f"Bench-Password-{number}" for number in count())
        accounts = cycle(ids)

        def raw() -> None:
            value = f'"{next(passwords)}"'.encode("utf-16-le")
            connection.modify_s(f"<GUID={next(accounts)}>", [(ldap.MOD_REPLACE, "unicodePwd", [value])])

        def through(client: Client) -> None:
            body = {"newPassword": next(passwords)}
            client.call("POST", f"/api/ad/users/{next(accounts)}/reset-password", body)

        for _ in ids:
            raw()
        clients = {gateway.name: Client(gateway) for gateway in gateways}
        return {RAW: Way(raw)} | {name: Way(partial(through, client)) for name, client in clients.items()}

    return Measure("reset of a password", Figure.TIMES, 1.12, prepare, rounds=resets)
