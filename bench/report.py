"""Prints the results of `make bench` in Markdown."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from bench.history import PARTS
from bench.turns import RAW, Result

_TOGETHER = "all together"
_RATIOS = ("rate", "time", _TOGETHER, "web", "domain controller", "worker")
_TARGETS: Final[Mapping[str, Mapping[str, float]]] = {
    "read of people on 1 connection": {"time": 0.85},
    "read of people on 8 connections": {
        "rate": 1.9,
        _TOGETHER: 0.55,
        "web": 0.55,
        "domain controller": 0.58,
        "worker": 0.4,
    },
    "search of 1000 × 20 attributes": {"web": 0.45},
}
"""What is to be reached against commit dffcd62 (docs/performance.md#targets): at least the rate, at most the rest."""


def print_head(*columns: str) -> None:
    """Begin a table."""
    print()
    print_row(*columns)
    print("|---" * len(columns) + "|", flush=True)


def print_row(*cells: object) -> None:
    """Print a row of the table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def target_of(value: float, target: float | None, *, at_least: bool = False) -> str:
    """Format a target, and say if a value does not reach it."""
    if target is None:
        return "–"
    is_reached = value >= target if at_least else value <= target
    return f"{'≥' if at_least else '≤'} {target:g}{'' if is_reached else ' (not reached)'}"


def print_result(result: Result) -> None:
    """Print a result as a row of the table of measures."""
    measure, figure = result.measure, result.measure.figure
    way, told = result.gateway, f"{result.value:.2f} {figure.value.replace(RAW, measure.reference)}"
    if result.gateway == RAW:
        way, told = measure.reference, "–"
    target = target_of(result.value, measure.target if result.database else None, at_least=figure.at_least)
    used = (f"{result.processor[part]:.2f}" if part in result.processor else "–" for part in PARTS)
    print_row(measure.name, way, f"{result.through * 1000:.2f}", told, target, *used)


def print_ratios(results: list[Result], before: str) -> None:
    """Print the ratios of rates, times and processor times to those of the commit before, with their targets."""
    earlier = {result.measure.name: result for result in results if result.gateway == before}
    print_head("Measure", f"against {before}", *_RATIOS[:2], *(f"processor: {part}" for part in _RATIOS[2:]))
    for result in results:
        old = earlier.get(result.measure.name)
        if old is None or result is old or result.database != old.database:
            continue
        ratios = {"rate": old.through / result.through, "time": result.through / old.through}
        used, used_before = ({_TOGETHER: sum(each.processor.values()), **each.processor} for each in (result, old))
        ratios |= {part: used[part] / used_before[part] for part in _RATIOS[2:] if used_before.get(part)}
        targets = _TARGETS.get(result.measure.name, {})
        print_row(
            result.measure.name,
            result.gateway,
            *(_ratio(name, ratios[name], targets.get(name)) if name in ratios else "–" for name in _RATIOS),
        )


def _ratio(name: str, ratio: float, target: float | None) -> str:
    told = "" if target is None else f" ({target_of(ratio, target, at_least=name == 'rate')})"
    return f"{ratio:.2f} ×{told}"


def spread(times: Sequence[float]) -> tuple[str, str]:
    """The median and the maximum, in milliseconds."""
    return milliseconds(statistics.median(times)), milliseconds(max(times))


def milliseconds(seconds: float) -> str:
    """Format seconds as milliseconds for a table."""
    return f"{seconds * 1000:.1f} ms"
