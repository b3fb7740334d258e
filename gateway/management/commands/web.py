"""`gateway web`: the web server, until it is told to end (SIGTERM lets it answer what it has begun)."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from gateway.management.process_replacement import become
from gateway.server.commands import web_command


class Command(BaseCommand):
    """Becomes granian with the options that the gateway needs."""

    help = "Run the web server. It speaks plain HTTP: a proxy with TLS stands in front of it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
        parser.add_argument("--port", default=8000, type=int, help="its port (8000)")
        parser.add_argument("--processes", default=2, type=int, help="one for each processor is a good choice (2)")

    def handle(self, *args: Any, **options: Any) -> None:
        become(web_command(host=options["host"], port=options["port"], workers=options["processes"]))
