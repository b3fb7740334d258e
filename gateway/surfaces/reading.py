"""Reads requests strictly: what is ambiguous or would be ignored is refused (docs/api.md#strict-requests).

`Negotiation` chooses the media types of bodies and answers (RFC 9110 section 12.5.1).
"""

import json
import re
from collections.abc import Collection, Mapping
from itertools import chain
from typing import IO, Any
from urllib.parse import unquote_plus

from django.http import HttpRequest
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from core.call import Schedule
from core.errors import InvalidRequest, MalformedRequest, UnsupportedMediaType
from core.shapes import Body, load_body
from gateway.pipeline.schedules import parse_schedule
from keys.authentication import read_reason

MAX_NESTING = 64
_MAX_DIGITS = 1000


def read_query(request: HttpRequest, *, lists: Collection[str] = ()) -> dict[str, str]:
    """The query parameters of a request, as `parse_query` returns them."""
    return parse_query(request.META.get("QUERY_STRING", ""), lists=lists)


def parse_query(query: str, *, lists: Collection[str] = ()) -> dict[str, str]:
    """Return the parameters of a query; raises InvalidRequest for one that is not UTF-8, has a NUL, or is repeated.

    Those in `lists` may be repeated: `a=x&a=y` means `a=x,y`, since generated clients send one or the other.
    """
    values: dict[str, str] = {}
    for part in query.split("&"):
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
    """Parses unambiguous JSON. A body `null` is refused: it is neither an object nor an absent body."""

    media_type = "application/json"

    def parse(self, stream: IO[Any], media_type: str | None = None, parser_context: Any = None) -> Any:
        document = parse_json(stream.read())
        return load_body(Body, document) if document is None else document


def refuse_members(request: Request) -> None:
    """Refuse a body other than an empty object, for an operation that takes none and would ignore its members.

    Raises UnknownMember, InvalidRequest, UnsupportedMediaType or MalformedRequest.
    """
    if request.body:
        load_body(Body, request.data)


def refuse_headers(request: HttpRequest) -> None:
    """Refuse a Content-Encoding, and a reason that cannot be recorded, for every operation.

    Raises UnsupportedMediaType or InvalidRequest.
    """
    refuse_encoding(request)
    read_reason(request.META.get("HTTP_X_CHANGE_REASON"))


def refuse_encoding(request: HttpRequest) -> None:
    """Refuse a compressed body, which would defeat the size limit; raises UnsupportedMediaType."""
    if request.META.get("HTTP_CONTENT_ENCODING"):
        raise UnsupportedMediaType("A request body must not have a Content-Encoding.")


def parse_json(body: bytes) -> Any:
    """Parse strict JSON: UTF-8, no duplicate members, NaN, infinity, NUL or lone surrogates, and limited nesting.

    A byte order mark is ignored (RFC 8259 section 8.1): PowerShell and .NET write one.

    Raises MalformedRequest.
    """
    try:
        document = json.loads(
            body.decode("utf-8-sig"),
            object_pairs_hook=_unique_members,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            parse_int=_bounded_int,
        )
    except RecursionError:
        raise MalformedRequest(f"The body is nested deeper than {MAX_NESTING} levels.") from None
    except UnicodeDecodeError:
        raise MalformedRequest("The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise MalformedRequest(f"{error.msg} at line {error.lineno}, column {error.colno}.") from None
    except ValueError as error:
        raise MalformedRequest(str(error)) from None
    # NUL and surrogates can only enter as \u escapes; without one the strings need no check.
    _check_nesting(document, 1, has_escapes=re.search(rb"\\u(?:0000|[dD][89a-fA-F])", body) is not None)
    return document


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"The member {repeated!r} is given twice.")
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON.")


def _finite_float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"The number {text} is out of range.")
    return value


def _bounded_int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"A number has more than {_MAX_DIGITS} digits.")
    return int(text)


