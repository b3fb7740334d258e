"""Which folders of measurements are whose, where containers share their place."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.commands import PROJECT

_NAMESPACE = ("unshare", *(() if os.geteuid() == 0 else ("--user",)), "--pid", "--fork", "--kill-child")

# Counts until its input ends.
_WORKER = """
import json, sys
from pathlib import Path
from django.conf import settings
settings.configure(METRICS_DIR=Path(sys.argv[1]))
from gateway.monitoring import metrics_folder
metrics_folder.use_for_worker()
workers = {folder.name: metrics_folder.is_in_our_pid_namespace(folder) for folder in metrics_folder.worker_folders()}
print(json.dumps([metrics_folder.own_folder().name, workers]), flush=True)
sys.stdin.read()
"""


@contextmanager
def worker(data: Path, *prefix: str) -> Iterator[tuple[str, dict[str, bool]]]:
    """One that runs; the name of its folder, and those that it finds, with whether it can see their processes."""
    command = [*prefix, sys.executable, "-c", _WORKER, str(data)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    with process:
        assert process.stdout is not None
        name, workers = json.loads(process.stdout.readline())
        yield name, workers


def test_containers_that_count_in_one_place(tmp_path: Path) -> None:
    """The first process of each has the same number: their counts are apart, and nobody removes another's."""
    if subprocess.run([*_NAMESPACE, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no namespaces here")
    with worker(tmp_path, *_NAMESPACE) as (one, _):
        with worker(tmp_path, *_NAMESPACE) as (two, told):
            assert one != two
            assert one.endswith("-1")
            assert two.endswith("-1")
            assert told == {one: False, two: True}
        with worker(tmp_path) as (three, told):  # two has ended
            assert told == {one: False, three: True}
            assert {folder.name for folder in tmp_path.iterdir()} == {one, three}
