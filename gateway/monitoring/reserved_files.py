"""The files in which a process counts, with room that is its own: a full disk must not end the process.

prometheus_client makes its files larger without asking for blocks of the disk. The system looks for these only when a
mapped page is first written, and where there are none it ends the process (SIGBUS, mmap(2)). So they are reserved
beforehand. Where there is no room the process goes on counting in memory, and in its file when there is some again.

To be imported when the process has chosen its folder (`metrics_folder`), for that is when prometheus_client looks.
"""

import mmap
import os
from time import monotonic
from typing import Any, Final

import structlog
from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict

from gateway.monitoring import metrics_folder

logger = structlog.get_logger(__name__)

RETRY: Final = 10.0
"""Seconds until room is looked for again."""
_AT_FIRST: Final = 1 << 16
_MOST_BESIDES_KEY: Final = 4 + 8 + 16
"""Octets: its length, the padding, value and time (`MmapedDict`)."""


class ReservedFile(MmapedDict):
    """As `MmapedDict`; its callers hold a lock."""

    _f: Any
    """None while it is in memory, which nobody is told of: the file has what was counted until then, if anything."""
    _m: Any
    _capacity: int
    _used: int

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        self._fname = filename
        self._retry_at = 0.0
        try:
            _reserve(filename, _AT_FIRST)
            super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]
        except OSError as error:
            self._f, self._m = None, _memory(_AT_FIRST)
            self._capacity, self._used, self._positions = _AT_FIRST, 8, {}
            self._m[:4] = self._used.to_bytes(4, "little")
            self._tell(error)

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        if self._f is None and monotonic() >= self._retry_at:
            self._return_to_file()
        super().write_value(key, value, timestamp)  # type: ignore[no-untyped-call]

    def _init_value(self, key: str) -> None:
        while self._used + len(key.encode()) + _MOST_BESIDES_KEY > self._capacity:
            self._grow()
        super()._init_value(key)  # type: ignore[no-untyped-call]

    def _grow(self) -> None:
        larger = self._capacity * 2
        if self._f is not None:
            try:
                _reserve(self._fname, larger)
                self._m = mmap.mmap(self._f.fileno(), larger)
            except OSError as error:
                self._f.close()
                self._f = None
                self._tell(error)
        if self._f is None:
            self._m = _memory(larger, self._m[: self._used])
        self._capacity = larger

    def _return_to_file(self) -> None:
        try:
            _reserve(self._fname, self._capacity)
            file = open(self._fname, "r+b")  # noqa: SIM115 - it is kept
            mapped = mmap.mmap(file.fileno(), self._capacity)
        except OSError as error:
            self._tell(error)
            return
        mapped[4 : self._used] = self._m[4 : self._used]
        mapped[:4] = self._m[:4]  # how much of it there is to read, when it is there
        self._f, self._m, self._retry_at = file, mapped, 0.0
        logger.info("measurements are in their file again", file=self._fname)

    def _tell(self, error: OSError) -> None:
        if not self._retry_at:
            logger.warning("measurements are kept in memory and not told", file=self._fname, error=str(error))
        self._retry_at = monotonic() + RETRY


def use_reserved_files() -> None:
    """Have everything counted in such files; before anything is."""
    values.MmapedDict = ReservedFile  # type: ignore[attr-defined]


def _reserve(filename: str, size: int) -> None:
    """Give a file at least so many octets, and blocks of the disk for all that it has. Raises OSError; no empty file is
    left, which nobody could read.
    """
    metrics_folder.hold()
    file = os.open(filename, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        os.posix_fallocate(file, 0, max(size, os.fstat(file).st_size))
    except OSError:
        if os.fstat(file).st_size == 0:
            os.unlink(filename)
        raise
    finally:
        os.close(file)


def _memory(size: int, content: bytes = b"") -> mmap.mmap:
    memory = mmap.mmap(-1, size)
    memory[: len(content)] = content
    return memory
