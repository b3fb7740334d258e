"""`manage.py makemigrations`: Django's own; the migrations that it writes import nothing of the gateway's own code."""

from django.core.management.commands import makemigrations

from gateway.management.autodetector import Autodetector


class Command(makemigrations.Command):
    autodetector = Autodetector
