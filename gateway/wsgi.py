"""The WSGI application that granian serves."""

import gc
import os
from importlib import import_module

from django.conf import settings
from django.core.cache import close_caches
from django.core.signals import request_finished
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
application = get_wsgi_application()
# Django would import them with the first request, which took a second and a half longer for it.
get_resolver().url_patterns  # noqa: B018 - importing is what reading them does
if settings.CONFIGURATION.Agents.Enabled:
    import_module("gateway.surfaces.agent.protocol")

# What Django would do after each request: our cache has nothing to close, and database connections are looked after
# when the next request begins.
request_finished.disconnect(close_caches)
request_finished.disconnect(close_old_connections)

# What is loaded now stays: the collector need not look through it again with every few hundred requests.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 50, 50)
