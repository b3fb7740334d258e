"""Hosts that are network namespaces on a bridge, and what can be done to them and to the links between them.

All of it lies in a namespace of its own (`enter`): the machine's network is not touched, and everything is
gone with the program's last process.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.commands import PROJECT
from lab.processes import run

NETWORK = "10.77.0"
GATE = f"{NETWORK}.1"
"""The program's own address, from which its clients come."""

_LOCAL = 2
"""The place of the rule by which a host finds what is for itself."""
_NOBODY = "02:00:00:00:00:01"
"""An Ethernet address that nobody on the bridge has."""
_INSIDE = "LAB_NAMESPACE"
_NEEDED = ("unshare", "ip", "tc", "gcc", "samba", "samba-tool", "samba_spnupdate", "nginx", "redis-server")


class CannotRun(RuntimeError):
    """This machine does not let a cluster be made; the message says why."""


def enter(module: str) -> None:
    """Begin `python -m module` anew in namespaces of its own (network, mounts, processes), unless in them; CannotRun.

    The first process of its namespace is the program itself: whatever it leaves behind ends with it.
    """
    if os.environ.get(_INSIDE):
        _run("mount", "-t", "tmpfs", "tmpfs", "/run")
        Path("/run/netns").mkdir()
        _run("ip", "link", "set", "lo", "up")
        return
    if os.geteuid() != 0:
        raise CannotRun("a cluster needs root: it makes network namespaces, and domain controllers on port 389")
    places = [*os.environ["PATH"].split(os.pathsep), "/usr/sbin", "/sbin"]
    missing = [name for name in _NEEDED if not any((Path(place) / name).exists() for place in places)]
    if missing:
        raise CannotRun(f"a cluster needs {', '.join(missing)} (Debian: iproute2 samba nginx redis-server)")
    namespaces = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
    trial = [*namespaces, "ip", "link", "add", "trial", "type", "bridge"]
    try:
        run(trial)
    except RuntimeError as error:
        raise CannotRun(f"this machine's kernel or container makes no network namespaces: {error}") from error
    os.environ[_INSIDE] = "1"
    os.environ["PATH"] = os.pathsep.join(places)
    os.execvp("unshare", [*namespaces, sys.executable, "-m", module, *sys.argv[1:]])  # noqa: S606


class Host:
    """One namespace with an address. `command` runs what it is given there, as the same process."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = f"{NETWORK}.{number}"
        self._link = f"to-{name}"

    def start(self) -> None:
        """Make the namespace and plug it into the bridge."""
        _run("ip", "netns", "add", self.name)
        _run("ip", "link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        _run("ip", "link", "set", self._link, "master", "bridge", "up")
        for line in (
            *(f"addr add {self.address}/24 dev eth0", "link set eth0 up", "link set lo up"),
            # What is for the host itself is looked up second, so that `apart_from` can have a rule before it.
            *(f"rule add pref {_LOCAL} lookup local", "rule del pref 0 lookup local"),
        ):
            self._ip(line)

    def command(self, *words: str | Path) -> list[str]:
        """The command line that runs there."""
        return ["ip", "netns", "exec", self.name, *map(str, words)]

    def run(self, *words: str | Path) -> None:
        """Run something short there; raises RuntimeError with what it said."""
        run(self.command(*words))

    @contextmanager
    def unplugged(self) -> Iterator[None]:
        """Without its link: what is sent is lost, and nobody is told."""
        _run("ip", "link", "set", self._link, "down")
        try:
            yield
        finally:
            _run("ip", "link", "set", self._link, "up")

    @contextmanager
    def slowed(self, rate: str) -> Iterator[None]:
        """Its link as slow as `rate` (of tc: `64kbit`) in both directions."""
        shape = ("root", "tbf", "rate", rate, "burst", "4kb", "latency", "2s")
        _run("tc", "qdisc", "add", "dev", self._link, *shape)
        self.run("tc", "qdisc", "add", "dev", "eth0", *shape)
        try:
            yield
        finally:
            _run("tc", "qdisc", "del", "dev", self._link, "root")
            self.run("tc", "qdisc", "del", "dev", "eth0", "root")

    @contextmanager
    def apart_from(self, other: str) -> Iterator[None]:
        """Nothing passes between it and an address, in either direction, and nobody is told."""
        self._ip(f"rule add pref {_LOCAL - 1} from {other} blackhole")
        self._ip(f"neigh replace {other} lladdr {_NOBODY} nud permanent dev eth0")
        try:
            yield
        finally:
            with suppress(RuntimeError):  # forgotten when another host took that address meanwhile
                self._ip(f"neigh del {other} dev eth0")
            self._ip(f"rule del pref {_LOCAL - 1} from {other}")

    def _ip(self, line: str) -> None:
        _run("ip", "-n", self.name, *line.split())

    def take_address(self, address: str) -> None:
        """Have one more address, and let everybody know."""
        self.run("ip", "addr", "add", f"{address}/24", "dev", "eth0")
        links = [
            ("ip", "-n", each.name, "neigh", "del", address, "dev", "eth0") for each in Path("/run/netns").iterdir()
        ]
        for forget in (*links, ("ip", "neigh", "del", address, "dev", "bridge")):
            with suppress(RuntimeError):  # most of them remember nothing of it
                _run(*forget)

    def give_address_up(self, address: str) -> None:
        """Not have it any more."""
        with suppress(RuntimeError):
            self.run("ip", "addr", "del", f"{address}/24", "dev", "eth0")


def make_bridge() -> None:
    """What joins the hosts, and the program itself."""
    _run("ip", "link", "add", "bridge", "type", "bridge")
    _run("ip", "addr", "add", f"{GATE}/24", "dev", "bridge")
    _run("ip", "link", "set", "bridge", "up")


def put_over(file: Path, text: str, folder: Path) -> None:
    """Have this text in place of a file of the machine, for the program and what it starts alone."""
    own = folder / file.name
    own.write_text(text)
    _run("mount", "--bind", own, file)


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A file system of its own on a folder, that can be filled."""
    place.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", place)
    try:
        yield place
    finally:
        with suppress(RuntimeError):
            _run("umount", "-l", place)


@contextmanager
def filled(place: Path) -> Iterator[None]:
    """No room for anything in a file system, as when somebody else has filled it."""
    ballast = place / "ballast"
    with suppress(OSError), ballast.open("wb") as file:
        while True:
            file.write(bytes(1 << 16))
    try:
        yield
    finally:
        ballast.unlink(missing_ok=True)


def _run(*words: str | Path) -> None:
    run(words)


def environment_at(seconds: int, folder: Path) -> dict[str, str]:
    """What makes a process believe that it is so many seconds later, as `scripts/at-clock` does it; or CannotRun."""
    libraries = list(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    sleep = folder / "monotonic_sleep.so"
    if not libraries:
        raise CannotRun("clocks that differ need libfaketime (Debian: libfaketime gcc)")
    if not sleep.exists():  # timeouts and pauses go by the monotonic clock, which is left as it is
        _run("gcc", "-shared", "-fPIC", "-O1", "-o", sleep, PROJECT / "scripts" / "monotonic_sleep.c", "-ldl")
    return {
        "LD_PRELOAD": f"{sleep}:{libraries[0]}",
        "FAKETIME": f"{seconds:+d}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
