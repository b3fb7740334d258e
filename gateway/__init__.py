"""The Django project: settings and server, surfaces, the pipeline of every call, monitoring, management commands."""

import gc

# Every process of the gateway begins here. Loading makes hardly any garbage, and with Python's own thresholds up to a
# tenth of the processor time of a start would go into looking for it.
gc.set_threshold(20_000, 50, 50)

from gateway.celery import app as celery_app  # noqa: E402 - loaded with these thresholds, as all the rest

__all__ = ["celery_app"]
