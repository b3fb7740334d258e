"""Pages as tests read them: markup without the white space that only the templates' lines have."""

import re

from django.utils.html import strip_tags


def markup_of(content: bytes | str) -> str:
    """A page whose lines are joined: what ends a line beside a tag, or within one, is nothing to a browser either."""
    text = content.decode() if isinstance(content, bytes) else content
    text = re.sub(r"(?<=>)\s*\n\s*|\s*\n\s*(?=<)", "", text)
    return re.sub(r"\s+(?=>)", "", re.sub(r"\s*\n\s*", " ", text))


def text_of(content: bytes | str) -> str:
    """What of a page is read, in one line: without tags, and with one space for white space."""
    text = content.decode() if isinstance(content, bytes) else content
    return " ".join(strip_tags(text).split())
