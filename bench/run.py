"""A run that disables the accounts of an organizational unit, with its log, against as many raw modifies."""

import uuid
from functools import partial

import ldap

from bench.client import Client
from bench.domain import Domain
from bench.gateway import Gateway
from bench.turns import RAW, Figure, Measure, Way

_ENABLED, _DISABLED = b"544", b"546"
"""userAccountControl of a user without a password (MS-ADTS 2.2.16)."""


def measure_run(accounts: int) -> Measure:
    """Each way has a unit of its own; its accounts are enabled again by raw modifies before each round."""

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        connection = domain.connect()

        def modify(ids: list[uuid.UUID], value: bytes) -> None:
            for item in ids:
                connection.modify_s(f"<GUID={item}>", [(ldap.MOD_REPLACE, "userAccountControl", [value])])

        def run(gateway: Gateway, unit: uuid.UUID) -> None:
            body = Client(gateway).call(
                "POST", f"/api/ad/organization-units/{unit}/accounts/disable", {"kinds": ["user"]}
            )
            if body["succeeded"] != accounts:
                raise SystemExit(f"a run was answered with {body}")

        ids = domain.add_users(domain.add_unit("Run"), accounts)
        ways = {RAW: Way(partial(modify, ids, _DISABLED), partial(modify, ids, _ENABLED))}
        for gateway in gateways:
            unit = domain.add_unit("Run")
            theirs = domain.add_users(unit, accounts)
            ways[gateway.name] = Way(partial(run, gateway, domain.guid_of(unit)), partial(modify, theirs, _ENABLED))
        return ways

    return Measure(f"run of {accounts} with its log", Figure.TIMES, 1.2, prepare)
