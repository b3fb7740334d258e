"""The WSGI application that granian serves."""

import gc
import os
from importlib import import_module

import django
from django.conf import settings
from django.core.cache import close_caches
from django.core.handlers.base import reset_urlconf
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, reset_queries
from django.http import HttpRequest, HttpResponse
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
django.setup(set_prefix=False)


class Handler(WSGIHandler):
    """Django's, which would also choose among lists of addresses and log every refusal: one list is all there is, and
    the access line tells of refusals.
    """

    def get_response(self, request: HttpRequest) -> HttpResponse:
        response: HttpResponse = self._middleware_chain(request)  # type: ignore[attr-defined]  # the stubs leave it out
        response._resource_closers.append(request.close)  # type: ignore[attr-defined]  # nor this
        return response


application = Handler()
# Django would import them with the first request, which took a second and a half longer for it.
get_resolver().url_patterns  # noqa: B018 - importing is what reading them does
if settings.CONFIGURATION.Agents.Enabled:
    import_module("gateway.surfaces.agent.protocol")

# What Django would do for each request: our cache has nothing to close, database connections are looked after when the
# next request begins, queries are not kept to be shown, and there is one list of addresses.
request_finished.disconnect(close_caches)
request_finished.disconnect(close_old_connections)
request_finished.disconnect(reset_urlconf)
request_started.disconnect(reset_queries)

# What is loaded now stays: the collector need not look through it again with every few hundred requests.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 50, 50)
