"""What the wheel holds besides Python: `active_directory/*.c`, compiled for the machine that builds it.

With Python's stable interface, and linked to nothing but the C library, one file serves every Python from 3.11 and
every libldap. For another processor the wheel is built of the source archive, which pip does by itself.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_INSTALLED = "directory_management_gateway/apps/active_directory/_answers.abi3.so"


class AnswersHook(BuildHookInterface[Any]):
    """Compiles, and says in the wheel's name for what it was."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before a wheel is built."""
        compiled = Path(mkdtemp()) / "_answers.abi3.so"
        subprocess.run([Path(self.root, "scripts", "compile-answers"), sys.executable, compiled], check=True)
        build_data["force_include"][str(compiled)] = _INSTALLED
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
