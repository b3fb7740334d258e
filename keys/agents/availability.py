"""Whether agents can be served: the setting must be on, and the SDK of their protocol (an extra) be installed.

The server uses this before Django is set up, so the module imports no models.
"""

import sys
from importlib.util import find_spec

from django.conf import settings

from core.errors import GatewayError, NotFound

_IS_INSTALLED = find_spec("mcp") is not None


class AgentsNotInstalled(GatewayError):
    """Agents are enabled but cannot be served; `gateway check` says how to install what is missing."""

    status, code = 501, "Agents.NotInstalled"
    title = "Agents are switched on, but this gateway was installed without what they need"


def require_agents() -> None:
    """Raise NotFound if agents are disabled, AgentsNotInstalled if this host lacks the SDK."""
    if not settings.CONFIGURATION.Agents.Enabled:
        raise NotFound
    if not _IS_INSTALLED:
        raise AgentsNotInstalled


def install_command() -> str | None:
    """The command that installs what agents need; None if they are disabled or nothing is missing."""
    if _IS_INSTALLED or not settings.CONFIGURATION.Agents.Enabled:
        return None
    return f"{sys.prefix}/bin/pip install --require-hashes -r requirements-agents.txt"
