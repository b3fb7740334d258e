"""Reading a request strictly: one way to understand it, or a refusal that says why (docs/api.md#strict-requests)."""

import json
import re
from collections.abc import Collection
from itertools import chain
from typing import IO, Any
from urllib.parse import unquote_plus

from django.http import HttpRequest
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from core.errors import InvalidRequest, MalformedRequest, UnsupportedMediaType
from core.shapes import Body, load_body
from keys.authentication import read_reason

MAX_NESTING = 64
_MOST_DIGITS = 1000


def read_query(request: HttpRequest, *, lists: Collection[str] = ()) -> dict[str, str]:
    """The query parameters. One that is not UTF-8 is refused, and so is a repeated one, except those of `lists`.

    `a=x&a=y` is `a=x,y` there: clients generated from OpenAPI documents send either.
    """
    values: dict[str, str] = {}
    for part in request.META.get("QUERY_STRING", "").split("&"):
        if not part:
            continue
        raw_name, _, raw_value = part.partition("=")
        try:
            name, value = unquote_plus(raw_name, errors="strict"), unquote_plus(raw_value, errors="strict")
        except UnicodeDecodeError:
            raise InvalidRequest("The query is not UTF-8.") from None
        if name in values and name not in lists:
            raise InvalidRequest.naming("is given twice", parameter=name, subject=name)
        if "\0" in value:
            raise InvalidRequest.naming("contains NUL", parameter=name, subject=name)
        values[name] = f"{values[name]},{value}" if name in values else value
    return values


class StrictJsonParser(BaseParser):
    """A JSON document that can be read in one way only; `null` is none, and no body that was left out."""

    media_type = "application/json"

    def parse(self, stream: IO[Any], media_type: str | None = None, parser_context: Any = None) -> Any:
        document = parse_json(stream.read())
        return load_body(Body, document) if document is None else document


def refuse_members(request: Request) -> None:
    """For an operation that takes no body: none may be sent, or an empty object. What else is in it would be ignored.

    Raises UnknownMember, InvalidRequest, UnsupportedMediaType or MalformedRequest.
    """
    if request.body:
        load_body(Body, request.data)


def refuse_headers(request: HttpRequest) -> None:
    """For every operation: no Content-Encoding, and no reason that cannot be kept.

    Raises UnsupportedMediaType or InvalidRequest.
    """
    refuse_encoding(request)
    read_reason(request.META.get("HTTP_X_CHANGE_REASON"))


def refuse_encoding(request: HttpRequest) -> None:
    """A compressed body would defeat the size limit: it is refused, whatever the operation."""
    if request.META.get("HTTP_CONTENT_ENCODING"):
        raise UnsupportedMediaType("A request body must not have a Content-Encoding.")


def parse_json(body: bytes) -> Any:
    """Parse strictly: UTF-8, no duplicate members, no NaN or infinity, no NUL, no lone surrogates, bounded nesting."""
    try:
        document = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_unique_members,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_short,
        )
    except RecursionError:
        raise MalformedRequest(f"The body is nested deeper than {MAX_NESTING} levels.") from None
    except UnicodeDecodeError:
        raise MalformedRequest("The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise MalformedRequest(f"{error.msg} at line {error.lineno}, column {error.colno}.") from None
    except ValueError as error:
        raise MalformedRequest(str(error)) from None
    # NUL and surrogates can only come in as \u escapes: without one there is nothing to look for in the strings.
    _check(document, 1, has_escapes=re.search(rb"\\u(?:0000|[dD][89a-fA-F])", body) is not None)
    return document


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"The member {twice!r} is given twice.")
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON.")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"The number {text} is out of range.")
    return value


def _short(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"A number has more than {_MOST_DIGITS} digits.")
    return int(text)


def _check(value: Any, level: int, *, has_escapes: bool) -> None:
    """Refuse what is nested too deep; the top level counts as 1. With escapes, look into the strings, too."""
    if isinstance(value, dict | list):
        if level > MAX_NESTING:
            raise MalformedRequest(f"The body is nested deeper than {MAX_NESTING} levels.")
        for inner in chain(value, value.values()) if isinstance(value, dict) else value:
            _check(inner, level + 1, has_escapes=has_escapes)
    elif has_escapes and isinstance(value, str):
        if "\0" in value:
            raise MalformedRequest("A string contains NUL.")
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise MalformedRequest("A string contains a lone surrogate.")


def read_versions(header: str | None, *, strong: bool = False) -> frozenset[str] | None:
    """The versions of an If-Match or If-None-Match header (`"a", W/"b"`, `*`), None without the header.

    Compared strongly, as If-Match asks for, a weak one never matches (RFC 9110 sections 8.8.3.2 and 13.1.1).
    """
    if header is None:
        return None
    if header.strip() == "*":
        return frozenset({"*"})
    found = re.findall(r'(W/)?"([^"]*)"', header)
    # A version in quotes is never the wildcard.
    return frozenset(version for weak, version in found if version != "*" and not (strong and weak))


def wants_async(prefer: str | None) -> bool:
    """Whether `respond-async` is among the preferences of a Prefer header (RFC 7240)."""
    preferences = prefer.lower().split(",") if prefer else ()
    return any(item.partition(";")[0].strip() == "respond-async" for item in preferences)
