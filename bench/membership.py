"""Members put into a group by one request, with their existence, scopes, cycles and record, against one raw modify."""

import uuid
from functools import partial

import ldap

from bench.client import Client
from bench.domain import Domain
from bench.gateway import Gateway
from bench.turns import RAW, Figure, Measure, Way

_GLOBAL_SECURITY_GROUP = b"-2147483646"


def measure_membership(members: int) -> Measure:
    """Every round has a group of its own: a membership that was there before is quicker to bring back.

    The more groups a member is in, the longer one more takes, so the ways take turns at being the first.
    """

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        connection = domain.connect()
        unit = domain.add_unit("Members")
        ids = [str(item) for item in domain.add_users(unit, members)]
        names = [dn.encode() for dn, _ in connection.search_s(unit, ldap.SCOPE_ONELEVEL, attrlist=["1.1"])]
        group = ""

        def add_group() -> None:
            nonlocal group
            group = f"CN=Bench {uuid.uuid4().hex[:8]},{unit}"
            connection.add_s(group, [("objectClass", [b"group"]), ("groupType", [_GLOBAL_SECURITY_GROUP])])

        def through(gateway: Gateway) -> None:
            answer = Client(gateway).call("POST", f"/api/ad/groups/{domain.guid_of(group)}/members", {"add": ids})
            if answer["added"] != members:
                raise SystemExit(f"a change of members was answered with {answer}")

        ways = {RAW: Way(lambda: connection.modify_s(group, [(ldap.MOD_ADD, "member", names)]), add_group)}
        for gateway in gateways:
            ways[gateway.name] = Way(partial(through, gateway), add_group)
        return ways

    return Measure(f"{members} members into a group", Figure.TIMES, 1.25, prepare, rounds=9)
