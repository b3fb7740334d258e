"""The views of operations: who calls is found out, the handler of the method answers, every failure is a problem.

They are plain functions. REST framework's ViewSets, from which they are made, declare what is at a path, for its router
and for OpenAPI; its own way through a request (a request of its own, negotiation, versions, parsers, throttles) costs a
third of a read, and nothing of it is used.
"""

from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponseBase

from core.call import Call, Surface
from core.errors import MethodNotAllowed
from gateway.surfaces.problems import error_of, problem_response
from keys.authentication import identify_machine, identify_session

Handler = Callable[..., HttpResponseBase]
"""Answers a call: gets the request, the call, and the path's arguments by name."""
View = Callable[..., HttpResponseBase]

METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE")
"""OPTIONS describes nothing here; OpenAPI does."""


def identification(surface: Surface) -> Callable[[HttpRequest], Call]:
    """How a surface finds out who calls: a person by session and CSRF token, a program by its key or token."""
    return identify_session if surface is Surface.REST else identify_machine


def view_of(surface: Surface, handlers: Mapping[str, Handler]) -> View:
    """The view of a path with a handler for each of its methods. HEAD is answered as GET is."""
    answered = dict(handlers)
    if "GET" in answered:
        answered["HEAD"] = answered["GET"]
    allowed = ", ".join(method for method in METHODS if method in answered)
    identify = identification(surface)

    def view(request: HttpRequest, **arguments: str) -> HttpResponseBase:
        try:
            call = identify(request)
            handler = answered.get(request.method or "")
            if handler is None:
                raise MethodNotAllowed(headers={"Allow": allowed})
            return handler(request, call, **arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is becomes a problem, logged if nobody foresaw it
            return problem_response(request, error_of(error))

    described: Any = view
    described.csrf_exempt = True  # identify_session looks at the token itself
    described.is_direct = True
    return view
