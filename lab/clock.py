"""The clock of the tests and their servers, which `make test CLOCK=…` sets.

Child processes inherit the clock of the test process, so PostgreSQL, Samba, the gateway and Chromium share it.
"""

import os
import time
from collections.abc import Sequence

DAY = 86_400
CLOCK = os.environ.get("FAKETIME", "")


def without_fake_clock(command: Sequence[str]) -> list[str]:
    """Return the command with the real clock.

    For Redis, whose allocator deadlocks with libfaketime at its start. It only ever gets durations, never times.
    """
    return ["env", "--unset=LD_PRELOAD", *command]


def stay_within_a_day(seconds: float = 60) -> None:
    """Wait for the next day (UTC) if this one has fewer seconds left."""
    left = DAY - time.time() % DAY
    if left < seconds:
        time.sleep(left + 0.1)
