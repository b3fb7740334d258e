"""`manage.py makemigrations`: Django's own, but the migrations import none of the gateway's code."""

from django.core.management.commands import makemigrations

from gateway.management.migrations import Autodetector


class Command(makemigrations.Command):
    autodetector = Autodetector
