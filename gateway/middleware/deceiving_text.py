"""Text of others in pages: what nobody sees is marked, and what is read from right to left moves nothing beside it.

Names of objects, keys, people, reasons and values come from the directory and from clients. Wherever a page shows one,
it passes here, whichever template has put it there.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from core.text.unseen import RIGHT_TO_LEFT, escaped_in_json, with_unseen_marked, with_unseen_replaced

_OWN = "\t\n\r\u00a0\u202f"
"""What our own texts and templates have: line ends, and spaces that do not break."""
_SUSPICIOUS = re.compile(
    r"[^\t\n\x20-\x7e\u00a0-\u00ac\u00ae-\u02ff\u0370-\u052f\u2010-\u2027\u202f-\u205e\u20a0-\u27ff]"
)
"""Outside of what nearly every page has: a page without it is left as it is, which is quick to see."""
_PIECE = re.compile(
    r"(?P<script><script\b.*?</script\s*>)"
    r"|(?P<field><textarea\b.*?</textarea\s*>)"
    r"|(?P<raw><(?P<name>title|option|style|svg)\b.*?</(?P=name)\s*>)"
    r"|(?P<comment><!--.*?-->)"
    r"|(?P<tag></?[a-z](?:[^>\"']|\"[^\"]*\"|'[^']*')*>)"
    r"|(?P<text>[^<]+|<)",
    re.DOTALL | re.IGNORECASE,
)
_READ_BY_PEOPLE = re.compile(r"(\s(?:title|aria-label|alt|placeholder)=)(\"[^\"]*\"|'[^']*')", re.IGNORECASE)
_FIRST_TAG = re.compile(r"<(?:[^>\"']|\"[^\"]*\"|'[^']*')*>")


class DeceivingTextMiddleware:
    """Marks in every page what nobody sees, and isolates what is read from right to left."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        if is_page and isinstance(response, HttpResponse) and not response.headers.get("Content-Encoding"):
            page = response.content.decode()
            if _SUSPICIOUS.search(page):
                response.content = plainly(page).encode()
                if "Content-Length" in response.headers:
                    response.headers["Content-Length"] = str(len(response.content))
        return response


def plainly(page: str) -> str:
    """A page, or a part of one, in which no text deceives.

    Only what people read is marked: what a form sends back stays what it is, written as character references.
    """
    return _PIECE.sub(_piece, page)


def _piece(found: re.Match[str]) -> str:
    whole = found[0]
    if not _SUSPICIOUS.search(whole):
        return whole
    return _WAYS[found.lastgroup or "text"](whole)


def _text(text: str) -> str:
    return RIGHT_TO_LEFT.sub(lambda run: f"<bdi>{run[0]}</bdi>", _marked(text))


def _raw(element: str) -> str:
    """What it holds is shown by itself, and no other element may stand in it."""
    tag = _FIRST_TAG.match(element)
    end = tag.end() if tag else 0
    return _tag(element[:end]) + _marked(element[end:])


def _script(element: str) -> str:
    return with_unseen_replaced(element, escaped_in_json, but=_OWN)


def _tag(tag: str) -> str:
    return _referenced(_READ_BY_PEOPLE.sub(lambda found: found[1] + _marked(found[2]), tag))


def _marked(text: str) -> str:
    return with_unseen_marked(text, but=_OWN)


def _referenced(text: str) -> str:
    return with_unseen_replaced(text, lambda each: f"&#x{ord(each):X};", but=_OWN)


_WAYS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {"script": _script, "field": _referenced, "raw": _raw, "comment": _marked, "tag": _tag, "text": _text}
)
