"""Responses for programs, with headers that are cheap to set: every answer has ten of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpResponse, HttpResponseBase
from django.http.response import ResponseHeaders


class QuickHeaders(ResponseHeaders):
    """Django's headers, which encode each name and value to see whether that can be done: of printable ASCII it can.

    Nothing printable ends a line, so that no value can bring a header of its own.
    """

    @classmethod
    def of(cls, headers: ResponseHeaders) -> "QuickHeaders":
        """The same headers."""
        quick = cls({})
        quick._store = headers._store
        return quick

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(value, str) and value.isascii() and value.isprintable():
            self._store[name.lower()] = (name, value)
        else:
            super().__setitem__(name, value)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._store

    def pairs(self) -> Iterable[tuple[str, str]]:
        """Names and values, without a look-up for each."""
        pairs: Iterable[tuple[str, str]] = self._store.values()
        return pairs


class Response(HttpResponse):
    """An answer to a program. Names of headers are ours; without a content there is no media type."""

    def __init__(self, content: bytes | None, media_type: str, *, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(content or b"", content_type=media_type, status=status)
        self.headers = QuickHeaders.of(self.headers)
        for name, value in headers.items():
            self.headers[name] = value
        if content is None:
            del self.headers["Content-Type"]


def pairs_of(response: HttpResponseBase) -> Iterable[tuple[str, str]]:
    """The headers of any response."""
    headers = response.headers
    return headers.pairs() if isinstance(headers, QuickHeaders) else headers.items()
