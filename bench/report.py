"""Prints the results of `make bench` in Markdown."""

import statistics
from collections.abc import Iterable, Mapping

from bench.history import PARTS
from bench.turns import RAW, Figure, Result

_RATE, _PROCESSOR = 2.3, 0.45
"""The targets of reads against commit 5c063a4: their rate on eight connections, and their processor time."""


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
    """Print the ratios of rates and processor times to those of the commit before."""
    earlier = {result.measure.name: result for result in results if result.gateway == before}
    print_head("Measure", f"against {before}", "rate", "web CPU", "domain controller CPU")
    for result in results:
        old = earlier.get(result.measure.name)
        if old is None or result is old or "web" not in result.processor or result.database != old.database:
            continue
        rate = f"{old.through / result.through:.2f} ×"
        web, controller = (_ratio(result, old, part) for part in ("web", "domain controller"))
        if result.measure.name.startswith("read of people"):
            web += f" (target ≤ {_PROCESSOR})"
            if "8 connections" in result.measure.name:
                rate += f" (target ≥ {_RATE})"
        print_row(result.measure.name, result.gateway, rate, web, controller)


def _ratio(result: Result, old: Result, part: str) -> str:
    return f"{result.processor[part] / old.processor[part]:.2f} ×" if old.processor[part] else "–"


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
