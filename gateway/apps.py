"""The gateway itself as a Django app: kept answers, management commands, and operations about itself."""

from importlib import import_module

import structlog
from django.apps import AppConfig
from django.conf import settings
from django.contrib.admin import apps as admin

from gateway.core import database_sessions, shared_clock
from gateway.core.redis_urls import redis_warning

_logger = structlog.stdlib.get_logger(__name__)


class BackOfficeConfig(admin.AdminConfig):
    """Django admin with a site of our own."""

    default = False
    default_site = "gateway.back_office.BackOffice"


class GatewayConfig(AppConfig):
    name = "gateway"
    default = True

    def ready(self) -> None:
        """Declare the app's operations: importing their modules fills the registry. Tell of what is careless."""
        import_module("gateway.operations")
        import_module("gateway.checks")
        shared_clock.watch()
        database_sessions.watch()
        if not settings.DEVELOPMENT and (careless := redis_warning(settings.REDIS_URL)):
            _logger.warning(careless)
