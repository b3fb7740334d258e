"""The Django project: settings and server, surfaces, the pipeline of every call, monitoring, management commands."""

from gateway.celery import app as celery_app

__all__ = ["celery_app"]
