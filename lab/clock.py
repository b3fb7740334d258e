"""The clock of the tests and of their servers, which `make test CLOCK=…` sets.

Whatever a test process starts inherits its clock: PostgreSQL, Samba, the gateway's processes and Chromium have the
same time.
"""

import os
import time
from collections.abc import Sequence

DAY = 86_400
CLOCK = os.environ.get("FAKETIME", "")


def by_the_machines_clock(command: Sequence[str]) -> list[str]:
    """The command under the machine's own clock.

    For Redis, whose allocator and libfaketime wait for each other at its start. It is only ever told durations.
    """
    return ["env", "--unset=LD_PRELOAD", *command]


def stay_within_a_day(seconds: float = 60) -> None:
    """Wait for the next day (UTC) when fewer seconds than these are left of this one."""
    left = DAY - time.time() % DAY
    if left < seconds:
        time.sleep(left + 0.1)
