"""The security log (logger `security`): who signed in and out, what was changed about how they sign in, and refused
credentials with their true reason, which the caller is never told.
"""

from typing import Any

import structlog

_logger = structlog.stdlib.get_logger("security")


def refused(
    reason: str, *, client_address: str | None, request_id: str, lookup_id: str | None = None, **facts: Any
) -> None:
    """Log a refused credential. `lookup_id` is the public part of a key or token; never pass the whole of one."""
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
