"""What values the keys of the configuration take."""

from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints


def _require_network(value: str) -> str:
    ip_network(value)  # refuses host bits in a block, which are usually a typing error
    return value


_TAKEN_SCHEMES = frozenset(
    "about blob data file ftp http https javascript ldap ldaps mailto smb tel vbscript view-source ws wss".split()
)
"""Browsers and their machines act on these themselves: they lead to no program that has asked for a sign-in."""


def _require_private(scheme: str) -> str:
    if scheme in _TAKEN_SCHEMES:
        raise ValueError("must be the scheme of a program of its own")
    return scheme


Network = Annotated[str, AfterValidator(_require_network)]
PositiveInt = Annotated[int, Field(gt=0)]
PositiveSeconds = Annotated[float, Field(gt=0, le=3600)]
AttributeName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]*$")]
LetterInAccountNames = Annotated[str, StringConstraints(pattern=r"^[^=A-Z]=[a-z0-9-]*$")]
"""A letter and how it is written: `ü=ue`."""
PrivateScheme = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9+.-]*$"), AfterValidator(_require_private)]
