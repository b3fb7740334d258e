"""Reading requests strictly (docs/api.md#strict-requests)."""

from contextlib import suppress
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import Client, RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidRequest, MalformedRequest, UnsupportedMediaType
from gateway.surfaces.reading import (
    MAX_NESTING,
    Negotiation,
    StrictJsonParser,
    parse_json,
    read_query,
    read_versions,
    wants_async,
)
from gateway.surfaces.views import StrictRequest
from tests.support.cast import make_person


def read_document(request: HttpRequest) -> Any:
    return StrictRequest(request, parsers=[StrictJsonParser()], negotiator=Negotiation()).data


def test_it_works() -> None:
    assert parse_json('{"a": ["ä", 1, null, true]}'.encode()) == {"a": ["ä", 1, None, True]}


def test_a_byte_order_mark_is_ignored() -> None:
    assert parse_json(b"\xef\xbb\xbf{}") == {}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b'{"a": 1, "a": 2}',
        b'{"x": {"a": 1, "a": 1}}',
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": "\\u0000"}',
        b'{"\\u0000": 1}',
        b'["\\ud800"]',
        b'["\\udc00\\ud800"]',
        b'{"a": "\xff"}',
        b"{\xef\xbb\xbf}",
        b"\xef\xbb\xbf\xef\xbb\xbf{}",
        b'{"a": 1} x',
        b"[" * (MAX_NESTING + 1) + b"]" * (MAX_NESTING + 1),
        b"[" * 200_000,
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse_json(body)


def test_a_long_number_is_refused_in_plain_words() -> None:
    with pytest.raises(MalformedRequest, match=r"^A number has more than 1000 digits\.$"):
        parse_json(b"9" * 5000)


def test_nesting_up_to_the_limit_passes() -> None:
    parse_json(b"[" * MAX_NESTING + b"]" * MAX_NESTING)


def test_surrogate_pairs_and_other_escapes_pass() -> None:
    assert parse_json(b'["\\ud83d\\ude00", "\\u0001"]') == ["😀", "\x01"]


@given(st.binary(max_size=60))
def test_no_input_breaks_the_parser(body: bytes) -> None:
    with suppress(MalformedRequest):
        parse_json(body)


@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": "text/plain"},
        {"content_type": "application/json; charset=latin-1"},
        {"content_type": "application/json", "HTTP_CONTENT_ENCODING": "gzip"},
        {"content_type": "application/xml"},
    ],
)
def test_other_media_types_are_refused(headers: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedMediaType):
        read_document(RequestFactory().post("/api/x", data=b"{}", **headers))


@pytest.mark.django_db
def test_what_says_to_be_a_form_and_is_none_is_refused_for_a_session(client: Client) -> None:
    client.force_login(make_person(superuser=True))
    for content_type in ("multipart/form-data", "application/x-www-form-urlencoded; charset=latin-1"):
        answer = client.generic("POST", "/rest/roles", b"{}", content_type=content_type)
        assert (answer.status_code, answer.json()["code"]) == (415, UnsupportedMediaType.code)


def test_a_post_without_a_body_needs_no_media_type() -> None:
    request = RequestFactory().post("/api/x", data=b"", content_type="")
    assert read_document(request) == {}


def test_an_empty_body_of_a_media_type_is_no_document() -> None:
    for media_type, refusal in (("application/json", MalformedRequest), ("text/plain", UnsupportedMediaType)):
        request = RequestFactory().post("/api/x", data=b"", content_type="", CONTENT_TYPE=media_type)
        with pytest.raises(refusal):
            read_document(request)


def test_a_repeated_parameter_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read_query(RequestFactory().get("/api/x?a=1&b=2&a=3"))
    assert refusal.value.as_problem()["errors"][0]["parameter"] == "a"


def test_a_list_may_be_repeated() -> None:
    query = read_query(RequestFactory().get("/api/x?a=1&a=2,3&b=4"), lists={"a"})
    assert query == {"a": "1,2,3", "b": "4"}


def test_parameters_are_decoded() -> None:
    assert read_query(RequestFactory().get("/api/x?q=a%26b+c&e=")) == {"q": "a&b c", "e": ""}


def test_versions_of_a_header() -> None:
    assert read_versions(None) is None
    assert read_versions("*") == {"*"}
    assert read_versions('"a", W/"b"') == {"a", "b"}
    assert read_versions('"a", W/"b"', strong=True) == {"a"}
    assert read_versions("*", strong=True) == {"*"}
    for nothing in ("", "a", '"*"', "W/*", '"'):
        assert read_versions(nothing) == frozenset()


def test_preferences() -> None:
    assert wants_async("handling=strict, respond-async;wait=1")
    assert not wants_async("return=minimal")
