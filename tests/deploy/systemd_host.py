"""A host with systemd in namespaces of its own: a folder with a Debian is its disk, the network that of its caller."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from lab.processes import start_process, stop_process

PATIENCE = 120.0

# What the first process finds: a container's kernel interfaces (systemd.io/CONTAINER_INTERFACE). Its tree of control
# groups begins at the group that it was put into.
_MOUNT_AND_BOOT = """
set -eu
cd "$0"
mount --bind . .
cd "$0"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for device in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "dev/${device%:*}" c 1 "${device#*:}"; done
mknod -m 666 dev/tty c 5 0
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p mnt
pivot_root . mnt
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c 'umount -l /mnt && exec /lib/systemd/systemd'
"""


class Host:
    """Its commands are root's there. To be closed, which ends whatever runs in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._cgroup = _cgroups() / f"gateway-trial-{os.getpid()}"
        self._machine: subprocess.Popen[bytes] | None = None
        self._first_process = ""
        (root / "etc/hostname").write_text("gateway\n")
        # It has no terminal.
        (root / "etc/systemd/system/console-getty.service").symlink_to("/dev/null")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._machine is not None:
            for look in (("systemctl", "--failed"), ("journalctl", "--no-pager", "--lines=60")):
                say(self.run(*look, check=False))
        self._end()

    def boot(self) -> None:
        """Begin; returns while systemd is at it."""
        self._cgroup.mkdir(exist_ok=True)
        enter = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(self._cgroup)]
        own = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup"]
        self._machine = start_process([*enter, *own, "sh", "-c", _MOUNT_AND_BOOT, self.root])
        children = Path(f"/proc/{self._machine.pid}/task/{self._machine.pid}/children")
        until(lambda: bool(children.read_text()), "a first process")
        self._first_process = children.read_text().strip()
        until(lambda: _name(self._first_process) == "systemd", "systemd")

    def until_booted(self) -> str:
        """`running`, or `degraded` where a unit has failed."""
        until(lambda: self._state() in ("running", "degraded"), "the host is up")
        return self._state()

    def power_off(self) -> None:
        """As `systemctl poweroff` does; an error where something does not end in time."""
        self.run("systemctl", "poweroff")
        assert self._machine is not None
        self._machine.wait(PATIENCE)
        self._end()

    def run(self, *command: str, check: bool = True) -> str:
        """What a command there says."""
        return self.command(
            "nsenter", "--target", self._first_process, "--all", "env", "-i", *_LOGIN, *command, check=check
        )

    def shell(self, lines: Sequence[str]) -> str:
        """The same of lines that root gives one after the other in /root/release, until one fails."""
        (self.root / "root/release/commands").write_text("".join(f"{line}\n" for line in lines))
        return self.run("bash", "-O", "expand_aliases", "-exc", "cd /root/release; . ./commands")

    def succeeds(self, lines: Sequence[str]) -> bool:
        """Whether all of them do."""
        try:
            self.shell(lines)
        except RuntimeError:
            return False
        return True

    def show(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).strip()

    def main_process(self, service: str) -> str:
        """Its number here."""
        inside = self.show(service, "MainPID")
        return next(number for number in self.processes(service) if _number_inside(number) == inside)

    def processes(self, service: str) -> list[str]:
        """The numbers here of all that belong to a service."""
        group = self._cgroup / "system.slice" / f"{service}.service" / "cgroup.procs"
        return group.read_text().split() if group.exists() else []

    def processes_of(self, account: int) -> list[str]:
        """The same of all that run as an account, by its number."""
        numbers = [number for group in self._cgroup.rglob("cgroup.procs") for number in group.read_text().split()]
        return [number for number in numbers if (Path("/proc") / number).stat().st_uid == account]

    def restarts(self, service: str) -> int:
        """How often it was started again by itself."""
        return int(self.show(service, "NRestarts"))

    def until_active(self, service: str) -> None:
        """Until it is active (running), with all its processes."""

        def is_there() -> bool:
            state = self.show(service, "ActiveState"), self.show(service, "SubState")
            return state == ("active", "running") and len(self.processes(service)) > 1

        until(is_there, f"{service} is active (running)")

    @staticmethod
    def command(*command: str, check: bool = True) -> str:
        """What a command of this machine says, with what it complains of if it fails."""
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _state(self) -> str:
        return self.run("systemctl", "is-system-running", check=False).strip()

    def _end(self) -> None:
        if self._machine is not None:
            stop_process(self._machine)
            self._machine = None
        until(self._is_empty, "no process is left")

    def _is_empty(self) -> bool:
        """Whether no process was left in any of its control groups, which then are gone."""
        groups = [group for group in self._cgroup.rglob("*") if group.is_dir()]
        for group in [*sorted(groups, reverse=True), self._cgroup]:
            with contextlib.suppress(OSError):
                group.rmdir()
        return not self._cgroup.exists()


_LOGIN = ("HOME=/root", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def say(what: str) -> None:
    print(what, flush=True)  # noqa: T201 - a program


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for it."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(0.2)


def _cgroups() -> Path:
    """Where version 2 of control groups is mounted."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return next(Path(place) for _, place, kind, *_ in mounts if kind == "cgroup2")


def _name(process: str) -> str:
    return (Path("/proc") / process / "comm").read_text().strip()


def _number_inside(process: str) -> str:
    """Its number in the innermost namespace that it is in."""
    status = (Path("/proc") / process / "status").read_text()
    return next(line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:"))
