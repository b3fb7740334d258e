"""What processes use of the machine: processor time and memory, of a process with all that it started (proc(5))."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


class Memory(NamedTuple):
    """What a process takes, in megabytes.

    `proportional` counts what it shares with others, such as libraries, by its part only: the sum over all processes
    is what the machine has to have. `resident` counts it in full for each.
    """

    process: str
    resident: float
    proportional: float


class _Process(NamedTuple):
    parent: int
    seconds: float


def processor_seconds(roots: Mapping[str, int]) -> dict[str, float]:
    """Seconds of processor, user and system, that each named process has used with its descendants until now.

    Those that have ended count with the parent that waited for them. Not by process group: every backend of PostgreSQL
    is a session of its own.
    """
    processes = _processes()
    return {
        name: sum(processes[member].seconds for member in _family(root, processes) if member in processes)
        for name, root in roots.items()
    }


def memory_of(root: int) -> list[Memory]:
    """The memory of a process and of each of its descendants."""
    found = []
    for member in _family(root, _processes()):
        place = Path("/proc") / str(member)
        try:
            name = (place / "comm").read_text().strip()
            fields = dict(line.split(":", 1) for line in (place / "smaps_rollup").read_text().splitlines()[1:])
        except OSError:
            continue
        resident, proportional = (int(fields[field].split()[0]) / 1024 for field in ("Rss", "Pss"))
        found.append(Memory(name, resident, proportional))
    return sorted(found)


def _processes() -> dict[int, _Process]:
    found = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name stands in parentheses and may contain anything; the fields from the state on follow it.
            fields = file.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        # utime, stime, and both of the children that were waited for.
        found[int(file.parent.name)] = _Process(int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)
    return found


def _family(root: int, processes: Mapping[int, _Process]) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for number, process in processes.items():
        children.setdefault(process.parent, []).append(number)
    waiting = [root]
    while waiting:
        member = waiting.pop()
        yield member
        waiting += children.get(member, ())
