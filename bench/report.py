"""Prints the results of `make bench` in Markdown."""

import statistics
from collections.abc import Iterable, Mapping
from typing import Final

from bench.history import PARTS
from bench.turns import RAW, Figure, Result

_TOGETHER = "all together"
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


def print_result(result: Result) -> None:
    """Print a result as a row of the table of measures."""
    measure, is_raw = result.measure, result.gateway == RAW
    name = measure.name if result.gateway != "ldapsearch" else f"{measure.name} by `ldapsearch`"
    target = "–"
    if measure.target is not None and result.is_gateway:
        sign = "≥" if measure.figure is Figure.SHARE else "≤"
        target = f"{sign} {measure.target:g}{'' if result.is_reached else ' (not reached)'}"
    told = f"{result.value:.2f} {measure.figure.value.replace('raw', measure.reference)}"
    used = (f"{result.processor[part]:.2f}" if part in result.processor else "–" for part in PARTS)
    way = measure.reference if is_raw else result.gateway
    print_row(name, way, f"{result.through * 1000:.2f}", "–" if is_raw else told, target, *used)


def print_ratios(results: list[Result], before: str) -> None:
    """Print the ratios of rates, times and processor times to those of the commit before, with their targets."""
    earlier = {result.measure.name: result for result in results if result.gateway == before}
    parts = ("web", "domain controller", "worker")
    print_head("Measure", f"against {before}", "rate", "time", *(f"processor: {part}" for part in (_TOGETHER, *parts)))
    for result in results:
        old = earlier.get(result.measure.name)
        if old is None or result is old or "web" not in result.processor or result.database != old.database:
            continue
        ratios = {"rate": old.through / result.through, "time": result.through / old.through}
        used, used_before = ({_TOGETHER: sum(each.processor.values()), **each.processor} for each in (result, old))
        ratios |= {part: used[part] / used_before[part] for part in (_TOGETHER, *parts) if used_before.get(part)}
        targets = _TARGETS.get(result.measure.name, {})
        told = (_ratio(name, ratios.get(name), targets.get(name)) for name in ("rate", "time", _TOGETHER, *parts))
        print_row(result.measure.name, result.gateway, *told)


def _ratio(name: str, ratio: float | None, target: float | None) -> str:
    if ratio is None:
        return "–"
    if target is None:
        return f"{ratio:.2f} ×"
    is_reached = ratio >= target if name == "rate" else ratio <= target
    return f"{ratio:.2f} × ({'≥' if name == 'rate' else '≤'} {target:g}{'' if is_reached else ', not reached'})"


def milliseconds(seconds: float) -> str:
    """Format seconds as milliseconds for a table."""
    return f"{seconds * 1000:.1f} ms"


def spread(times: Iterable[float]) -> tuple[str, str]:
    """The median and the maximum, in milliseconds."""
    times = list(times)
    return milliseconds(statistics.median(times)), milliseconds(max(times))


def counted(answers: Mapping[int, int]) -> str:
    """The number of answers by status, in words."""
    return ", ".join(f"{count} × {status}" for status, count in sorted(answers.items()))
