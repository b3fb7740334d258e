"""The Celery application: `celery -A gateway worker`."""

import os
import sys

from celery import Celery

from gateway.monitoring.heartbeats import Heartbeats
from gateway.monitoring.schedule import SweepStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

# Celery puts the folder that it is started in before all others. Who can write there would decide what `keys` is.
_path = sys.path.copy()
app = Celery("gateway")
sys.path[:] = _path
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["gateway", "directory"])
app.steps["consumer"].add(SweepStep)
app.steps["consumer"].add(Heartbeats)
