"""The ten programs of each client's README, as they are printed there, against the running gateway."""

import sys
from pathlib import Path

from tests.clients.conftest import Run, copy_client, make_client, programs


def test_in_python(tmp_path: Path, run_programs: Run) -> None:
    client = copy_client("python", tmp_path)
    make_client("python", client)
    (client / "programs.py").write_text(programs(client, "python"), "utf-8")
    assert "AD.Object.NotFound" in run_programs([sys.executable, "programs.py"], client)
