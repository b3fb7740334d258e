"""Django's application as the server calls it, without WSGI between them; the threads of the server run it."""

import gc
import os
from importlib import import_module
from io import BytesIO

import django
from django.conf import settings
from django.core.cache import close_caches
from django.core.handlers.base import BaseHandler, reset_urlconf
from django.core.handlers.wsgi import WSGIRequest
from django.core.signals import request_finished
from django.db import close_old_connections
from django.http import HttpResponseBase
from django.urls import get_resolver

from gateway.server.environ import Environ

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
django.setup(set_prefix=False)


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


application = Application()
# Django would import them with the first request, which took a second and a half longer for it.
get_resolver().url_patterns  # noqa: B018 - importing is what reading them does
if settings.CONFIGURATION.Agents.Enabled:
    import_module("gateway.surfaces.agent.protocol")

# What Django would do for each request when it is closed: our cache has nothing to close, database connections are
# looked after when the next request begins, and there is one list of addresses.
request_finished.disconnect(close_caches)
request_finished.disconnect(close_old_connections)
request_finished.disconnect(reset_urlconf)

# What is loaded now stays: the collector need not look through it again with every few hundred requests.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 50, 50)
