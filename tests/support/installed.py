"""The gateway as a company installs it: the wheel and what it depends on, in a virtual environment of its own."""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from lab.commands import PROJECT
from lab.postgres import unprivileged_user

WHEEL = "directory_management_gateway"
_VERSION = "import platform; print(platform.python_version())"


def build_wheel(folder: Path) -> Path:
    """What `python -m build` makes of this tree, without asking a registry for its build backend."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(PROJECT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


class Installation:
    """A virtual environment with the wheel, and the account that runs it.

    What the wheel depends on is linked from the tests' own environment: just that, so nothing that is there for the
    tests alone can help. The account is not root where that can be avoided: an interpreter below root's home directory
    is of no use to others.
    """

    def __init__(self, folder: Path) -> None:
        self.user = unprivileged_user() if os.geteuid() == 0 else None
        self._python = self._find_python()
        if self._python is None:
            self.user, self._python = None, sys.executable
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._compiled = folder / "compiled"
        self._compiled.mkdir(mode=0o700)
        own(self._compiled, self.user)
        self._command([self._python, "-m", "venv", "--without-pip", folder])
        wheel = build_wheel(folder / "dist")
        self._site = next(folder.glob("lib/python3*/site-packages"))
        pip: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            folder / "bin" / "python",
            "install",
            "--quiet",
        ]
        self._command([*pip, "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check", wheel])
        self._of_python = {"python_full_version": self._command([self._python, "-c", _VERSION]).strip()}
        self.install()

    def install(self, extra: str = "") -> None:
        """What the wheel needs, with one of its extras."""
        root = Distribution.at(next(self._site.glob(f"{WHEEL}-*.dist-info")))
        for needed in _dependencies(root, self._of_python, extra):
            self._link(needed)

    @property
    def command(self) -> Path:
        return self.folder / "bin" / "gateway"

    def run(
        self, *arguments: str | Path, at: Path, environment: dict[str, str] | None = None, answers: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """One command in the folder `at`, as the account of the services, with nothing else in the environment."""
        return subprocess.run(
            [self.command, *arguments],
            cwd=at,
            env=self.environment | (environment or {}),
            input=answers,
            capture_output=True,
            text=True,
            check=False,
            **self._as_user,
        )

    @property
    def environment(self) -> dict[str, str]:
        """What every process has. The first that imports a module compiles it for all: they may not write beside it."""
        return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONPYCACHEPREFIX": str(self._compiled)}

    @property
    def _as_user(self) -> dict[str, Any]:
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}

    def _link(self, needed: Distribution) -> None:
        """Its files, and what the tests have compiled of them already."""
        for file in needed.files or ():
            source = Path(str(needed.locate_file(file)))
            if ".." in file.parts or not source.is_file():  # scripts of a command line, and compiled code that is gone
                continue
            target = self._site / file
            _link_file(source, target)
            compiled = Path(cache_from_source(source))
            if source.suffix == ".py" and compiled.is_file():
                _link_file(compiled, self._compiled / target.parent.relative_to("/") / compiled.name, self.user)

    def _find_python(self) -> str | None:
        """An interpreter of this version that the account can start."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        for candidate in (sys.executable, shutil.which(version, path="/usr/bin:/usr/local/bin")):
            if candidate and self._starts(candidate):
                return candidate
        return None

    def _starts(self, python: str) -> bool:
        try:
            done = subprocess.run([python, "-c", "import venv"], cwd="/", check=False, **self._as_user)
        except PermissionError:
            return False
        return done.returncode == 0

    @staticmethod
    def _command(command: list[str | Path]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, umask=0o022)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def own(path: Path, user: pwd.struct_passwd | None) -> Path:
    """Give a file or folder to an account."""
    if user is not None:
        os.chown(path, user.pw_uid, user.pw_gid)
    return path


def _dependencies(root: Distribution, of_python: dict[str, str], wanted_extra: str) -> Iterator[Distribution]:
    """Everything that the distribution needs with that Python, and what that needs, by their metadata."""
    extras_seen: dict[str, set[str]] = {}
    waiting = [(Requirement(text), wanted_extra) for text in root.requires or ()]
    while waiting:
        wanted, of_extra = waiting.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({**of_python, "extra": of_extra}):
            continue
        found = distribution(wanted.name)
        assert wanted.specifier.contains(found.version, prereleases=True), f"{wanted} is not {found.version}"
        if found.name not in extras_seen:
            yield found
        seen = extras_seen.setdefault(found.name, set())
        for extra in {"", *wanted.extras} - seen:
            seen.add(extra)
            waiting += [(Requirement(text), extra) for text in found.requires or ()]


def _link_file(source: Path, target: Path, owner: pwd.struct_passwd | None = None) -> None:
    if target.exists():
        return
    if not target.parent.is_dir():
        _make_readable(target.parent, owner)
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def _make_readable(folder: Path, owner: pwd.struct_passwd | None) -> None:
    """For the account too, whatever the tests' own umask."""
    if not folder.parent.is_dir():
        _make_readable(folder.parent, owner)
    folder.mkdir()
    folder.chmod(0o755)
    own(folder, owner)
