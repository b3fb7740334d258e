"""Which media types a request brings and gets (RFC 9110 section 12.5.1)."""

import re
from collections.abc import Mapping
from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from core.errors import UnsupportedMediaType
from gateway.surfaces.reading import refuse_encoding


class Negotiation(BaseContentNegotiation):
    """Bodies are JSON in UTF-8. Answers are what Accept prefers; what nobody offers gets the first, which is JSON.

    Of equally wanted types the one named more exactly wins, then the one that is offered first.
    """

    def select_parser(self, request: Request, parsers: Any) -> BaseParser:
        """The parser of a body; raises UnsupportedMediaType."""
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
    """The media ranges of an Accept header with their qualities; what cannot be read is left out."""
    found: dict[str, float] = {}
    for item in accept.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        quality = next((text[2:].strip() for text in parameters if text.startswith("q=")), "1")
        if re.fullmatch(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?", quality):
            found[name] = float(quality)
    return found


def _preference(offered: Any, ranges: Mapping[str, float]) -> tuple[float, int]:
    """How much a type is wanted, and how exactly it was named."""
    for exactness, name in ((2, offered), (1, f"{offered.partition('/')[0]}/*"), (0, "*/*")):
        if name in ranges:
            return ranges[name], exactness if ranges[name] else 0
    return 0.0, 0
