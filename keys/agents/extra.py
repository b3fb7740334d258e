"""What letting agents in takes: the setting, and the SDK of their protocol, which is an extra of the wheel."""

import sys
from importlib.util import find_spec
from typing import Final

from django.conf import settings

from core.errors import GatewayError, NotFound

_IS_INSTALLED: Final = find_spec("mcp") is not None


class AgentsNotInstalled(GatewayError):
    """Agents are wanted, and cannot be served: `gateway check` says how to install what they need."""

    status, code = 501, "Agents.NotInstalled"
    title = "Agents are switched on, but this gateway was installed without what they need"


def require_agents() -> None:
    """Raises NotFound where agents are switched off, AgentsNotInstalled where this host lacks what they need."""
    if not settings.CONFIGURATION.Agents.Enabled:
        raise NotFound
    if not _IS_INSTALLED:
        raise AgentsNotInstalled


def how_to_install() -> str | None:
    """The command that installs what agents need; None where they are switched off, or need nothing more."""
    if _IS_INSTALLED or not settings.CONFIGURATION.Agents.Enabled:
        return None
    return f"{sys.prefix}/bin/pip install --require-hashes -r requirements-agents.txt"
