"""The views of these tests as the application that a real server runs."""

import os

import django
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
django.setup()
settings.ROOT_URLCONF = "tests.gateway.middleware.urls"

from gateway.server.asgi import DjangoApplication, RequestGateway  # noqa: E402 - after Django is set up

application = RequestGateway(DjangoApplication())
