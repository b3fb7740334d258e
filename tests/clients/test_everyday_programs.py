"""The ten programs of each client's README, as they are printed there, against the running gateway."""

import shutil
import sys
from pathlib import Path

from tests.clients.conftest import Run, copy_client, make_client, node_modules, programs


def test_in_python(tmp_path: Path, python_client: Path, run_programs: Run) -> None:
    client = shutil.copytree(python_client, tmp_path / "python")
    (client / "programs.py").write_text(programs(client, "python"), "utf-8")
    assert "AD.Object.NotFound" in run_programs([sys.executable, "programs.py"], client)


def test_in_typescript(tmp_path: Path, run_programs: Run) -> None:
    client = copy_client("typescript", tmp_path)
    (client / "node_modules").symlink_to(node_modules())
    (client / "src" / "programs.ts").write_text(programs(client, "ts"), "utf-8")
    make_client("typescript", client)
    assert "AD.Object.NotFound" in run_programs(["node", "dist/programs.js"], client)
