"""Long answers to programs are compressed where the client takes them so."""

import gzip
import zlib
from typing import Any

import pytest
from backports import zstd
from django.test import Client

from gateway.middleware.compression import MIN_BYTES, choose_coding

SHORT, LONG = "/api/long/2000", "/api/long/3000"
GZIP = {"Accept-Encoding": "gzip"}


def test_it_works(client: Client) -> None:
    plain, packed = client.get(LONG), client.get(LONG, headers=GZIP)
    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert int(packed["Content-Length"]) == len(packed.content) < len(plain.content) / 10
    assert "Content-Encoding" not in plain
    # Whoever keeps the answer must keep one for each encoding.
    assert plain["Vary"] == packed["Vary"] == "Accept-Encoding"


def test_zstandard(client: Client) -> None:
    headers = {"Accept-Encoding": "gzip, deflate, br, zstd"}
    packed = client.get(LONG, headers=headers)
    assert packed["Content-Encoding"] == "zstd"
    assert zstd.decompress(packed.content) == client.get(LONG).content
    response: Any = client.get("/api/stream", headers=headers)
    unpack = zstd.ZstdDecompressor()
    seen = [unpack.decompress(part) if part else b"" for part in response.streaming_content]
    assert seen == [b'{"line": 0}\n', b'{"line": 1}\n', b'{"line": 2}\n', b""]
    assert unpack.eof


@pytest.mark.parametrize(("length", "is_packed"), [(MIN_BYTES - 13, False), (MIN_BYTES - 12, True)])
def test_the_length_from_which_it_compresses(client: Client, length: int, *, is_packed: bool) -> None:
    assert len(client.get(f"/api/long/{length}").content) == MIN_BYTES - (not is_packed)
    assert client.get(f"/api/long/{length}", headers=GZIP).has_header("Content-Encoding") is is_packed


def test_answers_to_browsers_are_left_alone(client: Client) -> None:
    assert "Content-Encoding" not in client.get("/rest/long/3000", headers=GZIP)


def test_a_stream_comes_record_by_record(client: Client) -> None:
    response: Any = client.get("/api/stream", headers=GZIP)
    assert response["Content-Encoding"] == "gzip"
    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
    seen = [unpack.decompress(part) for part in response.streaming_content]
    assert seen == [b'{"line": 0}\n', b'{"line": 1}\n', b'{"line": 2}\n', b""]
    assert unpack.eof


def test_without_a_body(client: Client) -> None:
    response = client.head(LONG, headers=GZIP)
    assert "Content-Encoding" not in response
    assert response["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", None),
        ("identity", None),
        ("br", None),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("br, gzip;q=0.5", "gzip"),
        ("br;q=1.0, gzip ; q=0.001", "gzip"),
        ("gzip;q=0", None),
        ("gzip;q=0.000, *", "zstd"),
        ("*", "zstd"),
        ("gzip, zstd", "zstd"),
        ("gzip, zstd;q=0.9", "gzip"),
        ("*, zstd;q=0", "gzip"),
        ("*;q=0", None),
        ("gzip;q=2", None),
        ("gzip;level=9", None),
    ],
)
def test_what_the_client_takes(accepted: str, coding: str | None) -> None:
    assert choose_coding(accepted) == coding
