"""The processor time and memory of processes with their descendants (proc(5))."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lab.processes import Process, read_processes


class Memory(NamedTuple):
    """The memory of a process, in megabytes.

    `proportional` divides shared memory, such as libraries, among the processes, so the sum over all processes is what
    the machine needs. `resident` counts it in full for each process.
    """

    process: str
    resident: float
    proportional: float


def processor_seconds(roots: Mapping[str, int]) -> dict[str, float]:
    """Seconds of processor, user and system, that each named process has used with its descendants until now.

    Processes that have ended count for the parent that waited for them. Process groups would not do, since every
    PostgreSQL backend is its own session.
    """
    processes = read_processes()
    return {name: sum(processes[member].seconds for member in _family(root, processes)) for name, root in roots.items()}


def memory_of(root: int) -> list[Memory]:
    """The memory of a process and of each of its descendants."""
    found = []
    for member in _family(root, read_processes()):
        place = Path("/proc") / str(member)
        with suppress(OSError):  # it has ended
            fields = dict(line.split(":", 1) for line in (place / "smaps_rollup").read_text().splitlines()[1:])
            resident, proportional = (int(fields[field].split()[0]) / 1024 for field in ("Rss", "Pss"))
            found.append(Memory((place / "comm").read_text().strip(), resident, proportional))
    return sorted(found)


def _family(root: int, processes: Mapping[int, Process]) -> Iterator[int]:
    """A process and its descendants, as far as they are there."""
    if root in processes:
        yield root
    for number, process in processes.items():
        if process.parent == root:
            yield from _family(number, processes)
