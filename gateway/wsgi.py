"""The WSGI application that granian serves."""

import gc
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
application = get_wsgi_application()

# What is loaded now stays: the collector need not look through it again with every few hundred requests.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 50, 50)
