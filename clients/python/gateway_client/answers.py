"""What the gateway answers: the record that is wanted, or an exception that says what happened instead."""

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from gateway_client.generated import AuthenticatedClient
from gateway_client.generated.models import Problem, QueuedAnswer, QueuedJson
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
    """The change waits for a person's approval. It is no error: asking again would change nothing."""

    def __init__(self, change_request: QueuedJson) -> None:
        super().__init__(f"change request {change_request.id} waits for approval until {change_request.expires_at}")
        self.change_request = change_request


def expect(response: Response[Any], kind: type[Wanted]) -> Wanted:
    """The answer, if it is of the kind; `type(None)` for an operation that answers nothing.

    Raises Refused for a problem and Held for a change that waits for approval.
    """
    if isinstance(response.parsed, kind) and response.status_code < 300:
        return response.parsed
    if isinstance(response.parsed, QueuedAnswer):
        raise Held(response.parsed.change_request)
    if isinstance(response.parsed, Problem):
        raise Refused(int(response.status_code), response.parsed.to_dict())
    raise Refused(int(response.status_code), _document(response.content))


def pages(search: Callable[..., Response[Any]], *path: Any, client: AuthenticatedClient, **query: Any) -> Iterator[Any]:
    """Every item of a search, page after page: `pages(users_search.sync_detailed, client=client, q="ada")`.

    Raises Refused.
    """
    position: dict[str, str] = {}
    while True:
        page: Any = expect(search(*path, client=client, **query, **position), object)
        yield from page.items
        if page.next_cursor is None:
            return
        position = {"cursor": page.next_cursor}


def _document(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {"title": "An answer that is no JSON"}
    return found if isinstance(found, dict) else {}
