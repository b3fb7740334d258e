"""The programs of each client's README, as they are printed there, by its package against the running gateway."""

import json
import re
import subprocess
import sys
import tomllib
from email.parser import BytesParser
from pathlib import Path
from zipfile import ZipFile

import pytest

from lab.commands import PROJECT
from tests.clients.conftest import Run, copy_client, make_client, node_modules, programs

RECIPES = {"python": "python", "typescript": "ts"}
"""The language of each client's programs."""


BROKEN_STREAM = """
import { stream } from "directory-management-gateway-client";
const response = new Response('{"id": 1}\\n{"code": "Any.Code", "status": 503, "detail": "Gone"');
try {
  for await (const item of stream(async () => ({ response, data: response.body }))) process.stdout.write(`${item.id} `);
} catch (refusal) {
  console.log(refusal.message);
}
"""


def test_in_python(tmp_path: Path, python_client: Path, run_programs: Run) -> None:
    [wheel] = (python_client / "package").iterdir()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*install, str(wheel)], check=True)
    (tmp_path / "programs.py").write_text(programs(python_client, "python"), "utf-8")
    assert "AD.Object.NotFound" in run_programs([sys.executable, "programs.py"], tmp_path)


def test_in_typescript(tmp_path: Path, run_programs: Run) -> None:
    client = copy_client("typescript", tmp_path)
    (client / "node_modules").symlink_to(node_modules())
    (client / "src" / "programs.ts").write_text(programs(client, "ts"), "utf-8")
    subprocess.run(["tar", "-xf", make_client("typescript", client), "-C", tmp_path], check=True)
    installed = tmp_path / "package"
    described = json.loads((installed / "package.json").read_text("utf-8"))
    assert described["version"] == _version()
    assert {"name", "description", "keywords", "license", "types", "exports", "engines"} <= described.keys()
    assert all((installed / name).is_file() for name in (described["types"], "README.md", "LICENSE"))
    (installed / "node_modules").symlink_to(node_modules())
    assert "AD.Object.NotFound" in run_programs(["node", "dist/programs.js"], installed)
    (installed / "broken.mjs").write_text(BROKEN_STREAM)
    assert run_programs(["node", "broken.mjs"], installed) == "1 503 Any.Code: Gone\n"


def test_the_wheel_describes_itself(python_client: Path) -> None:
    [wheel] = (python_client / "package").iterdir()
    with ZipFile(wheel) as package:
        names = package.namelist()
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        described = BytesParser().parsebytes(package.read(metadata))
    assert described["Version"] == _version()
    assert {"Summary", "Keywords", "Classifier", "License-Expression", "License-File", "Requires-Python"} <= {
        *described
    }
    assert described.get_payload()
    typed = [name for name in names if name.endswith("py.typed")]
    assert typed == ["gateway_client/py.typed", "gateway_client/generated/py.typed"]


@pytest.mark.parametrize("client", RECIPES)
def test_each_everyday_task_takes_five_lines(client: str) -> None:
    page = (PROJECT / "docs" / "everyday-tasks.md").read_text("utf-8")
    tasks = {task.replace("\\|", "|") for task in re.findall(r"^\| (.+?) \| (?!Gateway)", page, re.MULTILINE)}
    readme = (PROJECT / "clients" / client / "README.md").read_text("utf-8")
    recipes = re.findall(rf"^### ([^\n]+)\n\n```{RECIPES[client]}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    told = {task for task, _ in recipes}
    assert told <= tasks
    assert len(told) >= 0.9 * len(tasks), tasks - told
    assert [task for task, program in recipes if program.count("\n") > 5] == []


def _version() -> str:
    version: str = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return version
