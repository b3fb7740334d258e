"""The language of a page. Programs are answered in English, whatever they say they accept."""

from contextlib import AbstractContextManager

from django.http import HttpRequest
from django.utils.translation import get_language_from_request, override


def in_language_of(request: HttpRequest) -> AbstractContextManager[None]:
    """The language that whoever asks has chosen in this browser, else the first known of those it prefers.

    It ends with the block: threads are reused, by requests of programs too.
    """
    return override(get_language_from_request(request))
