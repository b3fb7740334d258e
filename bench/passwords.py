"""Resets through the gateway against raw modifies of unicodePwd, in turn: `python -m bench.passwords`."""

import statistics
import uuid
from collections.abc import Callable
from functools import partial

import ldap

from bench.measuring import Gateway, add_users, row, seconds
from bench.stack import Stack, running_stack

RESETS = 100

Way = Callable[[uuid.UUID, str], None]


def measure_resets(stack: Stack) -> tuple[float, float]:
    """Median seconds of one reset: raw, and with its permission, protection, policy and record.

    They take turns account by account, and at being the first, so that both meet the same load of a shared machine.
    Every account has a password already: replacing one takes the domain controller half as long again as the first.
    """
    connection, gateway = stack.connect(), Gateway(stack)
    ids = add_users(connection, f"OU=Passwords {uuid.uuid4().hex[:8]},{stack.base_dn}", RESETS)

    def raw(item: uuid.UUID, password: str) -> None:
        value = f'"{password}"'.encode("utf-16-le")
        connection.modify_s(f"<GUID={item}>", [(ldap.MOD_REPLACE, "unicodePwd", [value])])

    def through(item: uuid.UUID, password: str) -> None:
        status, body = gateway.call("POST", f"/api/ad/users/{item}/reset-password", {"newPassword": password})
        if status != 200:
            raise SystemExit(f"a reset was answered with {status}: {body}")

    for item in ids:
        raw(item, "Bench-Password-0")
    times: dict[Way, list[float]] = {raw: [], through: []}
    for number, item in enumerate(ids):
        ways = (raw, through) if number % 2 else (through, raw)
        for turn, way in enumerate(ways, 1):
            times[way].append(seconds(partial(way, item, f"Bench-Password-{turn}")))
    return statistics.median(times[raw]), statistics.median(times[through])


def main() -> None:
    with running_stack() as stack:
        print("| Measure | raw python-ldap | gateway | result | target |\n|---|---|---|---|---|")
        raw, through = measure_resets(stack)
        row("reset one password", raw, through, f"{through / raw:.2f} × raw", "≤ 1.15 × raw")


if __name__ == "__main__":
    main()
