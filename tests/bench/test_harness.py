"""The benchmark's own machinery: what it counts, how ways take turns, and what it keeps. Nothing is measured here."""

import math
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from django.core.management import call_command

from audit.models import OperationRecord
from bench.growth.fill_log import write_log
from bench.growth.measures import law_of
from bench.history import draw, keep, read
from bench.report import target_of
from bench.turns import RAW, Figure, Measure, Result, Way, take_turns
from bench.usage import memory_of, processor_seconds

_FAMILY = """\
import subprocess, sys, time
burn = "import time\\nwhile time.process_time() < %s: pass\\n"
subprocess.run([sys.executable, "-c", burn % 0.3])  # has ended, and was waited for
then = "print('burnt', flush=True); input()"
child = subprocess.Popen([sys.executable, "-c", burn % 0.3 + then], start_new_session=True)
child.wait()
"""


@pytest.fixture
def family() -> Iterator[subprocess.Popen[str]]:
    """A process with a child that has ended and one that lives, in a session of its own, 0.3 s of processor each."""
    with subprocess.Popen(
        [sys.executable, "-c", _FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "burnt\n"
        yield process
        process.communicate("\n")


def test_processor_time_of_descendants_counts(family: subprocess.Popen[str]) -> None:
    used = processor_seconds({"family": family.pid, "nobody": 2**22 + 1})
    assert used["family"] > 0.5
    assert used["nobody"] == 0


def test_memory_of_descendants_is_told(family: subprocess.Popen[str]) -> None:
    found = memory_of(family.pid)
    assert len(found) == 2
    assert all(process.resident >= process.proportional > 0 for process in found)


def test_each_way_is_the_first_of_a_round_in_turn_and_the_first_round_does_not_count() -> None:
    done: list[str] = []
    ways = {name: Way(partial(done.append, name), partial(done.append, f"before {name}")) for name in (RAW, "one")}
    samples = take_turns(ways, {}, rounds=2)
    works = [entry for entry in done if not entry.startswith("before")]
    assert works == [RAW, "one", "one", RAW, RAW, "one"]
    assert done[:4] == [f"before {RAW}", RAW, "before one", "one"]
    assert [len(sample.seconds) for sample in samples.values()] == [2, 2]


@pytest.mark.parametrize(
    ("figure", "value", "reached", "missed"),
    [(Figure.SHARE, 0.5, 0.4, 0.6), (Figure.TIMES, 2.0, 2.1, 1.9), (Figure.ADDED, 1.0, 1.1, 0.9)],
)
def test_figures_know_their_direction(figure: Figure, value: float, reached: float, missed: float) -> None:
    assert figure.of(0.001, 0.002) == pytest.approx(value)
    assert "not" not in target_of(value, reached, at_least=figure.at_least)
    assert "not reached" in target_of(value, missed, at_least=figure.at_least)


@pytest.mark.parametrize(
    ("figures", "law"),
    [([10, 11, 10], "constant"), ([10, 14, 18], "log n"), ([10, 40, 100], "√n"), ([10, 100, 900], "n"), ([10], "–")],
)
def test_the_law_of_growth(figures: list[float], law: str) -> None:
    assert law_of([1000, 10_000, 100_000][: len(figures)], figures) == law
    assert law_of([1000, 10_000], [math.nan, 5]) == "–", "what was refused grows by no law"


def test_the_long_log_verifies(db: None) -> None:
    write_log(600)
    assert OperationRecord.objects.filter(operation="users.update").count() == 60
    output = StringIO()
    call_command("verify_operations_log", stdout=output)
    assert "600 records" in output.getvalue()


def result_of(gateway: str, through: float, measure: str = "read <one>") -> Result:
    asked = Measure(measure, Figure.SHARE, 0.5, lambda _domain, _gateways: {})
    return Result(asked, gateway, "sqlite", raw=0.001, through=through, processor={"web": 1.5})


def test_the_last_figures_of_each_commit_are_kept_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "history.csv"
    keep([result_of("then", 0.008), result_of("now", 0.004), result_of("bare", 0.002)], {"then": "a", "now": "b"}, file)
    rows = keep([result_of("now", 0.002)], {"now": "b"}, file)
    assert rows == read(file)
    assert [(row["commit"], row["value"], row["web_cpu_ms"]) for row in rows] == [
        ("a", "0.125", "1.500"),
        ("b", "0.500", "1.500"),
    ]
    picture = ElementTree.fromstring(draw(rows))  # noqa: S314 - our own
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["read <one> (SQLite)", "of raw, target ≥ 0.5", "0.12", "a", "0.50", "b"]
