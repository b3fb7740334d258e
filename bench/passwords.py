"""Resets through the gateway against raw modifies of unicodePwd, in turn: `python -m bench.passwords`."""

import statistics
import uuid
from itertools import count

import ldap

from bench.measuring import Gateway, add_users, row, seconds
from bench.stack import Stack, running_stack

ROUNDS = 5
RESETS = 20


def measure_resets(stack: Stack) -> tuple[float, float]:
    """Median seconds of one reset: raw, and with its permission, protection, policy and record."""
    connection, gateway = stack.connect(), Gateway(stack)
    ids = add_users(connection, f"OU=Passwords {uuid.uuid4().hex[:8]},{stack.base_dn}", RESETS)
    passwords = (f"Bench-Password-{number}" for number in count())

    def raw() -> None:
        for item in ids:
            value = f'"{next(passwords)}"'.encode("utf-16-le")
            connection.modify_s(f"<GUID={item}>", [(ldap.MOD_REPLACE, "unicodePwd", [value])])

    def through() -> None:
        for item in ids:
            status, body = gateway.call(
                "POST", f"/api/ad/users/{item}/reset-password", {"newPassword": next(passwords)}
            )
            if status != 200:
                raise SystemExit(f"a reset was answered with {status}: {body}")

    raw(), through()
    raws, throughs = [], []
    for _ in range(ROUNDS):
        raws.append(seconds(raw) / RESETS)
        throughs.append(seconds(through) / RESETS)
    return statistics.median(raws), statistics.median(throughs)


def main() -> None:
    with running_stack("127.0.34.2") as stack:
        print("| Measure | raw python-ldap | gateway | result | target |\n|---|---|---|---|---|")
        raw, through = measure_resets(stack)
        row("reset one password", raw, through, f"{through / raw:.2f} × raw", "≤ 1.15 × raw")


if __name__ == "__main__":
    main()
