"""`gateway web`: run the web server (SIGTERM lets it finish its current requests)."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway.server.commands import become, web_command


class Command(BaseCommand):
    """Becomes granian with the options that the gateway needs."""

    help = (
        "Run the web server, for a proxy with TLS in front of it. It speaks plain HTTP, and TLS where "
        "Web:CertificateFile and Web:KeyFile are set: for a proxy on another host."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", help="address to listen at (Web:Host, 127.0.0.1)")
        parser.add_argument("--port", default=8000, type=int, help="its port (8000)")
        parser.add_argument("--processes", default=2, type=int, help="one for each processor is a good choice (2)")

    def handle(self, *args: Any, **options: Any) -> None:
        web = settings.CONFIGURATION.Web
        host, port = options["host"] or web.Host, options["port"]
        become(web_command(host=host, port=port, workers=options["processes"], certificate=_certificate()))


def _certificate() -> list[str]:
    """The certificate and key files for TLS, if configured; raises CommandError for one that cannot be read."""
    web = settings.CONFIGURATION.Web
    named = {"Web:CertificateFile": web.CertificateFile, "Web:KeyFile": web.KeyFile}
    if not any(named.values()):
        return []
    for name, file in named.items():
        if not file:
            raise CommandError(f"{name} is missing: TLS needs a certificate and its key")
        try:
            Path(file).read_bytes()
        except OSError as error:
            raise CommandError(f"{name}={file}: {error.strerror}") from None
    return [str(Path(file).absolute()) for file in named.values()]
