"""The first start of a single machine whose disk is full: commands say so, and go on when there is room."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.commands import PROJECT

_NAMESPACE = ("unshare", "--mount", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")))
# Room for one of the three secrets, then for all of them, then for the database.
_STARTS = """
set -e
mount -t tmpfs -o size=4k,mode=700 tmpfs "$GATEWAY_DATA_DIR"
"$@" && exit 1
mount -o remount,size=12k "$GATEWAY_DATA_DIR"
"$@" && exit 1
mount -o remount,size=8m "$GATEWAY_DATA_DIR"
"$@"
"""


def test_a_full_disk_is_named_until_there_is_room(tmp_path: Path) -> None:
    can = subprocess.run([*_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", tmp_path], check=False, capture_output=True)
    if can.returncode != 0:
        pytest.skip("nothing can be mounted here")
    environment = {"PATH": os.environ["PATH"], "GATEWAY_DATA_DIR": str(tmp_path), "GATEWAY_ALLOWED_HOSTS": "gw.test"}
    gateway = [sys.executable, "-m", "directory_management_gateway", "check", "--database", "default"]
    done = subprocess.run(
        [*_NAMESPACE, "sh", "-c", _STARTS, "sh", *gateway],
        check=False,
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    first, *_, second, last = done.stdout.splitlines()
    assert first.startswith("The gateway cannot start: ")
    assert first.endswith("cannot be written: No space left on device")
    assert second.startswith("gateway: the database: ")
    assert second.endswith(f"(no space is left on the disk of {tmp_path})")
    assert last.startswith("System check identified no issues")
    assert "Traceback" not in done.stdout