def _check_nesting(value: Any, level: int, *, has_escapes: bool) -> None:
    """Refuse nesting that is too deep, the top level being 1, and with escapes also NUL and lone surrogates."""
    if isinstance(value, dict | list):
        if level > MAX_NESTING:
            raise MalformedRequest(f"The body is nested deeper than {MAX_NESTING} levels.")
        for inner in chain(value, value.values()) if isinstance(value, dict) else value:
            _check_nesting(inner, level + 1, has_escapes=has_escapes)
    elif has_escapes and isinstance(value, str):
        if "\0" in value:
            raise MalformedRequest("A string contains NUL.")
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise MalformedRequest("A string contains a lone surrogate.")


def read_versions(header: str | None, *, strong: bool = False) -> frozenset[str] | None:
    """The versions in an If-Match or If-None-Match header (`"a", W/"b"`, `*`), None without the header.

    With the strong comparison of If-Match, weak versions never match (RFC 9110 sections 8.8.3.2 and 13.1.1).
    """
    if header is None:
        return None
    if header.strip() == "*":
        return frozenset({"*"})
    found = re.findall(r'(W/)?"([^"]*)"', header)
    # `*` in quotes is a version, which does not exist, and not the wildcard.
    return frozenset(version for weak, version in found if version != "*" and not (strong and weak))


SCHEDULE_HEADERS = {"X-Apply-At": "apply_at", "X-Revert-At": "revert_at", "X-Revert-After": "revert_after"}
"""The headers that schedule a change, and the member of `Schedule` that each stands for."""


def read_schedule(request: HttpRequest) -> Schedule | None:
    """When the change of a request begins and ends, by its headers; raises BadTime."""
    given = {name: request.headers[name] for name in SCHEDULE_HEADERS if name in request.headers}
    return parse_schedule({SCHEDULE_HEADERS[name]: (name, text) for name, text in given.items()}) if given else None


def wants_async(prefer: str | None) -> bool:
    """Whether `respond-async` is among the preferences of a Prefer header (RFC 7240)."""
    preferences = prefer.lower().split(",") if prefer else ()
    return any(item.partition(";")[0].strip() == "respond-async" for item in preferences)


class Negotiation(BaseContentNegotiation):
    """Bodies are JSON in UTF-8. Answers have the type that Accept prefers, or JSON if none is acceptable.

    Among equally preferred types the one named more specifically wins, then the first one offered.
    """

    def select_parser(self, request: Request, parsers: Any) -> BaseParser:
        """Return the parser of the body; raises UnsupportedMediaType."""
        refuse_encoding(request)
        media_type, _, parameters = request.content_type.partition(";")
        charset = parameters.strip().lower().removeprefix("charset=").strip('"')
        if media_type.strip().lower() != parsers[0].media_type or charset not in ("", "utf-8"):
            raise UnsupportedMediaType
        parser: BaseParser = parsers[0]
        return parser

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        best: BaseRenderer = renderers[0]
        if len(renderers) > 1 and (accept := request.META.get("HTTP_ACCEPT")):
            ranges = _ranges(accept)
            best = max(renderers, key=lambda renderer: _preference(renderer.media_type, ranges))
        return best, best.media_type


def _ranges(accept: str) -> dict[str, float]:
    """The media ranges of an Accept header with their qualities; malformed ones are left out."""
    found: dict[str, float] = {}
    for item in accept.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        quality = next((text[2:].strip() for text in parameters if text.startswith("q=")), "1")
        if re.fullmatch(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?", quality):
            found[name] = float(quality)
    return found


def _preference(offered: Any, ranges: Mapping[str, float]) -> tuple[float, int]:
    """The quality of a media type, and how specifically Accept names it."""
    for exactness, name in ((2, offered), (1, f"{offered.partition('/')[0]}/*"), (0, "*/*")):
        if name in ranges:
            return ranges[name], exactness if ranges[name] else 0
    return 0.0, 0
