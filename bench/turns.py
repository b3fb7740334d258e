"""Measures several ways of doing the same in turns: on a shared machine only ratios within one run count."""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple

from bench.client import Client, on_each
from bench.servers import Domain, Gateway
from bench.usage import processor_seconds
from lab.directory import Connection

RAW = "raw"
"""The way with which all others are compared."""


class Way(NamedTuple):
    """One way: `work` is timed; `before` first undoes what the last round changed."""

    work: Callable[[], object]
    before: Callable[[], object] = lambda: None


Ways = dict[str, Way]
"""The ways of a measure by their names."""


def compare(
    domain: Domain,
    gateways: list[Gateway],
    raw: Callable[[Connection, int], object],
    through: Callable[[Client, int], object],
    *,
    connections: int = 1,
    times: int = 1,
    before: Callable[[], object] = lambda: None,
) -> Ways:
    """Do the same raw and through each gateway, so many times on each of so many connections at once."""
    opened = [domain.bind() for _ in range(connections)]
    ways = {RAW: Way(partial(on_each, opened, times, raw), before)}
    for gateway in gateways:
        clients = [Client(gateway) for _ in range(connections)]
        ways[gateway.name] = Way(partial(on_each, clients, times, through), before)
    return ways


@dataclass(slots=True)
class Samples:
    """Seconds of each round, and processor seconds of all rounds by process."""

    seconds: list[float] = field(default_factory=list)
    processor: Counter[str] = field(default_factory=Counter)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class Figure(Enum):
    """How a gateway is compared with raw, and in which direction; the value is the unit."""

    SHARE = "of raw"
    """The ratio of rates, which must reach the target."""
    TIMES = "× raw"
    """The ratio of times, which must not exceed the target."""
    ADDED = "ms added"
    """Milliseconds per request above raw, which must not exceed the target."""

    def of(self, raw: float, through: float) -> float:
        """Compute the figure from the seconds of one request."""
        match self:
            case Figure.SHARE:
                return raw / through
            case Figure.TIMES:
                return through / raw
            case Figure.ADDED:
                return (through - raw) * 1000

    @property
    def at_least(self) -> bool:
        """Whether the target is the least, not the most."""
        return self is Figure.SHARE


class Measure(NamedTuple):
    """A measure: `prepare` makes the ways by name, one for each gateway and the one named `RAW`.

    It may add others by other names. A round has `requests` requests. After each round the processes get `settle`
    seconds for later work, such as recording reads, so that it counts as their processor time.
    """

    name: str
    figure: Figure
    target: float | None
    prepare: Callable[[Domain, list[Gateway]], Ways]
    requests: int = 1
    rounds: int = 5
    settle: float = 0.0
    reference: str = RAW
    """The description of the way named `RAW` in the table."""
    is_on_both: bool = False
    """Whether it runs on both databases."""


def take_turns(
    ways: Ways, processes: Mapping[str, Mapping[str, int]], *, rounds: int, settle: float = 0.0
) -> dict[str, Samples]:
    """Run each way in each round, starting with another one each time, after an uncounted round that fills caches."""
    samples = {name: Samples() for name in ways}
    names = list(ways)
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            way, roots = ways[name], processes.get(name, {})
            way.before()
            used, start = processor_seconds(roots), time.perf_counter()
            way.work()
            took = time.perf_counter() - start
            time.sleep(settle)
            if number:
                samples[name].seconds.append(took)
                now = processor_seconds(roots)
                samples[name].processor.update({part: now[part] - used[part] for part in roots})
    return samples


class Result(NamedTuple):
    """A row of the table. Times are seconds per request, `processor` milliseconds per request by part."""

    measure: Measure
    gateway: str
    database: str
    """Empty for a way that is no gateway's, such as raw."""
    raw: float
    through: float
    processor: dict[str, float]

    @property
    def value(self) -> float:
        return self.measure.figure.of(self.raw, self.through)


def measured(measure: Measure, domain: Domain, gateways: list[Gateway]) -> list[Result]:
    """Run a measure; return a result for raw, each gateway and every other way."""
    ways = measure.prepare(domain, gateways)
    by_name = {gateway.name: gateway for gateway in gateways}
    processes = {name: domain.processes | (by_name[name].processes if name in by_name else {}) for name in ways}
    samples = take_turns(ways, processes, rounds=measure.rounds, settle=measure.settle)
    each = 1000 / (measure.rounds * measure.requests)
    return [
        Result(
            measure,
            name,
            by_name[name].database if name in by_name else "",
            raw=samples[RAW].median / measure.requests,
            through=sample.median / measure.requests,
            processor={part: used * each for part, used in sample.processor.items()},
        )
        for name, sample in samples.items()
    ]
