"""Hosts that are network namespaces on a bridge, and faults of their links and disks.

Everything is inside namespaces of its own (`enter`): the machine's network is not touched, and everything disappears
with the program's last process.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.commands import PROJECT
from lab.processes import run

NETWORK = "10.77.0"
OWN_ADDRESS = f"{NETWORK}.1"
"""The program's own address, which its clients use."""

_LOCAL_RULE = 2
"""The priority of the rule that routes to a host's own addresses."""

_UNUSED_MAC = "02:00:00:00:00:01"
"""A MAC address that nobody on the bridge has."""

_NAMESPACE_VARIABLE = "LAB_NAMESPACE"
_PROGRAMS = ("unshare", "ip", "tc", "gcc", "samba", "samba-tool", "samba_spnupdate", "nginx", "redis-server")


class CannotRun(RuntimeError):
    """This machine cannot run a cluster; the message says why."""


def enter(module: str) -> None:
    """Restart `python -m module` in new namespaces (network, mounts, PIDs), unless it runs in them; raises CannotRun.

    The program becomes process 1 of its namespace, so that all its processes end with it.
    """
    if os.environ.get(_NAMESPACE_VARIABLE):
        _run("mount", "-t", "tmpfs", "tmpfs", "/run")
        Path("/run/netns").mkdir()
        _run("ip", "link", "set", "lo", "up")
        return
    if os.geteuid() != 0:
        raise CannotRun("a cluster needs root: it makes network namespaces, and domain controllers on port 389")
    folders = [*os.environ["PATH"].split(os.pathsep), "/usr/sbin", "/sbin"]
    missing = [name for name in _PROGRAMS if not any((Path(folder) / name).exists() for folder in folders)]
    if missing:
        raise CannotRun(f"a cluster needs {', '.join(missing)} (Debian: iproute2 samba nginx redis-server)")
    namespaces = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
    trial = [*namespaces, "ip", "link", "add", "trial", "type", "bridge"]
    try:
        run(trial)
    except RuntimeError as error:
        raise CannotRun(f"this machine's kernel or container makes no network namespaces: {error}") from error
    os.environ[_NAMESPACE_VARIABLE] = "1"
    os.environ["PATH"] = os.pathsep.join(folders)
    os.execvp("unshare", [*namespaces, sys.executable, "-m", module, *sys.argv[1:]])  # noqa: S606


class Host:
    """A network namespace with an address."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = f"{NETWORK}.{number}"
        self._link = f"to-{name}"

    def start(self) -> None:
        """Create the namespace and connect it to the bridge."""
        _run("ip", "netns", "add", self.name)
        _run("ip", "link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        _run("ip", "link", "set", self._link, "master", "bridge", "up")
        for line in (
            *(f"addr add {self.address}/24 dev eth0", "link set eth0 up", "link set lo up"),
            # The rule for the host's own addresses comes second, so that `cut_off_from` can put one before it.
            *(f"rule add pref {_LOCAL_RULE} lookup local", "rule del pref 0 lookup local"),
        ):
            self._ip(line)

    def command(self, *words: str | Path) -> list[str]:
        """The command line that runs a command on the host, without another process in between."""
        return ["ip", "netns", "exec", self.name, *map(str, words)]

    def run(self, *words: str | Path) -> None:
        """Run a short command on the host; raises RuntimeError with its output."""
        run(self.command(*words))

    @contextmanager
    def unplugged(self) -> Iterator[None]:
        """Take the host's link down: packets are lost, and no connection is closed."""
        _run("ip", "link", "set", self._link, "down")
        try:
            yield
        finally:
            _run("ip", "link", "set", self._link, "up")

    @contextmanager
    def slowed(self, rate: str) -> Iterator[None]:
        """Limit the host's link to a rate (as tc(8) writes it: `64kbit`) in both directions."""
        shape = ("root", "tbf", "rate", rate, "burst", "4kb", "latency", "2s")
        _run("tc", "qdisc", "add", "dev", self._link, *shape)
        self.run("tc", "qdisc", "add", "dev", "eth0", *shape)
        try:
            yield
        finally:
            _run("tc", "qdisc", "del", "dev", self._link, "root")
            self.run("tc", "qdisc", "del", "dev", "eth0", "root")

    @contextmanager
    def cut_off_from(self, other: str) -> Iterator[None]:
        """Drop all packets between the host and an address, in both directions, without closing a connection."""
        self._ip(f"rule add pref {_LOCAL_RULE - 1} from {other} blackhole")
        self._ip(f"neigh replace {other} lladdr {_UNUSED_MAC} nud permanent dev eth0")
        try:
            yield
        finally:
            with suppress(RuntimeError):  # gone if another host has taken that address meanwhile
                self._ip(f"neigh del {other} dev eth0")
            self._ip(f"rule del pref {_LOCAL_RULE - 1} from {other}")

    def _ip(self, line: str) -> None:
        _run("ip", "-n", self.name, *line.split())

    def add_address(self, address: str) -> None:
        """Add an address to the host, and make all others forget its old MAC address."""
        self.run("ip", "addr", "add", f"{address}/24", "dev", "eth0")
        links = [
            ("ip", "-n", each.name, "neigh", "del", address, "dev", "eth0") for each in Path("/run/netns").iterdir()
        ]
        for forget in (*links, ("ip", "neigh", "del", address, "dev", "bridge")):
            with suppress(RuntimeError):  # most of them have no entry for it
                _run(*forget)

    def remove_address(self, address: str) -> None:
        """Remove an address from the host, if it has it."""
        with suppress(RuntimeError):
            self.run("ip", "addr", "del", f"{address}/24", "dev", "eth0")


def make_bridge() -> None:
    """Create the bridge that joins the hosts and the program itself."""
    _run("ip", "link", "add", "bridge", "type", "bridge")
    _run("ip", "addr", "add", f"{OWN_ADDRESS}/24", "dev", "bridge")
    _run("ip", "link", "set", "bridge", "up")


def bind_over(file: Path, text: str, folder: Path) -> None:
    """Replace the content of a system file, only for the program and its child processes."""
    own = folder / file.name
    own.write_text(text)
    _run("mount", "--bind", own, file)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a small file system on a folder, so that it can be filled."""
    folder.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", folder)
    try:
        yield folder
    finally:
        with suppress(RuntimeError):
            _run("umount", "-l", folder)


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Fill a file system completely within the block."""
    ballast = folder / "ballast"
    with suppress(OSError), ballast.open("wb") as file:
        while True:
            file.write(bytes(1 << 16))
    try:
        yield
    finally:
        ballast.unlink(missing_ok=True)


def _run(*words: str | Path) -> None:
    run(words)


def clock_shift_environment(seconds: int, folder: Path) -> dict[str, str]:
    """The environment that shifts a process' clock by `seconds`, as `scripts/at-clock` does; raises CannotRun."""
    libraries = list(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    sleep = folder / "monotonic_sleep.so"
    if not libraries:
        raise CannotRun("clocks that differ need libfaketime (Debian: libfaketime gcc)")
    if not sleep.exists():  # timeouts and pauses use the monotonic clock, which must stay real
        _run("gcc", "-shared", "-fPIC", "-O1", "-o", sleep, PROJECT / "scripts" / "monotonic_sleep.c", "-ldl")
    return {
        "LD_PRELOAD": f"{sleep}:{libraries[0]}",
        "FAKETIME": f"{seconds:+d}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
