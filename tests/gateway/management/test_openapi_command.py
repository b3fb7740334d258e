"""`manage.py openapi`: the documents, in every environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from lab.commands import PROJECT

KEPT = PROJECT / "docs" / "openapi"


def test_a_production_gateway_prints_the_document_of_the_release() -> None:
    environment = os.environ | {
        "GATEWAY_ENVIRONMENT": "Production",
        "GATEWAY_ALLOWED_HOSTS": "gateway.example.com",
    }
    printed = subprocess.run(
        [sys.executable, "manage.py", "openapi"], cwd=PROJECT, env=environment, capture_output=True, check=False
    )
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout == (KEPT / "api.json").read_bytes()


@pytest.mark.parametrize("surface", ["api", "rest"])
def test_to_a_file(tmp_path: Path, surface: str) -> None:
    call_command("openapi", surface=surface, output=tmp_path / "document.json")
    assert (tmp_path / "document.json").read_bytes() == (KEPT / f"{surface}.json").read_bytes()
