"""Kills the process groups of its parent when that ends; `processes` starts it and names the groups.

Reads ``+group`` and ``-group`` lines until the pipe closes, which the kernel does however the parent ends. A parent's
death signal (prctl(2)) would only reach the first process of each group: web servers' workers outlive their parent.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    """Guard until the parent ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        change = groups.add if line.startswith("+") else groups.discard
        change(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
