"""A batch of updates with its log against raw modifies done one after the other."""

from functools import partial
from itertools import count

import ldap

from bench.client import Client
from bench.domain import Domain
from bench.gateway import Gateway
from bench.turns import RAW, Figure, Measure, Way


def measure_batch(items: int) -> Measure:
    """All ways give the same users another title."""

    def prepare(domain: Domain, gateways: list[Gateway]) -> dict[str, Way]:
        connection = domain.connect()
        ids = domain.add_users(domain.add_unit("Batch"), items)
        titles = (f"Title {number}" for number in count())

        def raw() -> None:
            title = next(titles).encode()
            for item in ids:
                connection.modify_s(f"<GUID={item}>", [(ldap.MOD_REPLACE, "title", [title])])

        def batch(gateway: Gateway) -> None:
            title = next(titles)
            body = {"items": [{"id": str(item), "replace": {"title": title}} for item in ids]}
            answer = Client(gateway).call("POST", "/api/ad/users/batch/update", body)
            if answer["succeeded"] != items:
                raise SystemExit(f"a batch was answered with {str(answer)[:500]}")

        return {RAW: Way(raw)} | {gateway.name: Way(partial(batch, gateway)) for gateway in gateways}

    return Measure(f"batch of {items} updates with its log", Figure.TIMES, 1.1, prepare)
