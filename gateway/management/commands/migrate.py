"""`manage.py migrate`: Django's own; what changed since the last migration is detected as by `makemigrations`.

Then it creates the permissions that models declare, which need no migration.
"""

from typing import Any

from django.core.management.commands import migrate
from django.db.models.signals import post_migrate

from gateway.management.migrations import Autodetector, create_declared_permissions


class Command(migrate.Command):
    autodetector = Autodetector

    def handle(self, *args: Any, **options: Any) -> None:
        post_migrate.connect(create_declared_permissions)
        super().handle(*args, **options)
