"""The head of the log's chain, and checkpoints of it outside the database.

Seals reveal every change of the log, except that its end, or all of it, was cut off: what is left looks like a younger
log. So after sealing a worker stores the newest seal with a MAC, the checkpoint, in a file beside the keys, and in
Redis for the gateway's other hosts. It only advances along its own chain. Whoever can write to both places and to the
database can still cut the log; exporting the head guards against that (`OperationsLog:HeadFile`, syslog).
"""

import json
import os
import syslog
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import structlog
from django.conf import settings
from redis import Redis, RedisError
from typing_extensions import TypedDict

from audit.chain import seals
from audit.chain.removals import has_seal
from audit.chain.row_checks import UNREADABLE
from audit.models import LogSeal
from core.redis.clients import redis_client
from core.shapes import Moment, render_timestamp
from core.text.messages import message

_logger = structlog.stdlib.get_logger(__name__)


class Head(TypedDict):
    """The end of the chain."""

    seal: int
    records: int
    mac: str
    sealedAt: Moment


def head() -> Head | None:
    """The newest seal; None if nothing has been sealed."""
    newest = LogSeal.objects.order_by("-number").defer("entries").first()
    if newest is None:
        return None
    return {
        "seal": newest.number,
        "records": newest.records,
        "mac": newest.mac,
        "sealedAt": render_timestamp(newest.sealed_at) or "",
    }


def append_head(exported: Head, file: Path) -> None:
    """Append the head to a file as a line, which works on append-only storage, too.

    It starts with a line break, since an earlier line may have been cut off and cannot be corrected there.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"\n{json.dumps(exported)}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def latest_head(text: str) -> Head:
    """The newest of the heads in a file with one per line. Raises ValueError if a line holds anything else.

    It ignores a line that was cut off while it was written.
    """
    heads: list[Head] = []
    for line in filter(str.strip, text.splitlines()):
        try:
            parsed: Head = json.loads(line)
            if not isinstance(parsed["seal"], int) or not isinstance(parsed["mac"], str):
                raise TypeError
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, json.JSONDecodeError) and line.startswith("{"):
                continue
            raise ValueError("no head of the operations log") from None
        heads.append(parsed)
    if not heads:
        raise ValueError("no head of the operations log")
    return max(heads, key=lambda head: head["seal"])


def write_head(exported: Head, file: Path) -> None:
    """Replace a file by one with the head, atomically."""
    with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}.", delete=False) as new:
        json.dump(exported, new)
        new.write("\n")
    os.replace(new.name, file)


def log_head(exported: Head) -> None:
    """Send the head to syslog, whose messages usually leave the machine."""
    syslog.openlog("directory-management-gateway", 0, syslog.LOG_AUTHPRIV)
    syslog.syslog(syslog.LOG_NOTICE, f"operations log head {json.dumps(exported)}")


_KEY: Final = "gateway:operations-log:mark"
_SECONDS: Final = 2
"""How long to wait for Redis; the file alone will do."""


def find_checkpoint() -> Head | None:
    """The newest checkpoint that the gateway made, in the file or in Redis; None if there is none."""
    checkpoints = [checkpoint for text in (_read_file(), _read_redis()) if text and (checkpoint := _authentic(text))]
    return max(checkpoints, key=lambda checkpoint: checkpoint["seal"], default=None)


def advance_checkpoint(*, to_any: bool = False) -> None:
    """Store the newest seal as the checkpoint, unless the log has lost the seal of the present one.

    `to_any` stores it in any case, for a log that is known to differ, as after a restore of the database.
    """
    newest, before = head(), None if to_any else find_checkpoint()
    if before is not None and not is_in_log(before):
        _logger.error("the operations log was cut or made anew", sealed_up_to=before["seal"], records=before["records"])
        return
    if newest is None:
        _file().unlink(missing_ok=True)
        with _redis(otherwise="the checkpoint of the operations log is still in Redis") as redis:
            redis.delete(_KEY)
    elif newest != before:
        _write(newest)


def is_checkpoint_behind() -> bool:
    """Whether others have sealed since the present checkpoint."""
    newest, before = head(), find_checkpoint()
    return newest is not None and (before is None or before["seal"] < newest["seal"])


def is_in_log(checkpoint: Head) -> bool:
    """Whether the log still has the checkpoint's seal, or had it until it was closed."""
    return has_seal(checkpoint["seal"], checkpoint["mac"])


def describe_loss(checkpoint: Head) -> str:
    """Say what is missing from a log that no longer has the checkpoint's seal."""
    seal, at = checkpoint["seal"], checkpoint["sealedAt"]
    try:
        newest = head()
    except UNREADABLE:
        return message(
            "the end of the log cannot be read: it was sealed up to seal {seal}, at {time}", seal=seal, time=at
        )
    if newest is not None and newest["seal"] >= seal:
        return message(
            "the log was made anew: it was sealed up to seal {seal}, at {time}, and has another seal {again} now",
            seal=seal,
            time=at,
            again=seal,
        )
    # "Up to", because a record that was sealed open and again when complete counts twice.
    missing = checkpoint["records"] - (newest["records"] if newest else 0)
    if newest is None:
        return message(
            "up to {count} records are missing: it was sealed up to seal {seal}, at {time}, and is empty now",
            count=missing,
            seal=seal,
            time=at,
        )
    return message(
        "up to {count} records are missing: it was sealed up to seal {seal}, at {time}, and ends with seal {last}",
        count=missing,
        seal=seal,
        time=at,
        last=newest["seal"],
    )


def _file() -> Path:
    return Path(settings.DATA_DIR) / "log-mark"


def _write(newest: Head) -> None:
    checkpoint: Any = {**newest, "code": seals.checkpoint_mac(newest)}
    try:
        write_head(checkpoint, _file())
    except OSError as error:
        _logger.warning(
            "the checkpoint of the operations log is not in its file", file=str(_file()), reason=error.strerror
        )
    with _redis(otherwise="the checkpoint of the operations log is not in Redis") as redis:
        redis.set(_KEY, json.dumps(checkpoint))


def _authentic(text: str | bytes) -> Head | None:
    """The head in a stored checkpoint; None unless the gateway made it."""
    try:
        checkpoint = json.loads(text)
        mac = str(checkpoint.pop("code"))
        is_ours = seals.is_checkpoint_mac(checkpoint, mac)
    except (ValueError, TypeError, KeyError, AttributeError):
        is_ours = False
    if not is_ours:
        _logger.error("a checkpoint of the operations log is not the gateway's")
        return None
    head: Head = checkpoint
    return head


def _read_file() -> str | None:
    try:
        return _file().read_text("utf-8")
    except (OSError, ValueError):
        return None


def _read_redis() -> bytes | None:
    stored: Any = None
    with _redis() as redis:
        stored = redis.get(_KEY)
    return stored if isinstance(stored, bytes) else None


@contextmanager
def _redis(*, otherwise: str | None = None) -> Iterator[Redis]:
    """A client for the block, which ends early without an error if Redis is away; `otherwise` is then logged."""
    try:
        with redis_client(settings.REDIS_URL, seconds=_SECONDS) as redis:
            yield redis
    except (RedisError, OSError) as error:
        if otherwise is not None:
            _logger.warning(otherwise, reason=str(error))
