"""The middleware around every view. It does not know who the caller is or what they may do."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase


class Middleware:
    """A middleware that calls the next one, or the view, with `get_response`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
