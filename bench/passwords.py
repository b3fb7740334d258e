"""Resets through the gateway against raw modifies of unicodePwd, in turn: `python -m bench.passwords`."""

import statistics
import uuid
from functools import partial

import ldap

from bench.measuring import Gateway, add_users, row, seconds
from bench.stack import Stack, running_stack

RESETS = 100


def measure_resets(stack: Stack) -> tuple[float, float]:
    """Median seconds of one reset: raw, and with its permission, protection, policy and record.

    They take turns account by account, so that both meet the same load of a shared machine.
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

    raws, throughs = [], []
    for item in ids:
        raws.append(seconds(partial(raw, item, "Bench-Password-1")))
        throughs.append(seconds(partial(through, item, "Bench-Password-2")))
    return statistics.median(raws), statistics.median(throughs)


def main() -> None:
    with running_stack() as stack:
        print("| Measure | raw python-ldap | gateway | result | target |\n|---|---|---|---|---|")
        raw, through = measure_resets(stack)
        row("reset one password", raw, through, f"{through / raw:.2f} × raw", "≤ 1.15 × raw")


if __name__ == "__main__":
    main()
