"""Keeps the last figures of every commit in `bench/history.csv`, and draws them."""

import csv
import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bench.turns import Figure, Result
from lab.commands import PROJECT

FILE = PROJECT / "bench" / "history.csv"
PICTURE = PROJECT / "docs" / "pictures" / "performance.svg"
PARTS = ("web", "worker", "domain controller", "redis", "database")
COLUMNS = (
    *("commit", "date", "database", "measure", "value", "unit", "target", "raw_ms", "gateway_ms"),
    *(f"{part.replace(' ', '_')}_cpu_ms" for part in PARTS),
)
Row = Mapping[str, str]

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 300, 170, 12, 44, 28
_ACROSS = 3


def keep(results: Iterable[Result], commits: Mapping[str, str], file: Path = FILE) -> list[Row]:
    """Put the figures of gateways into the file, replacing earlier ones of the same commit; return all rows.

    `commits` has the commits by the names of the gateways, oldest first.
    """
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    kept = {_key(row): row for row in read(file)}
    names = list(commits)
    for result in sorted(
        (result for result in results if result.gateway in commits), key=lambda result: names.index(result.gateway)
    ):
        measure = result.measure
        row = {
            "commit": commits[result.gateway],
            "date": today,
            "database": result.database,
            "measure": measure.name,
            "value": f"{result.value:.3f}",
            "unit": measure.figure.value,
            "target": "" if measure.target is None else f"{measure.target:g}",
            "raw_ms": f"{result.raw * 1000:.3f}",
            "gateway_ms": f"{result.through * 1000:.3f}",
            **{
                column: f"{result.processor[part]:.3f}" if part in result.processor else ""
                for part, column in zip(PARTS, COLUMNS[-len(PARTS) :], strict=True)
            },
        }
        kept[_key(row)] = row
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept.values())
    return list(kept.values())


def read(file: Path = FILE) -> list[Row]:
    """Read all rows, oldest first."""
    if not file.exists():
        return []
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def _key(row: Row) -> tuple[str, str, str]:
    return row["commit"], row["database"], row["measure"]


@dataclass(frozen=True, slots=True)
class _Panel:
    """One measure on one database, with its values by commit, oldest first."""

    title: str
    unit: str
    target: float | None
    values: list[tuple[str, float]]

    def drawn(self, left: int, top: int) -> str:
        highest = max([value for _, value in self.values] + [self.target or 0.0]) * 1.15 or 1.0
        step = (_WIDTH - 2 * _LEFT) / max(1, len(self.values))

        def height_of(value: float) -> float:
            return (_HEIGHT - _TOP - _BOTTOM) * value / highest

        floor = _HEIGHT - _BOTTOM
        parts = [f'<g transform="translate({left},{top})">', _text(_LEFT, 16, self.title, "title")]
        if self.target is not None:
            sign = "≥" if self.unit == Figure.SHARE.value else "≤"
            parts.append(_text(_LEFT, 32, f"{self.unit}, target {sign} {self.target:g}", "unit"))
            line = floor - height_of(self.target)
            parts.append(f'<path class="target" d="M{_LEFT} {line:.1f}H{_WIDTH - _LEFT}"/>')
        else:
            parts.append(_text(_LEFT, 32, self.unit, "unit"))
        for number, (commit, value) in enumerate(self.values):
            width = min(44.0, step * 0.7)
            middle = _LEFT + step * (number + 0.5)
            bar = height_of(value)
            parts.append(
                f'<rect x="{middle - width / 2:.1f}" y="{floor - bar:.1f}" width="{width:.1f}" height="{bar:.1f}"/>'
            )
            parts.append(_text(middle, floor - bar - 4, f"{value:.2f}", "value"))
            parts.append(_text(middle, floor + 14, commit[:7], "commit"))
        return "".join([*parts, "</g>"])


def draw(rows: Iterable[Row], *, shown: int = 6) -> str:
    """Draw the figures as SVG: a panel for each measure and database, a bar for each of the last commits."""
    panels: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        panels.setdefault((row["measure"], row["database"]), []).append(row)
    drawn = []
    for number, ((measure, database), those) in enumerate(panels.items()):
        last = those[-1]
        panel = _Panel(
            title=f"{measure} ({'PostgreSQL' if database == 'postgresql' else 'SQLite'})",
            unit=last["unit"],
            target=float(last["target"]) if last["target"] else None,
            values=[(row["commit"], float(row["value"])) for row in those[-shown:]],
        )
        drawn.append(panel.drawn(number % _ACROSS * _WIDTH, number // _ACROSS * _HEIGHT))
    width, height = _ACROSS * _WIDTH, -(-len(panels) // _ACROSS) * _HEIGHT
    style = (
        "text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.unit,.commit{fill:#777;font-size:11px}"
        ".value,.commit{text-anchor:middle}rect{fill:#4a7ebb}.target{stroke:#c0392b;stroke-dasharray:4 3}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<style>{style}</style><path fill="#fff" d="M0 0h{width}v{height}H0z"/>{"".join(drawn)}</svg>\n'
    )


def _text(x: float, y: float, content: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(content)}</text>'
