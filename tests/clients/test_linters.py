"""The recommended rules of Redocly and Spectral, and ours, find nothing in either document: no error, no warning."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from lab.commands import PROJECT
from tests.clients.conftest import node_modules, node_path

DOCUMENTS = [str(PROJECT / "docs" / "openapi" / f"{surface}.json") for surface in ("api", "rest")]


def lint(script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    quiet = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_COLOR": "1"}
    return subprocess.run(
        ["node", node_modules() / script, *arguments],
        env={**os.environ, **quiet, "PATH": node_path()},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("document", DOCUMENTS)
def test_redocly(document: str) -> None:
    found = lint("@redocly/cli/bin/cli.js", "lint", "--extends", "recommended", "--format", "json", document)
    report = json.loads(found.stdout[found.stdout.index("{") :])
    assert report["totals"] == {"errors": 0, "warnings": 0, "ignored": 0}, found.stdout


def test_spectral() -> None:
    rules = str(Path(__file__).parent / "spectral.mjs")
    found = lint("@stoplight/spectral-cli/dist/index.js", "lint", "--fail-severity", "warn", "-r", rules, *DOCUMENTS)
    assert found.returncode == 0, found.stdout + found.stderr
