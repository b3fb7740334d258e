"""How far the log was sealed, noted where who can change the database cannot reach.

The seals show whatever is changed in the log, but not that its end was cut off, or all of it: what is left looks like a
younger log. So whoever seals notes the newest seal under a code: in a file beside the keys, and in Redis for the
gateway's other hosts. The mark only ever moves on along the chain that it stands for. Who can write to both places and
to the database can still cut the log; against them a head is kept elsewhere (`OperationsLog:HeadFile`, syslog).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import structlog
from django.conf import settings
from redis import Redis, RedisError

from audit.chain import seals
from audit.chain.head_export import Head, head, write_head
from audit.chain.row_checks import UNREADABLE
from audit.models import LogSeal
from core.redis.clients import redis_client
from core.text.messages import message

_logger = structlog.stdlib.get_logger(__name__)

_KEY: Final = "gateway:operations-log:mark"
_SECONDS: Final = 2
"""How long Redis is waited for: the file alone does too."""


def find_mark() -> Head | None:
    """The furthest mark that the gateway made; None when there is none."""
    found = [mark for text in (_read_file(), _read_redis()) if text and (mark := _authentic(text))]
    return max(found, key=lambda mark: mark["seal"], default=None)


def move_mark(*, to_any: bool = False) -> None:
    """Note the newest seal, unless the log does not hold any more what is noted already.

    `to_any` is for a log that is known to be another one, as after a restore of the database.
    """
    newest, before = head(), None if to_any else find_mark()
    if before is not None and not is_held(before):
        _logger.error("the operations log was cut or made anew", sealed_up_to=before["seal"], records=before["records"])
        return
    if newest is None:
        _file().unlink(missing_ok=True)
        with _redis(otherwise="the mark of the operations log is still in Redis") as redis:
            redis.delete(_KEY)
    elif newest != before:
        _write(newest)


def is_held(mark: Head) -> bool:
    """Whether the log still has the seal that is marked."""
    return LogSeal.objects.filter(number=mark["seal"], mac=mark["mac"]).exists()


def what_is_missing(mark: Head) -> str:
    """What to say of a log that has not got the marked seal any more."""
    seal, at = mark["seal"], mark["sealedAt"]
    try:
        newest = head()
    except UNREADABLE:
        return message(
            "the end of the log cannot be read: it was sealed up to seal {seal}, at {time}", seal=seal, time=at
        )
    if newest is not None and newest["seal"] >= mark["seal"]:
        return message(
            "the log was made anew: it was sealed up to seal {seal}, at {time}, and has another seal {again} now",
            seal=seal,
            time=at,
            again=seal,
        )
    missing = mark["records"] - (newest["records"] if newest else 0)  # one that was sealed while open counts twice
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
    mark: Any = {**newest, "code": seals.mark_code(newest)}
    try:
        write_head(mark, _file())
    except OSError as error:
        _logger.warning("the mark of the operations log is not in its file", file=str(_file()), reason=error.strerror)
    with _redis(otherwise="the mark of the operations log is not in Redis") as redis:
        redis.set(_KEY, json.dumps(mark))


def _authentic(text: str | bytes) -> Head | None:
    """The head that was noted, if the gateway noted it."""
    try:
        found = json.loads(text)
        code = str(found.pop("code"))
        is_ours = seals.is_mark_code(found, code)
    except (ValueError, TypeError, KeyError, AttributeError):
        is_ours = False
    if not is_ours:
        _logger.error("a mark of the operations log is not the gateway's")
        return None
    mark: Head = found
    return mark


def _read_file() -> str | None:
    try:
        return _file().read_text("utf-8")
    except (OSError, ValueError):
        return None


def _read_redis() -> bytes | None:
    found: Any = None
    with _redis() as redis:
        found = redis.get(_KEY)
    return found if isinstance(found, bytes) else None


@contextmanager
def _redis(*, otherwise: str | None = None) -> Iterator[Redis]:
    """For commands to Redis: where it is away they are left undone, and what is `otherwise` is logged."""
    try:
        with redis_client(settings.REDIS_URL, seconds=_SECONDS) as redis:
            yield redis
    except (RedisError, OSError) as error:
        if otherwise is not None:
            _logger.warning(otherwise, reason=str(error))
