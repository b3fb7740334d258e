"""The gateway itself as a Django app: idempotency records, management commands and checks."""

from importlib import import_module

import structlog
from django.apps import AppConfig
from django.conf import settings
from django.contrib.admin import apps as admin
from oauth2_provider.apps import DOTConfig

from core.database import sessions, shared_clock
from core.redis.urls import redis_warning

_logger = structlog.stdlib.get_logger(__name__)


class BackOfficeConfig(admin.AdminConfig):
    """Django admin with a site of our own."""

    default = False
    default_site = "gateway.back_office.BackOffice"


class OAuthToolkitConfig(DOTConfig):
    """The OAuth toolkit without its commands, which would change agents and their clients without a record."""

    path = "/nonexistent"
    """Where Django looks for its commands and templates."""


class GatewayConfig(AppConfig):
    name = "gateway"
    default = True

    def ready(self) -> None:
        """Register the system checks and the database watchers, and warn about an unprotected Redis."""
        import_module("gateway.checks")
        shared_clock.watch()
        sessions.watch()
        if not settings.DEVELOPMENT and (warning := redis_warning(settings.REDIS_URL)):
            _logger.warning(warning)
