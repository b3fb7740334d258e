"""What people call things: objects and places by their distinguished names, browsers by what they say of themselves."""

import re

from django.utils.translation import gettext as _

from directory.shapes.wording.names import common_name, parsed, place

__all__ = ["client_name", "common_name", "parsed", "place"]

# The first that is found in a User-Agent header: others claim to be Chrome and Safari too.
_BROWSERS = (("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("Chrome", "Chrome"), ("Safari", "Safari"))
_SYSTEMS = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iPadOS"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def client_name(user_agent: str) -> str:
    """A User-Agent header as people know their browsers ("Firefox on Linux"); else its first product."""
    browser = next((name for token, name in _BROWSERS if f"{token}/" in user_agent), None)
    system = next((name for token, name in _SYSTEMS if token in user_agent), None)
    if browser is None:
        return re.split(r"[/ ]", user_agent, maxsplit=1)[0] or _("Unknown")
    return _("{browser} on {system}").format(browser=browser, system=system) if system else browser
