"""The security log (logger `security`): who signed in and out, what was changed about how they sign in, and refused
credentials with their true reason, which the caller is never told.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import structlog


class Refused(StrEnum):
    """What somebody came with who was refused."""

    CREDENTIAL = "credential"
    SIGN_IN = "sign-in"


_logger = structlog.stdlib.get_logger("security")


_listeners: list[Callable[[Refused], None]] = []


def tell_of_refusals(listener: Callable[[Refused], None]) -> None:
    """Let somebody else in this process know of each refusal, but not of whose it is."""
    _listeners.append(listener)


def refused(
    reason: str,
    *,
    client_address: str | None,
    request_id: str,
    lookup_id: str | None = None,
    kind: Refused = Refused.CREDENTIAL,
    **facts: Any,
) -> None:
    """Log a refused credential. `lookup_id` is the public part of a key or token; never pass the whole of one."""
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


def noted(event: str, **facts: Any) -> None:
    """Log what was done about signing in, such as `signed in`. No fact may be a secret."""
    _logger.info(event, **facts)
