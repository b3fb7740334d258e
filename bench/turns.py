"""Ways of doing the same, measured in turn: only ratios within one run compare on a shared machine."""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from bench.servers import Domain, Gateway
from bench.usage import processor_seconds

RAW = "raw"
"""The way that all others are compared with."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way: `work` is timed, `before` puts back whatever the last time changed."""

    work: Callable[[], object]
    before: Callable[[], object] = lambda: None


@dataclass(slots=True)
class Samples:
    """Seconds of each round, and the seconds of processor in all rounds, by the name of what used them."""

    seconds: list[float] = field(default_factory=list)
    processor: Counter[str] = field(default_factory=Counter)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class Figure(Enum):
    """What of raw and gateway is told, and in which direction it is good; the value is its unit."""

    SHARE = "of raw"
    """Rate by rate: at least so much."""
    TIMES = "× raw"
    """Time by time: at most so much."""
    ADDED = "ms added"
    """Milliseconds of one request above raw: at most so much."""

    def of(self, raw: float, through: float) -> float:
        """From seconds of one request."""
        match self:
            case Figure.SHARE:
                return raw / through
            case Figure.TIMES:
                return through / raw
            case Figure.ADDED:
                return (through - raw) * 1000

    def reaches(self, value: float, target: float) -> bool:
        return value >= target if self is Figure.SHARE else value <= target


@dataclass(frozen=True, slots=True)
class Measure:
    """What is measured: `prepare` makes the ways for the gateways given, by their names, and the one named `RAW`.

    It may add others by other names. One round is so many `requests`. After each the processes are given `settle`
    seconds for what they do later, such as recording reads, so that it counts among their processor time.
    """

    name: str
    figure: Figure
    target: float | None
    prepare: Callable[[Domain, list[Gateway]], dict[str, Way]]
    requests: int = 1
    rounds: int = 5
    settle: float = 0.0
    reference: str = "raw"
    """What the way named `RAW` is, for the table."""


def take_turns(
    ways: Mapping[str, Way], processes: Mapping[str, Mapping[str, int]], *, rounds: int, settle: float = 0.0
) -> dict[str, Samples]:
    """Do each way in each round, another one first each time. A round before them fills caches and is not counted."""
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


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the table. Times are seconds of one request, `processor` milliseconds of one by part."""

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

    @property
    def is_gateway(self) -> bool:
        return bool(self.database)

    @property
    def is_reached(self) -> bool:
        return self.measure.target is None or self.measure.figure.reaches(self.value, self.measure.target)


def measured(measure: Measure, domain: Domain, gateways: list[Gateway]) -> list[Result]:
    """Measure it: a result for raw itself, each gateway and every other way."""
    ways = measure.prepare(domain, gateways)
    processes = dict.fromkeys(ways, domain.processes) | {
        gateway.name: domain.processes | gateway.processes for gateway in gateways
    }
    samples = take_turns(ways, processes, rounds=measure.rounds, settle=measure.settle)
    raw = samples[RAW].median / measure.requests
    databases = {gateway.name: gateway.database for gateway in gateways}
    each = 1000 / (measure.rounds * measure.requests)
    return [
        Result(
            measure=measure,
            gateway=name,
            database=databases.get(name, ""),
            raw=raw,
            through=sample.median / measure.requests,
            processor={part: used * each for part, used in sample.processor.items()},
        )
        for name, sample in samples.items()
    ]
