"""`dirgate login`: asks for the gateway's address and an API key, tries them, and keeps them."""

import getpass
import os
import sys

from dirgate.connection import Gateway, Settings, check_address, keep_settings
from dirgate.failures import Exit, Failure


def log_in() -> Exit:
    """Ask, try and keep. Without a terminal the address is GATEWAY_URL and the key a line of standard input."""
    interactive = sys.stdin.isatty()
    address = os.environ.get("GATEWAY_URL") or (_ask("The gateway's address: ") if interactive else "")
    if not address:
        raise Failure("The gateway's address is missing: set GATEWAY_URL.")
    address = check_address(address)
    key = getpass.getpass("API key: ") if interactive else sys.stdin.readline()
    if not key.strip():
        raise Failure("No API key was given; nothing was kept.")
    environment = os.environ
    settings = Settings(address, key.strip(), environment.get("GATEWAY_CLIENT_ID"), environment.get("GATEWAY_CA_FILE"))
    found = Gateway(settings).get("/api/me")
    file = keep_settings(settings)
    directory = found.get("directory") or {}
    print(f"You are {found['subject']['username']}, on {directory.get('name', 'no single directory')}. Kept in {file}.")
    return Exit.DONE


def _ask(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()
