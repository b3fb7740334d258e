"""Headers that are set without Django's encoding are those that Django would have set."""

import pytest
from django.http import HttpResponse
from django.http.response import BadHeaderError

from gateway.surfaces.responses import Response, pairs_of

_MEDIA_TYPE = "application/json"


@pytest.mark.parametrize("value", ["plain", "", "a\tb", "Grüße", "日本", "\x7f", 7])
def test_a_value_is_sent_as_by_django(value: str) -> None:
    ours, djangos = Response(b"{}", _MEDIA_TYPE, status=200, headers={}), HttpResponse(content_type=_MEDIA_TYPE)
    for response in (ours, djangos):
        response["X-Word"] = value
    assert list(pairs_of(ours)) == list(pairs_of(djangos))


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_no_value_brings_a_header_of_its_own(end: str) -> None:
    response = Response(b"{}", _MEDIA_TYPE, status=200, headers={})
    with pytest.raises(BadHeaderError):
        response["X-Word"] = f"one{end}Set-Cookie: two"


def test_names_are_found_in_any_case() -> None:
    response = Response(b"{}", _MEDIA_TYPE, status=200, headers={"ETag": '"1"'})
    response["etag"] = '"2"'
    assert "eTag" in response
    assert dict(pairs_of(response)) == {"Content-Type": _MEDIA_TYPE, "etag": '"2"'}


def test_without_a_content_there_is_no_media_type() -> None:
    response = Response(None, _MEDIA_TYPE, status=304, headers={"ETag": '"1"'})
    assert list(pairs_of(response)) == [("ETag", '"1"')]
