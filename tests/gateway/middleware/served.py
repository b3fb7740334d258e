"""The views of these tests as the application that a real server runs."""

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

django.setup()
settings.ROOT_URLCONF = "tests.gateway.middleware.urls"
application = WSGIHandler()
