"""Compresses long answers to programs where the client takes them so (docs/api.md#compression).

Answers to browsers are left alone: whoever can make a browser send requests with its cookies could guess secrets from
the length of answers (the attack BREACH). A program's credential is sent by nobody else.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Protocol

from backports.zstd import ZstdCompressor
from django.http import HttpRequest, HttpResponseBase
from django.utils.cache import patch_vary_headers

from gateway.middleware import Middleware
from gateway.surfaces.rendering import PARTIAL
from gateway.surfaces.routes import is_for_programs

MIN_BYTES = 2048
"""A shorter answer fits into one or two packets as it is."""

# gzip leaves an eighth of a list of records, whatever the level, and takes six times as long for level 6; zstd leaves a
# ninth in a quarter of the time.
_LEVEL = 1
_TYPES = ("application/json", PARTIAL, "application/problem+json", "application/x-ndjson", "text/csv")
_WEIGHT = re.compile(r"\s*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*", re.ASCII | re.IGNORECASE)


class Compressor(Protocol):
    """Compresses the parts of one answer; `flush` gives what it still holds back."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self, mode: int = ..., /) -> bytes: ...


def _gzip() -> Compressor:
    return zlib.compressobj(_LEVEL, wbits=16 + zlib.MAX_WBITS)


class _Zstd:
    """Zstandard by zlib's modes of flushing."""

    def __init__(self) -> None:
        compressor = ZstdCompressor(level=_LEVEL)
        self.compress = compressor.compress
        self._flush = compressor.flush

    def flush(self, mode: int = zlib.Z_FINISH, /) -> bytes:
        return self._flush(ZstdCompressor.FLUSH_FRAME if mode == zlib.Z_FINISH else ZstdCompressor.FLUSH_BLOCK)


CODINGS = {"zstd": _Zstd, "gzip": _gzip}
"""The content codings, the preferred ones first."""


class CompressionMiddleware(Middleware):
    """Compresses the answers to programs.

    The ETag stays: it is the version of the object, however it is encoded, and a client sends it back in If-Match.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        body: Any = response  # the stubs know `content` and `streaming_content` of subclasses alone
        is_long = response.streaming or len(body.content) >= MIN_BYTES
        if not (is_long and is_for_programs(request.path_info) and _is_compressible(response)):
            return response
        patch_vary_headers(response, ("Accept-Encoding",))
        coding = choose_coding(request.META.get("HTTP_ACCEPT_ENCODING", ""))
        if coding is None or request.method == "HEAD":
            return response
        response.headers["Content-Encoding"] = coding
        response.headers.pop("Content-Length", None)
        if response.streaming:
            body.streaming_content = _compressed(body.streaming_content, CODINGS[coding]())
        else:
            body.content = compress(body.content, coding)
        return response


def compress(content: bytes, coding: str) -> bytes:
    compressor = CODINGS[coding]()
    return compressor.compress(content) + compressor.flush()


@lru_cache(maxsize=256)
def choose_coding(accepted: str) -> str | None:
    """The coding that an Accept-Encoding header wants most; None if it takes none of ours (RFC 9110 12.5.3)."""
    weights: dict[str, float] = {}
    for part in accepted.lower().split(","):
        name, _, parameter = part.partition(";")
        weight = _WEIGHT.fullmatch(parameter)
        if parameter and weight is None:
            continue  # not understood
        weights[name.strip()] = float(weight[1]) if weight else 1.0
    others = weights.get("*", 0.0)
    best = max(CODINGS, key=lambda name: weights.get(name, others))
    return best if weights.get(best, others) > 0 else None


def _is_compressible(response: HttpResponseBase) -> bool:
    media_type = response.get("Content-Type", "").partition(";")[0]
    return media_type in _TYPES and "Content-Encoding" not in response


def _compressed(parts: Iterable[bytes], compressor: Compressor) -> Iterator[bytes]:
    """Each part comes out whole, so that a client sees its records as soon as they are found."""
    for part in parts:
        yield compressor.compress(part) + compressor.flush(zlib.Z_SYNC_FLUSH)
    yield compressor.flush(zlib.Z_FINISH)
