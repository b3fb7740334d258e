"""Django as the server calls it, without WSGI's way of answering; the threads of the server run it."""

from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.core.signals import request_started
from django.http import HttpResponseBase

from gateway.server.environ import Environ


class Application(BaseHandler):
    """The middleware and the views."""

    def __init__(self) -> None:
        super().__init__()
        self.load_middleware()

    def __call__(self, environ: Environ) -> HttpResponseBase:
        """The response to a request, which whoever has sent it closes."""
        request_started.send(sender=type(self), environ=environ)
        return self.get_response(WSGIRequest(environ))
