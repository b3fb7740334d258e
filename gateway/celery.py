"""The Celery application: `celery -A gateway worker`."""

import os
import sys
from importlib import import_module

from celery import Celery
from celery.signals import worker_init, worker_ready

from core.redis import broker_transport
from gateway.monitoring import metrics_folder
from gateway.monitoring.heartbeats import Heartbeats, Pause, PrimaryWatch
from gateway.monitoring.measured_tasks import MeasuredTask
from gateway.monitoring.schedule import SweepStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

# Celery puts the folder that it is started in before all others. Who can write there would decide what `keys` is.
_path = sys.path.copy()
app = Celery("gateway", task_cls=MeasuredTask)
sys.path[:] = _path
broker_transport.register()
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["gateway"])
app.autodiscover_tasks(["gateway"], related_name="run_tasks")
app.steps["consumer"].add(SweepStep)
app.steps["consumer"].add(Heartbeats)
app.steps["consumer"].add(PrimaryWatch)
app.steps["consumer"].add(Pause)


@worker_init.connect
def _measure(**_: object) -> None:
    """Before the worker's processes are forked, so that all of them count in its folder."""
    metrics_folder.use_for_worker()
    import_module("gateway.monitoring.metrics")


@worker_ready.connect
def _answer_prometheus(**_: object) -> None:
    import_module("gateway.monitoring.worker_endpoint").serve()
