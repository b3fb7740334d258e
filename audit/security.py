"""The security log (logger `security`): sign-ins, sign-outs, changes of how people sign in, and refused credentials.

It records why a credential was refused; the caller is never told.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import structlog


class RefusalKind(StrEnum):
    """What was refused: a key, token or session, or a person's sign-in."""

    CREDENTIAL = "credential"
    SIGN_IN = "sign-in"


_logger = structlog.stdlib.get_logger("security")


_listeners: list[Callable[[RefusalKind], None]] = []


def add_refusal_listener(listener: Callable[[RefusalKind], None]) -> None:
    """Call `listener` at each refusal in this process, such as to count them."""
    _listeners.append(listener)


def log_refusal(
    reason: str,
    *,
    client_address: str | None,
    request_id: str,
    lookup_id: str | None = None,
    kind: RefusalKind = RefusalKind.CREDENTIAL,
    **facts: Any,
) -> None:
    """Log a refused credential. `lookup_id` is the public part of a key or token; never pass a whole one."""
    for listener in _listeners:
        listener(kind)
    _logger.warning(
        "credential refused",
        reason=reason,
        client_address=client_address,
        request_id=request_id,
        lookup_id=lookup_id,
        **facts,
    )


def log_event(event: str, **facts: Any) -> None:
    """Log an event such as `signed in`. No fact may be a secret."""
    _logger.info(event, **facts)
