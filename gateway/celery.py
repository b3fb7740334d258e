"""The Celery application: `celery -A gateway worker`."""

import os

from celery import Celery

from gateway.monitoring.heartbeats import Heartbeats
from gateway.monitoring.schedule import SweepStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

app = Celery("gateway")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["gateway", "directory"])
app.steps["consumer"].add(SweepStep)
app.steps["consumer"].add(Heartbeats)
