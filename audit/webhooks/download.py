"""Fetches small JSON documents from foreign hosts over the connection of the webhooks, which checks their addresses."""

import json
import time
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from audit.webhooks.delivery import Undeliverable, connect, path_of

_SECONDS: Final = 10.0
"""For the whole document."""


class NotFetched(Exception):
    """Why there is no document."""


def fetch_json(
    url: str, *, max_bytes: int, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> Any:
    """The JSON document at a URL, or the answer to a form posted there; raises NotFetched."""
    deadline = time.monotonic() + _SECONDS
    try:
        parts = urlsplit(url)
        connection = connect(parts)
    except (Undeliverable, ValueError) as error:
        raise NotFetched(str(error)) from error
    path = path_of(parts)
    sent = {"Accept": "application/json", **(headers or {})}
    try:
        if form is None:
            connection.request("GET", path, headers=sent)
        else:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
            connection.request("POST", path, urlencode(form), sent)
        response = connection.getresponse()
        media_type = response.headers.get_content_type()
        if response.status != 200 or not (media_type == "application/json" or media_type.endswith("+json")):
            raise NotFetched(f"answered {response.status} with {media_type}")
        body = b""
        while block := response.read1(4096):
            body += block
            left = deadline - time.monotonic()
            if len(body) > max_bytes or left <= 0:
                raise NotFetched("the document is too large, or too slow")
            if connection.sock is not None:  # a timeout counts for one read: a slow host could send byte by byte
                connection.sock.settimeout(left)
        return json.loads(body)
    except (HTTPException, OSError, ValueError) as error:
        raise NotFetched(str(error) or type(error).__name__) from error
    finally:
        connection.close()
