"""Runs `dirgate` as a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.commands import PROJECT

SOURCES = PROJECT / "clients" / "command_line"
COMMAND = [sys.executable, "-m", "dirgate"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    output: str
    errors: str

    @property
    def document(self) -> Any:
        return json.loads(self.output)


@dataclass(frozen=True)
class Terminal:
    """Runs `dirgate` with a key, in a home of its own."""

    home: Path
    environment: dict[str, str]

    def run(self, *words: str, typed: str = "", **environment: str) -> Ended:
        ended = subprocess.run(
            [*COMMAND, *words],
            input=typed,
            env=self.environment | environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in ended.stderr, ended.stderr
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *words: str, **how: Any) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([*COMMAND, *words], env=self.environment, cwd=self.home, **how)


def terminal(home: Path, **environment: str) -> Terminal:
    return Terminal(home, {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCES), "HOME": str(home), **environment})
