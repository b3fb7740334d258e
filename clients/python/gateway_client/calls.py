"""Performs the operations of `gateway_client.generated.api` with plain values, and returns typed results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from types import ModuleType
from typing import Any, ParamSpec, Protocol, TypeVar
from uuid import UUID

import httpx

from gateway_client.answers import Refused, document_of, result_of
from gateway_client.generated import AuthenticatedClient
from gateway_client.generated.types import Unset

Given = ParamSpec("Given")
Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


class Page(Protocol[Item_co]):
    """One page of a search."""

    @property
    def items(self) -> Sequence[Item_co]: ...

    @property
    def next_cursor(self) -> str | None: ...


class Resource:
    """What the classes of resources have in common: `perform` is how they carry out an operation."""

    def __init__(self, client: AuthenticatedClient, perform: Callable[..., Any] | None = None) -> None:
        self._client = client
        self._perform = perform or (perform_async if type(self).__name__.startswith("Async") else perform_now)

    def _call(self, name: str, path: list[Any], given: Mapping[str, Any], body: Mapping[str, Any] | None = None) -> Any:
        arguments = {key: value for key, value in given.items() if not isinstance(value, Unset)}
        version = str(arguments.get("if_match", "*"))
        if '"' not in version and version != "*":
            arguments["if_match"] = f'"{version}"'
        if body is not None:
            arguments["body"] = _Body(body)
        return self._perform(import_module(f"gateway_client.generated.api.{name}"), self._client, path, arguments)


class _Body:
    """The members of a request's body as the generated code sends them."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._members = members

    def to_dict(self) -> Any:
        return _as_json(self._members)


def _as_json(value: Any) -> Any:
    if hasattr(value, "to_dict") and not isinstance(value, _Body):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _as_json(member) for name, member in value.items() if not isinstance(member, Unset)}
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_json(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def perform_now(operation: ModuleType, client: AuthenticatedClient, path: list[Any], arguments: dict[str, Any]) -> Any:
    """Perform an operation; return its result. Raises Refused or Held."""
    return _result(operation, client, client.get_httpx_client().request(**operation._get_kwargs(*path, **arguments)))


async def perform_async(
    operation: ModuleType, client: AuthenticatedClient, path: list[Any], arguments: dict[str, Any]
) -> Any:
    """Do as `perform_now`, asynchronously."""
    request = operation._get_kwargs(*path, **arguments)
    return _result(operation, client, await client.get_async_httpx_client().request(**request))


def _result(operation: ModuleType, client: AuthenticatedClient, response: httpx.Response) -> Any:
    """The result in an answer. A refusal need not be a problem of the gateway: proxies have words of their own."""
    if response.status_code >= 300:
        raise Refused(response.status_code, document_of(response.content))
    return result_of(operation._build_response(client=client, response=response))


def pages(search: Callable[Given, Page[Item]], *args: Given.args, **query: Given.kwargs) -> Iterator[Item]:
    """Yield every item of a search or a list, page by page: `pages(gateway.users.search, q="ada")`. Raises Refused."""
    ask: Callable[..., Page[Item]] = search
    page = ask(*args, **query)
    yield from page.items
    while page.next_cursor is not None:
        page = ask(*args, **query | {"cursor": page.next_cursor})
        yield from page.items


def stream(search: Callable[Given, Page[Item]], *args: Given.args, **query: Given.kwargs) -> Iterator[Item]:
    """Yield every item of a search while the gateway finds it, in one request: `stream(gateway.users.search, q="ada")`.

    Raises Refused, also if the stream breaks off: then the items so far are not all.
    """

    def perform(
        operation: ModuleType, client: AuthenticatedClient, path: list[Any], arguments: dict[str, Any]
    ) -> Iterator[Item]:
        request = operation._get_kwargs(*path, **arguments)
        with client.get_httpx_client().stream(**_for_lines(request)) as response:
            if response.status_code != 200:
                response.read()
                _result(operation, client, response)
            rest = b""
            for received in response.iter_bytes():
                lines, _, rest = (rest + received).rpartition(b"\n")
                yield from _items(operation, client, lines)
            _require_end(rest)

    bound: Any = search
    items: Iterator[Item] = getattr(type(bound.__self__)(bound.__self__._client, perform), bound.__name__)(
        *args, **query
    )
    return items


def _for_lines(request: dict[str, Any]) -> dict[str, Any]:
    return request | {"headers": {**request.get("headers", {}), "Accept": "application/x-ndjson"}}


def _items(operation: ModuleType, client: AuthenticatedClient, lines: bytes) -> list[Any]:
    """The records of complete lines, made as those of a page are."""
    page = b'{"items":[%s],"nextCursor":null,"total":null,"truncated":false}' % b",".join(lines.splitlines())
    found: list[Any] = operation._parse_response(client=client, response=httpx.Response(200, content=page)).items
    return found


def _require_end(rest: bytes) -> None:
    """Refuse a last line that is not finished: it is a problem without its end, if the gateway could still tell."""
    if rest:
        problem = document_of(rest + b"}")
        raise Refused(problem.get("status", 200), {"detail": "The stream broke off."} | problem)
