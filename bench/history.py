"""Keeps the last figures of every commit in `bench/history.csv`, and draws them."""

import csv
import datetime
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from bench.turns import Figure, Result
from lab.commands import PROJECT

FILE = PROJECT / "bench" / "history.csv"
PICTURE = PROJECT / "docs" / "pictures" / "performance.svg"
PARTS = ("web", "worker", "domain controller", "redis", "database")
Row = Mapping[str, str]

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 300, 170, 12, 44, 28
_ACROSS = 3
_SHOWN = 6
"""The number of commits in the picture, the last ones."""
_STYLE = (
    "text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.unit,.commit{fill:#777;font-size:11px}"
    ".value,.commit{text-anchor:middle}rect{fill:#4a7ebb}.target{stroke:#c0392b;stroke-dasharray:4 3}"
)


def keep(results: Iterable[Result], commits: Mapping[str, str], file: Path = FILE) -> list[Row]:
    """Put the figures of gateways into the file, replacing earlier ones of the same commit; return all rows.

    `commits` has the commits by the names of the gateways, oldest first.
    """
    results = list(results)
    news = [_row_of(result, commit) for name, commit in commits.items() for result in results if result.gateway == name]
    kept = {(row["commit"], row["database"], row["measure"]): row for row in (*read(file), *news)}
    rows = list(kept.values())
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[-1]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return rows


def _row_of(result: Result, commit: str) -> Row:
    measure = result.measure
    return {
        "commit": commit,
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "database": result.database,
        "measure": measure.name,
        "value": f"{result.value:.3f}",
        "unit": measure.figure.value,
        "target": "" if measure.target is None else f"{measure.target:g}",
        "raw_ms": f"{result.raw * 1000:.3f}",
        "gateway_ms": f"{result.through * 1000:.3f}",
        **{
            f"{part.replace(' ', '_')}_cpu_ms": f"{result.processor[part]:.3f}" if part in result.processor else ""
            for part in PARTS
        },
    }


def read(file: Path = FILE) -> list[Row]:
    """Read all rows, oldest first."""
    return list(csv.DictReader(file.read_text().splitlines())) if file.exists() else []


def draw(rows: Iterable[Row]) -> str:
    """Draw the figures as SVG: a panel for each measure and database, a bar for each of the last commits."""
    panels: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        panels.setdefault((row["measure"], row["database"]), []).append(row)
    drawn = [
        f'<g transform="translate({number % _ACROSS * _WIDTH},{number // _ACROSS * _HEIGHT})">{_panel(those)}</g>'
        for number, those in enumerate(panels.values())
    ]
    width, height = _ACROSS * _WIDTH, -(-len(panels) // _ACROSS) * _HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<style>{_STYLE}</style><path fill="#fff" d="M0 0h{width}v{height}H0z"/>{"".join(drawn)}</svg>\n'
    )


def _panel(rows: Sequence[Row]) -> str:
    """Draw one measure on one database."""
    *_, last = rows = rows[-_SHOWN:]
    unit, target = last["unit"], float(last["target"] or 0)
    highest = max(target, *(float(row["value"]) for row in rows)) * 1.15 or 1.0
    floor, scale = _HEIGHT - _BOTTOM, (_HEIGHT - _TOP - _BOTTOM) / highest
    step = (_WIDTH - 2 * _LEFT) / len(rows)
    width = min(44.0, step * 0.7)
    database = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}[last["database"]]
    parts = [_text(_LEFT, 16, f"{last['measure']} ({database})", "title")]
    if target:
        line = floor - target * scale
        parts.append(f'<path class="target" d="M{_LEFT} {line:.1f}H{_WIDTH - _LEFT}"/>')
        unit += f", target {'≥' if unit == Figure.SHARE.value else '≤'} {target:g}"
    parts.append(_text(_LEFT, 32, unit, "unit"))
    for number, row in enumerate(rows):
        value, middle = float(row["value"]), _LEFT + step * (number + 0.5)
        bar = value * scale
        parts += [
            f'<rect x="{middle - width / 2:.1f}" y="{floor - bar:.1f}" width="{width:.1f}" height="{bar:.1f}"/>',
            _text(middle, floor - bar - 4, f"{value:.2f}", "value"),
            _text(middle, floor + 14, row["commit"][:7], "commit"),
        ]
    return "".join(parts)


def _text(x: float, y: float, content: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(content)}</text>'
