"""A full disk below the data folder: processes that count there go on, and their counts are told when there is room."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.commands import PROJECT

_NAMESPACE = ("unshare", "--mount", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")))
_MOUNT = 'mount -t tmpfs -o size=1m tmpfs "$0"'  # in a namespace of its own: it is gone with the process

# Fills the disk when some counts are there, counts on until a file would have to grow, and makes room.
_PROCESS = """
import json, sys
from pathlib import Path
from django.conf import settings
settings.configure(DATA_DIR=Path(sys.argv[1]))
from gateway.monitoring import metrics_folder
metrics_folder.use_for_worker()
from gateway.monitoring import reserved_files
reserved_files.use_reserved_files()
from prometheus_client import Counter, Histogram
from prometheus_client.multiprocess import MultiProcessCollector
reserved_files.RETRY = 3600
counted = Counter("counted", "x", ["which"])

def told():
    files = [str(file) for file in metrics_folder.of_this_process().glob("*.db")]
    found = MultiProcessCollector.merge(files, accumulate=True)
    samples = [each for family in found for each in family.samples]
    return sum(each.value for each in samples if each.name in ("counted_total", "late_count"))

def count():
    for number in range(1500):  # three times what a new file has room for
        counted.labels(f"number {number}").inc()

counted.labels("first").inc()
filler = open(Path(sys.argv[1]) / "filler", "wb", buffering=0)
for size in (4096, 1):
    try:
        while filler.write(bytes(size)):
            pass
    except OSError:
        pass
count()
late = Histogram("late", "x")  # its file is none that there was
late.observe(1)
full = told()
filler.truncate(0)
count()
in_memory = told()
for file in (counted.labels("first")._value._file, late._sum._file):
    file._retry_at = 0.0  # the time is over
count()
late.observe(1)
print(json.dumps([full, in_memory, told()]), flush=True)
"""


def test_counting_goes_on_while_the_disk_is_full_and_is_told_afterwards(tmp_path: Path) -> None:
    if subprocess.run([*_NAMESPACE, "sh", "-c", _MOUNT, tmp_path], check=False, capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here")
    counts = f'{_MOUNT} && exec "$@"'
    command = [*_NAMESPACE, "sh", "-c", counts, tmp_path, sys.executable, "-c", _PROCESS, tmp_path]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=PROJECT)
    assert done.returncode == 0, done.stderr
    full, in_memory, again = json.loads(done.stdout.splitlines()[-1])
    assert 1 < full < 1500, "what there was room for in the file is told"
    assert in_memory == full, "and nothing of the rest, though there is room by now"
    assert again == 1 + 3 * 1500 + 2


# Begins when its folder cannot be made, counts, and counts again when it can.
_EARLY_PROCESS = """
import sys
from pathlib import Path
from django.conf import settings
settings.configure(DATA_DIR=Path(sys.argv[1]))
from gateway.monitoring import metrics_folder
in_the_way = Path(sys.argv[1], "metrics")
in_the_way.touch()
metrics_folder.use_for_worker()
from gateway.monitoring import reserved_files
reserved_files.use_reserved_files()
from prometheus_client import Counter
counted = Counter("counted", "x")
counted.inc()
in_the_way.unlink()
counted._value._file._retry_at = 0.0  # the time is over
counted.inc()
print(*(folder.name == metrics_folder.of_this_process().name for folder in metrics_folder.of_workers()))
print(counted._value.get(), [file.stat().st_size > 0 for file in metrics_folder.of_this_process().iterdir()])
"""


def test_a_folder_that_cannot_be_made_yet_is_made_later(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _EARLY_PROCESS, str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=PROJECT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["True", "2.0 [True]"]
