"""Django as the server calls it, without WSGI between them; the threads of the server run it."""

from io import BytesIO

from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.db import close_old_connections
from django.http import HttpResponseBase

from gateway.server.environ import Environ


class Request(WSGIRequest):
    """A request as the server received it: below no path of another application, and with an environment that is whole.

    Django looks for the mounting of each request, decodes and encodes its path and wraps its body. A request with a
    body, or with a path beyond ASCII, is made by Django.
    """

    def __init__(self, environ: Environ) -> None:
        path: str = environ["PATH_INFO"]
        if "CONTENT_LENGTH" in environ or "CONTENT_TYPE" in environ or not (path[:1] == "/" and path.isascii()):
            super().__init__(environ)
            return
        self.environ = self.META = environ
        self.path = self.path_info = path
        self.method = environ["REQUEST_METHOD"].upper()
        self.content_type, self.content_params = "", {}
        self._stream = BytesIO()
        self._read_started = False
        self.resolver_match = None


class Application(BaseHandler):
    """The middleware and the views. Nobody is told by signals that a request begins, for nobody listens."""

    def __init__(self) -> None:
        super().__init__()
        self.load_middleware()

    def __call__(self, environ: Environ) -> HttpResponseBase:
        """The response to a request, which whoever has sent it closes."""
        close_old_connections()
        request = Request(environ)
        response: HttpResponseBase = self._middleware_chain(request)  # type: ignore[attr-defined]  # not in the stubs
        if hasattr(request, "_files"):
            response._resource_closers.append(request.close)  # type: ignore[attr-defined]  # nor this
        return response
