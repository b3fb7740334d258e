"""What the tests of the pages about access share: forms sent as a browser does, and what a page says."""

import re
from html import unescape
from typing import Any

from directory.models import DirectoryConnection
from lab.directory import random_name
from tests.support.cast import Answer, Console
from tests.support.markup import markup_of


def make_unreachable(**fields: Any) -> DirectoryConnection:
    """A connection to a directory that does not answer, and at once."""
    return DirectoryConnection.objects.create(
        **{
            "name": random_name("corp"),
            "urls": ["ldaps://127.0.0.1:1"],
            "base_dn": "DC=corp,DC=example,DC=test",
            "bind_dn": "gateway@corp.example.test",
            "bind_password": "secret",
            **fields,
        }
    )


def text_of(answer: Answer) -> str:
    """A page without its tags."""
    body = unescape(re.sub(r"<[^>]+>", " ", answer.body.decode()))
    return re.sub(r"\s+", " ", body)


def fields_of(answer: Answer) -> str:
    """A page with its tags."""
    return unescape(markup_of(answer.body))


def followed(console: Console, answer: Answer) -> str:
    """What the page says that a form led to."""
    assert answer.status == 302, text_of(answer)
    return text_of(console.get(answer.headers["Location"]))
