"""How tests read the pages of the console that list directory objects."""

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode

from tests.support.cast import Answer, Console
from tests.support.markup import markup_of

PART = {"HX-Request": "true", "HX-Target": "found"}


def text_of(answer: Answer) -> str:
    return unescape(markup_of(answer.body))


def found(pattern: str, answer: Answer) -> list[str]:
    """What a pattern finds in the page as it was sent, unescaped."""
    return [unescape(text) for text in re.findall(pattern, markup_of(answer.body), re.DOTALL)]


def names_in(answer: Answer) -> list[str]:
    """The names in the table of objects, in its order."""
    return found(r'<th scope="row"><a href="[^"]*">([^<]*)</a>', answer)


def heads_in(answer: Answer) -> list[str]:
    """The heads of the table's columns, by the names of their attributes where these are beside what people say."""
    heads = re.findall(r'<a class="sorts"([^>]*)>([^<]*)', markup_of(answer.body))
    named = [re.search(r'title="([^"]*)"', attributes) for attributes, _ in heads]
    return [unescape(name[1] if name else text).rstrip("▲▼ ") for name, (_, text) in zip(named, heads, strict=True)]


def get_objects(console: Console, path: str, **query: Any) -> Answer:
    """The part of a list's page that comes after it, as htmx asks for it."""
    return console.call("GET", f"{path}?{urlencode(query, doseq=True)}", **PART)


def download(console: Console, path: str, **query: Any) -> tuple[str, str]:
    """A file's text and what it is to be called."""
    response: Any = console.client.get(f"{path}?{urlencode(query, doseq=True)}")
    assert response.status_code == 200
    return b"".join(response.streaming_content).decode(), response["Content-Disposition"]


def post(console: Console, path: str, **fields: Any) -> Answer:
    """Send a form."""
    response = console.client.post(path, {"csrfmiddlewaretoken": console.token, **fields})
    return Answer(response.status_code, response.content, response.headers)
