"""Django's application, with everything that requests need loaded before the first one arrives."""

import gc
import os
from importlib import import_module

import django
from django.conf import settings
from django.urls import get_resolver

from keys.agents.availability import install_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
django.setup(set_prefix=False)

from gateway.server.asgi import DjangoApplication  # noqa: E402 - after Django is set up

application = DjangoApplication()
# Django would import all views with the first request, which then takes a second and a half longer.
get_resolver().url_patterns  # noqa: B018 - importing is what reading them does
if settings.CONFIGURATION.Agents.Enabled and install_command() is None:
    import_module("gateway.surfaces.agent.protocol")

# What is loaded now lives as long as the process, so the garbage collector need not traverse it again and again. It
# makes a full round only once a quarter as many objects are new as it found in the last one: the second finds none.
gc.collect()
gc.freeze()
gc.collect()
