"""Privileged Access Management, by what [MS-ADTS] says that Windows answers: Samba has no such feature.

What is read: `msDS-EnabledFeature` (3.1.1.9), the feature's GUID (3.1.1.9.2). What is sent: TTL-DNs (3.1.1.9.2).
"""

import itertools
import socket
from typing import Any
from uuid import UUID

import ldap
import pytest

from active_directory import Client, Modification, Modify, ServerSettings, has_expiring_links, is_recycle_bin_enabled
from active_directory.connections.connection import Connection

CONFIGURATION = "CN=Configuration,DC=corp,DC=test"
FEATURES = f"CN=Optional Features,CN=Directory Service,CN=Windows NT,CN=Services,{CONFIGURATION}"
RECYCLE_BIN = f"CN=Recycle Bin Feature,{FEATURES}"
PRIVILEGED = f"CN=Privileged Access Management Feature,{FEATURES}"
LINK_TTL = "1.2.840.113556.1.4.2309"


class Forest:
    """A connection to a forest in which these features are enabled."""

    def __init__(self, *enabled: str) -> None:
        self.sent: list[Any] = []
        self.controls: list[str] = []
        self._entries: dict[str, dict[str, list[bytes]]] = {
            "": {"configurationNamingContext": [CONFIGURATION.encode()]},
            f"CN=Partitions,{CONFIGURATION}": {"msDS-EnabledFeature": [name.encode() for name in enabled]},
            RECYCLE_BIN: {"msDS-OptionalFeatureGUID": [UUID("766ddcd8-acd0-445e-f3b9-a7f9b6744f2a").bytes_le]},
            PRIVILEGED: {"msDS-OptionalFeatureGUID": [UUID("ec43e873-cce8-4640-b4ab-07ffe4ab5bcd").bytes_le]},
        }
        self._answers: dict[int, list[Any]] = {}
        self._ids = itertools.count(1)

    def search_ext(self, base: str, *_: Any, serverctrls: list[Any], **__: Any) -> int:
        self.controls += [control.controlType for control in serverctrls]
        message = next(self._ids)
        self._answers[message] = [(base, dict(self._entries[base]))]
        return message

    def modify_ext(self, dn: str, steps: Any, *, serverctrls: list[Any]) -> int:
        self.sent += steps
        return next(self._ids)

    def result3(self, message: int, all: int = 1, timeout: float = -1) -> tuple[int, list[Any], int, list[Any]]:
        return ldap.RES_SEARCH_RESULT, self._answers.pop(message, []), message, []

    def search_ext_s(self, *_: object, **__: object) -> list[Any]:
        return []

    def unbind_ext_s(self) -> None:
        pass


def client_of(forest: Forest) -> Client:
    quiet, _keep = socket.socketpair()

    def opener(url: str, settings: ServerSettings, seconds: float) -> Connection:
        made = Connection(forest, url, quiet.fileno())
        made.quiet = quiet, _keep  # type: ignore[attr-defined]
        return made

    return Client(ServerSettings(("ldaps://dc.test",), "DC=corp", "CN=x", "x"), opener)


@pytest.mark.parametrize(
    ("enabled", "expiring", "bin"),
    [
        ((), False, False),
        ((RECYCLE_BIN,), False, True),
        ((PRIVILEGED,), True, False),
        ((RECYCLE_BIN, PRIVILEGED), True, True),
    ],
)
def test_which_features_are_enabled(enabled: tuple[str, ...], expiring: bool, bin: bool) -> None:
    forest = Forest(*enabled)
    client = client_of(forest)
    assert (has_expiring_links(client), is_recycle_bin_enabled(client)) == (expiring, bin)
    assert LINK_TTL not in forest.controls  # so that no read ever returns a TTL-DN


def test_only_new_members_get_a_time_to_live() -> None:
    forest = Forest(PRIVILEGED)
    ada, bob = b"CN=Ada\\, Countess,DC=corp", b"<GUID=6cf5370a-b54d-45bb-81c5-d49a165a45ca>"
    steps = (
        Modification("delete", "member", (bob,)),
        Modification("add", "Member", (ada, bob)),
        Modification("add", "description", (b"x",)),
    )
    client_of(forest).write(Modify("CN=Admins,DC=corp", steps, time_to_live=28_800))
    assert forest.sent == [
        (ldap.MOD_DELETE, "member", [bob]),
        (ldap.MOD_ADD, "Member", [b"<TTL=28800,%b>" % ada, b"<TTL=28800,%b>" % bob]),
        (ldap.MOD_ADD, "description", [b"x"]),
    ]
