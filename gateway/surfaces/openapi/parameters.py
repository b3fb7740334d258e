"""The parameters that operations take besides what their shapes say: path, preconditions, idempotency, reason."""

import re
from typing import Any

from core.operation import Effect, Operation
from keys.authentication import MAX_REASON


def parameters_of(operation: Operation) -> list[dict[str, Any]]:
    """What an operation takes in its path and its headers, and `dryRun`."""
    found = path_parameters(operation.path)
    if operation.effect is Effect.CHANGE:
        found.append(
            {
                "name": "dryRun",
                "in": "query",
                "schema": {"type": "boolean", "default": False},
                "description": "Answer what would be changed, and change nothing.",
            }
        )
        found.append(
            _header(
                "X-Change-Reason",
                "Why: kept in the log and shown to the approver. In UTF-8, or percent-encoded.",
                minLength=1,
                maxLength=9 * MAX_REASON,  # a character takes up to nine when it is percent-encoded
            )
        )
    if operation.effect is not Effect.READ:
        meant = "The version the change is meant for; another one is 412."
        if operation.is_creation:
            meant = "What is still to be made has no version: anything but `*` is 412."
        found.append(_header("If-Match", meant))
    if operation.method != "GET":
        found.append(
            _header(
                "Idempotency-Key",
                "The same request under the same key is carried out once, within 24 hours.",
                minLength=1,
                maxLength=255,
                pattern=r"^[\x20-\x7e]+$",
            )
        )
    if has_version(operation):
        found.append(_header("If-None-Match", "The version that is known already: nothing else is answered with 304."))
    if operation.on_directory:
        meant = "The Client ID of the directory link to use; needed if there are several."
        # No format: generated clients would put a UUID object into the header instead of its text.
        found.append(_header("X-Client-Id", meant, minLength=36, maxLength=36))
    return found


def path_parameters(path: str) -> list[dict[str, Any]]:
    """The placeholders of a path. All are UUIDs."""
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _MEANINGS.get(name, "The identifier."),
            "schema": {"type": "string", "format": "uuid"},
        }
        for name in re.findall(r"\{(\w+)\}", path)
    ]


_MEANINGS = {
    "id": "The identifier; of a directory object its objectGUID.",
    "clientId": "The Client ID of the link.",
}


def has_version(operation: Operation) -> bool:
    """Whether a read's answer is one object with its version."""
    return operation.effect is Effect.READ and answers_with_version(operation)


def answers_with_version(operation: Operation) -> bool:
    """Whether the answer is one object with its version."""
    return "version" in getattr(operation.output, "__annotations__", {})


def _header(name: str, description: str, **limits: Any) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": {"type": "string", **limits}, "description": description}
