"""Logs to standard output, in one format for all loggers, with the request id and without secrets."""

import json
import logging.config
import re
from collections.abc import Iterable, MutableMapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import structlog

from active_directory import is_credential
from core import tracing
from core.configuration import BadConfiguration

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_SECRET_NAME = re.compile(r"password|passwd|secret|authorization|x.api.key|token|cookie|csrf", re.IGNORECASE)
# A key or token of the gateway anywhere in a line, tracebacks included. Its lookup id is not secret.
_SECRET_VALUE = re.compile(r"\b(dg[a-z]_[0-9A-Za-z]{12}_)[0-9A-Za-z]{38}")
_PLAIN = re.compile(r"[!-~]+")

Event = MutableMapping[str, Any]

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the current request, which is in every line."""

_access = logging.getLogger("gateway.access")


class LineHandler(logging.StreamHandler[Any]):
    """Writes log records, and lines that bypass them."""

    def write(self, lines: Sequence[Event]) -> None:
        """Write lines without LogRecords, which would cost a tenth of a read's time (docs/performance.md)."""
        assert isinstance(self.formatter, structlog.stdlib.ProcessorFormatter)
        processors = self.formatter.processors
        text = "".join(f"{_rendered(line, processors)}{self.terminator}" for line in lines)
        with self.lock or nullcontext():
            self.stream.write(text)
            self.flush()


def write_access_lines(lines: Iterable[tuple[float, int, Event]]) -> None:
    """Write the lines of answered requests: when (Unix time), at which level, and the members."""
    written = [
        {
            "timestamp": datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z"),
            **line,
            "event": "request",
            "level": logging.getLevelName(level).lower(),
            "logger": _access.name,
        }
        for at, level, line in lines
        if _access.isEnabledFor(level)
    ]
    for handler in logging.getLogger().handlers if written else ():
        if isinstance(handler, LineHandler):
            handler.write(written)


def _rendered(event: Event, processors: Iterable[Any]) -> Any:
    rendered: Any = {**event, "_record": None, "_from_structlog": True}
    for process in processors:
        rendered = process(None, "", rendered)
    return rendered


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) or is_credential(name)


def _add_request_id(_logger: Any, _method: str, event: Event) -> Event:
    if (current := request_id.get()) is not None:
        event.setdefault("request_id", current)
    if tracing.IS_ON and (trace := tracing.trace_id()) is not None:
        event.setdefault("trace_id", trace)
    return event


def _hide_secrets(_logger: Any, _method: str, event: Event) -> Event:
    for name in event:
        if event[name] is not None and _is_secret(name):
            event[name] = "<secret>"
    return event


def _drop_empty(_logger: Any, _method: str, event: Event) -> Event:
    return {name: value for name, value in event.items() if value is not None}


def _quoted(value: Any) -> str:
    text = str(value)
    # Quoted as JSON, a value can neither end the line nor imitate another member.
    return (
        text if _PLAIN.fullmatch(text) and '"' not in text and "=" not in text else json.dumps(text, ensure_ascii=False)
    )


def _as_text(_logger: Any, _method: str, event: Event) -> str:
    """Render a line for people: time, level, event, then the members; a traceback follows."""
    traceback = event.pop("exception", None)
    message = json.dumps(str(event.pop("event", "")), ensure_ascii=False)[1:-1].replace('\\"', '"')
    line = f"{event.pop('timestamp')} {event.pop('level'):<8} {message}"
    members = " ".join(f"{name}={_quoted(value)}" for name, value in event.items())
    return "\n".join(part for part in (f"{line} {members}".rstrip(), traceback) if part)


def _as_json(_logger: Any, _method: str, event: Event) -> str:
    return json.dumps(event, ensure_ascii=False, default=str)


def _mask(_logger: Any, _method: str, line: Any) -> Any:
    return _SECRET_VALUE.sub(r"\1<secret>", line)


_SHARED: list[Any] = [
    _add_request_id,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.MaybeTimeStamper(fmt="iso", utc=True),
    structlog.stdlib.PositionalArgumentsFormatter(),
]
_PROCESSORS: list[Any] = [
    structlog.stdlib.filter_by_level,
    *_SHARED,
    structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
]
"""One list for ever, since loggers are cached with the list that they were first used with."""


def configure(options: dict[str, str]) -> None:
    """Set up logging for this process (Django's LOGGING_CONFIG). Options: `level`, and `format`: text or json."""
    if options["level"] not in LEVELS:
        raise BadConfiguration(f"GATEWAY_LOG_LEVEL: must be one of {', '.join(LEVELS)}")
    if options["format"] not in ("text", "json"):
        raise BadConfiguration("GATEWAY_LOG_FORMAT: must be text or json")
    structlog.configure(
        processors=_PROCESSORS,
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": _SHARED,
        "processors": [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _drop_empty,
            _hide_secrets,
            _as_json if options["format"] == "json" else _as_text,
            _mask,
        ],
    }
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "filters": {"traceback": {"()": lambda: lambda record: bool(record.exc_info)}},
            "formatters": {"line": formatter},
            "handlers": {
                "stdout": {
                    "class": "gateway.monitoring.logs.LineHandler",
                    "stream": "ext://sys.stdout",
                    "formatter": "line",
                }
            },
            "root": {"handlers": ["stdout"], "level": options["level"]},
            "loggers": {
                # The access line already has the status; only Django's own tracebacks are wanted.
                "django.request": {"filters": ["traceback"]},
                # At lower levels they log the codes and tokens of requests.
                "oauthlib": {"level": "WARNING"},
                "oauth2_provider": {"level": "WARNING"},
                # Sweeps run every few seconds, and log themselves what they do.
                "celery.worker.strategy": {"level": "WARNING"},
                "celery.app.trace": {"level": "WARNING"},
                "django.db.backends": {"level": "INFO"},  # at DEBUG it logs every statement with its parameters
            },
        }
    )
