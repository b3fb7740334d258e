"""Brings the German catalogue up to date with the sources and the declarations; `scripts/make-translations` runs it."""

import os
import sys
from pathlib import Path

import django
from django.core.management import call_command
from django.core.management.commands.makemessages import Command

PROJECT = Path(__file__).resolve().parent.parent
# Without texts of the console: they are not installed.
OTHERS = (".venv", "var", "bench", "clients", "demo", "deploy", "docs", "faults", "lab", "scripts", "tests")


class Texts(Command):
    """Django's command, which also collects `message("…")`."""

    xgettext_options = [*Command.xgettext_options, "--keyword=message"]


def main() -> None:
    """Update the catalogue; run it in the project's folder."""
    sys.path.insert(0, str(PROJECT))
    os.environ.setdefault("GATEWAY_ENVIRONMENT", "Development")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    django.setup()
    from console.shared.texts import registered_texts

    # xgettext only reads sources, so the texts of declarations become one for a moment.
    source = PROJECT / "console" / "_registered.py"
    source.write_text("".join(f"gettext_noop({text!r})\n" for text in sorted(set(registered_texts()))), "utf-8")
    try:
        ignored = [*OTHERS, "templates/admin"]
        call_command(Texts(), locale=["de"], no_location=True, no_wrap=True, no_obsolete=True, ignore_patterns=ignored)
    finally:
        source.unlink()


main()
