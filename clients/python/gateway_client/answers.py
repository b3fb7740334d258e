"""Turns the gateway's answers into the record that is wanted, or an exception that says what happened instead."""

import json
from typing import Any, TypeVar

from gateway_client.generated.models import QueuedAnswer, QueuedJson
from gateway_client.generated.types import Response

Wanted = TypeVar("Wanted")


class Refused(Exception):
    """The gateway refused. `code` is for programs, such as `AD.Object.NotFound`; the text is for people."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('code', '')}: {problem.get('detail', problem.get('title', ''))}")
        self.status = status
        self.problem = problem

    @property
    def code(self) -> str:
        return str(self.problem.get("code", ""))


class Held(Exception):
    """The change waits for a person's approval. This is not an error, and asking again would change nothing."""

    def __init__(self, change_request: QueuedJson) -> None:
        super().__init__(f"change request {change_request.id} waits for approval until {change_request.expires_at}")
        self.change_request = change_request


def expect(response: Response[Any], kind: type[Wanted]) -> Wanted:
    """Return the answer if it is of the type `kind`; use `type(None)` for an operation with an empty answer.

    Raises Refused for a problem, Held for a change that waits for approval, and TypeError for an answer of another
    type, such as that of a dry run in place of the changed object.
    """
    result = result_of(response)
    if isinstance(result, kind):
        return result
    raise TypeError(f"the answer is {type(result).__name__}, not {kind.__name__}")


def result_of(response: Response[Any]) -> Any:
    """Return the answer, None if it is empty. Raises Refused for a problem, Held for a change that waits."""
    if isinstance(response.parsed, QueuedAnswer):
        raise Held(response.parsed.change_request)
    if response.status_code < 300:
        return response.parsed
    raise Refused(int(response.status_code), document_of(response.content))


def document_of(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {"title": "An answer that is no JSON"}
    return found if isinstance(found, dict) else {}
