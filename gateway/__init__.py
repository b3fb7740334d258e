"""The Django project: settings, pipeline, surfaces, and the core that every app builds on."""

from gateway.celery import app as celery_app

__all__ = ["celery_app"]
