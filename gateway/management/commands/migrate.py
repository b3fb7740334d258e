"""`manage.py migrate`: Django's own; what changed since the last migration is judged as `makemigrations` does."""

from django.core.management.commands import migrate

from gateway.management.autodetector import Autodetector


class Command(migrate.Command):
    autodetector = Autodetector
