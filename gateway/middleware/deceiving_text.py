"""Protects pages from deceptive text: marks invisible characters, and isolates right-to-left text from its neighbours.

Names of objects, keys and people, reasons and values come from the directory and from clients. Every page passes
through this middleware, so that no template can forget one of them.
"""

import re
from collections.abc import Callable
from functools import partial

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from core.text.invisible import RIGHT_TO_LEFT, escaped_in_json, mark_invisible, replace_invisible
from gateway.middleware import Middleware

_USED_BY_TEMPLATES = "\t\n\r\u00a0\u202f"
"""Invisible characters that our own texts and templates use: line ends and non-breaking spaces."""

_UNUSUAL = re.compile(r"[^\t\n\x20-\x7e\u00a0-\u00ac\u00ae-\u02ff\u0370-\u052f\u2010-\u2027\u202f-\u205e\u20a0-\u27ff]")
"""Any character that few pages contain. A page without one, which is quick to check, stays as it is."""

_PIECE = re.compile(
    r"(?P<script><script\b.*?</script\s*>)"
    r"|(?P<field><textarea\b.*?</textarea\s*>)"
    r"|(?P<raw><(?P<name>title|option|style|svg)\b.*?</(?P=name)\s*>)"
    r"|(?P<comment><!--.*?-->)"
    r"|(?P<tag></?[a-z](?:[^>\"']|\"[^\"]*\"|'[^']*')*>)"
    r"|(?P<text>[^<]+|<)",
    re.DOTALL | re.IGNORECASE,
)
_VISIBLE_ATTRIBUTE = re.compile(r"(\s(?:title|aria-label|alt|placeholder)=)(\"[^\"]*\"|'[^']*')", re.IGNORECASE)
_FIRST_TAG = re.compile(r"<(?:[^>\"']|\"[^\"]*\"|'[^']*')*>")


class DeceivingTextMiddleware(Middleware):
    """Marks invisible characters in every page, and isolates right-to-left text."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        if is_page and isinstance(response, HttpResponse) and not response.headers.get("Content-Encoding"):
            page = response.content.decode()
            if _UNUSUAL.search(page):
                response.content = mark_deceiving_text(page).encode()
                if "Content-Length" in response.headers:
                    response.headers["Content-Length"] = str(len(response.content))
        return response


def mark_deceiving_text(page: str) -> str:
    """Return a page, or a part of one, with its deceptive text marked.

    Only text that people read is marked; values that a form sends back keep their characters, as character references.
    """
    return _PIECE.sub(_treat_piece, page)


def _treat_piece(found: re.Match[str]) -> str:
    whole = found[0]
    if not _UNUSUAL.search(whole):
        return whole
    return _TREATMENTS[found.lastgroup or "text"](whole)


_mark_invisible = partial(mark_invisible, but=_USED_BY_TEMPLATES)
_replace_invisible = partial(replace_invisible, but=_USED_BY_TEMPLATES)


def _treat_text(text: str) -> str:
    return RIGHT_TO_LEFT.sub(lambda run: f"<bdi>{run[0]}</bdi>", _mark_invisible(text))


def _treat_raw(element: str) -> str:
    """Mark the content of an element that may not contain other elements, such as `<bdi>`."""
    tag = _FIRST_TAG.match(element)
    end = tag.end() if tag else 0
    return _treat_tag(element[:end]) + _mark_invisible(element[end:])


def _treat_tag(tag: str) -> str:
    return _as_references(_VISIBLE_ATTRIBUTE.sub(lambda found: found[1] + _mark_invisible(found[2]), tag))


def _as_references(text: str) -> str:
    return _replace_invisible(text, lambda each: f"&#x{ord(each):X};")


_TREATMENTS: dict[str, Callable[[str], str]] = {
    "script": lambda element: _replace_invisible(element, escaped_in_json),
    "field": _as_references,
    "raw": _treat_raw,
    "comment": _mark_invisible,
    "tag": _treat_tag,
    "text": _treat_text,
}
