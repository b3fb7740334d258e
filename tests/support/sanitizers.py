"""The module in C under the address and undefined-behaviour sanitizers."""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_LOADED = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("active_directory._answers", sys.argv[1])
sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
"""


def run_under_sanitizers(folder: Path, program: str) -> str:
    """Compile the module into a folder, and return what a program that uses it prints. It must end well."""
    compiled = folder / "_answers.abi3.so"
    sanitize = "-g -fsanitize=address,undefined -fno-sanitize-recover=all"
    command = [str(_ROOT / "scripts" / "compile-answers"), sys.executable, str(compiled)]
    subprocess.run(command, env={**os.environ, "SANITIZE": sanitize}, check=True)
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
    }
    ended = subprocess.run(
        [sys.executable, "-c", _LOADED + program, str(compiled)],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout
