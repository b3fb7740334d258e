"""The time that a client may take to read is limited at the listening sockets, and nothing else is touched."""

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

from gateway.server.asgi import limit_send_time

# In another process: a process never stands in its own way.
TRY = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def is_locked(file: Path) -> bool:
    return subprocess.run([sys.executable, "-c", TRY, file], capture_output=True, check=False).returncode != 0


def test_listening_sockets_are_limited() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as other:
        limit_send_time(7)
        assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7000
        assert other.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0
        with socket.create_connection(listening.getsockname()) as near:
            assert near.getpeername() == listening.getsockname()


def test_no_lock_on_a_file_is_lost(tmp_path: Path) -> None:
    """SQLite's locks are such: without them others delete the log of writes that this process goes on to use."""
    file = tmp_path / "database"
    file.touch()
    with file.open("r+") as opened:
        fcntl.lockf(opened, fcntl.LOCK_SH)
        assert is_locked(file)
        limit_send_time(7)
        assert is_locked(file)
        os.fstat(opened.fileno())
    assert not is_locked(file)
