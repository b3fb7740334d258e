"""The gateway's application: Django, set up, with all that requests need loaded before the first."""

import gc
import os
from importlib import import_module

import django
from django.conf import settings
from django.urls import get_resolver

from gateway.server.application import Application
from keys.agents.extra import how_to_install

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
django.setup(set_prefix=False)

application = Application()
# Django would import them with the first request, which took a second and a half longer for it.
get_resolver().url_patterns  # noqa: B018 - importing is what reading them does
if settings.CONFIGURATION.Agents.Enabled and how_to_install() is None:
    import_module("gateway.surfaces.agent.protocol")

# What is loaded now stays: the collector need not look through it again with every few hundred requests.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 50, 50)
