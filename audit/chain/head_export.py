"""The head of the log's chain: what to keep where who can change the database cannot reach."""

import json
import os
import syslog
import tempfile
from pathlib import Path

from typing_extensions import TypedDict

from audit.models import LogSeal
from core.shapes import Moment, render_timestamp


class Head(TypedDict):
    """The end of the chain."""

    seal: int
    records: int
    mac: str
    sealedAt: Moment


def head() -> Head | None:
    """The newest seal; None when nothing has been sealed."""
    newest = LogSeal.objects.order_by("-number").defer("entries").first()
    if newest is None:
        return None
    return {
        "seal": newest.number,
        "records": newest.records,
        "mac": newest.mac,
        "sealedAt": render_timestamp(newest.sealed_at) or "",
    }


def append_head(found: Head, file: Path) -> None:
    """Add the head to a file as its last line: on storage where nothing can be changed or removed, this still works.

    It begins a line of its own, whatever became of the line before: one that was cut off can never be mended there.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"\n{json.dumps(found)}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def latest_head(text: str) -> Head:
    """The furthest of the heads in a file, one in a line. Raises ValueError for what is none.

    A line that was cut off as it was written says nothing.
    """
    heads: list[Head] = []
    for line in filter(str.strip, text.splitlines()):
        try:
            found: Head = json.loads(line)
            if not isinstance(found["seal"], int) or not isinstance(found["mac"], str):
                raise TypeError
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, json.JSONDecodeError) and line.startswith("{"):
                continue
            raise ValueError("no head of the operations log") from None
        heads.append(found)
    if not heads:
        raise ValueError("no head of the operations log")
    return max(heads, key=lambda head: head["seal"])


def write_head(found: Head, file: Path) -> None:
    """Put the head in a file, whole or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}.", delete=False) as new:
        json.dump(found, new)
        new.write("\n")
    os.replace(new.name, file)


def log_head(found: Head) -> None:
    """Give the head to syslog, whose messages usually leave the machine."""
    syslog.openlog("directory-management-gateway", 0, syslog.LOG_AUTHPRIV)
    syslog.syslog(syslog.LOG_NOTICE, f"operations log head {json.dumps(found)}")
