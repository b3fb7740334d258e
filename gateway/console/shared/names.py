"""What people call things: objects and places by their distinguished names, browsers by what they say of themselves."""

import re

from directory.ldap import DistinguishedName, InvalidValue


def common_name(distinguished_name: str | None) -> str:
    """What people call an object: the value of its first name part."""
    name = parsed(distinguished_name)
    return name.rdn_value if name is not None and name.rdns else (distinguished_name or "")


def parsed(distinguished_name: str | None) -> DistinguishedName | None:
    try:
        return DistinguishedName.parse(distinguished_name or "")
    except InvalidValue:  # a log shows what was asked for, which need not be a name
        return None


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
        return re.split(r"[/ ]", user_agent, maxsplit=1)[0] or "Unknown"
    return f"{browser} on {system}" if system else browser
