"""How a deleted object is made live again: one request where a server follows the documents, another where it does not.

Windows, and what else a server may answer, by a fake where python-ldap's connection would be.
"""

import itertools
import socket
from typing import Any

import ldap
import pytest

from active_directory import Client, Modification, ServerSettings, UnwillingToPerform, VersionConflict
from active_directory.connections.connection import Connection
from active_directory.streaming import SHOW_DEACTIVATED_LINKS, SHOW_DELETED
from active_directory.writes import reanimate

DELETED = "CN=Ada\\0ADEL:6cf5370a-b54d-45bb-81c5-d49a165a45ca,CN=Deleted Objects,DC=corp"
LIVE = "CN=Ada,OU=Staff,DC=corp"
Steps = list[tuple[int, str, list[bytes] | None]]


class Link:
    """A connection to a server that answers modifies with these, one after the other, and has one deleted object."""

    def __init__(self, *answers: ldap.LDAPError | None, **attributes: list[bytes]) -> None:
        self.sent: list[Steps] = []
        self.controls: list[list[Any]] = []
        self._answers = iter(answers)
        self._attributes = attributes
        self._ids = itertools.count(1)
        self._reads: set[int] = set()

    def modify_ext(self, dn: str, steps: Steps, *, serverctrls: list[Any]) -> int:
        assert dn == DELETED
        self.sent.append(steps)
        self.controls.append(serverctrls)
        return next(self._ids)

    def search_ext(self, base: str, *_: Any, serverctrls: list[Any], **__: Any) -> int:
        assert base == DELETED
        assert SHOW_DELETED in serverctrls
        assert SHOW_DEACTIVATED_LINKS in serverctrls
        message = next(self._ids)
        self._reads.add(message)
        return message

    def result3(self, message: int, all: int = 1, timeout: float = -1) -> tuple[int, list[Any], int, list[Any]]:
        if message in self._reads:
            return ldap.RES_SEARCH_RESULT, [(DELETED, dict(self._attributes))], message, []
        answer = next(self._answers)
        if answer is not None:
            raise answer
        return ldap.RES_MODIFY, [], message, []

    def search_ext_s(self, *_: object, **__: object) -> list[Any]:
        return []

    def unbind_ext_s(self) -> None:
        pass


def client_of(link: Link) -> Client:
    quiet, _keep = socket.socketpair()

    def opener(url: str, settings: ServerSettings, seconds: float) -> Connection:
        connection = Connection(link, url, quiet.fileno())
        connection.quiet = quiet, _keep  # type: ignore[attr-defined]
        return connection

    return Client(ServerSettings(("ldaps://dc.test",), "DC=corp", "CN=x", "x"), opener)


def refusal(kind: type[ldap.LDAPError], result: int, info: str) -> ldap.LDAPError:
    return kind({"result": result, "desc": kind.__name__, "info": info})


NO_RECYCLED = refusal(
    ldap.NO_SUCH_ATTRIBUTE, 16, f"attribute 'isRecycled': no such attribute for delete on '{DELETED}'"
)
STANDARD: Steps = [
    (ldap.MOD_DELETE, "isDeleted", None),
    (ldap.MOD_REPLACE, "distinguishedName", [LIVE.encode()]),
    (ldap.MOD_REPLACE, "title", [b"Analyst"]),
]
WRITE = reanimate(DELETED, LIVE, [Modification("replace", "title", (b"Analyst",))])


def test_as_documented() -> None:
    link = Link(None, accountExpires=[b"0"], pwdLastSet=[b"5"])
    client_of(link).write(WRITE)
    assert link.sent == [STANDARD], "one request, and nothing in it that Windows would refuse"
    assert SHOW_DELETED in link.controls[0]


def test_a_server_that_stumbles_over_its_own_request() -> None:
    link = Link(NO_RECYCLED, None, accountExpires=[b"9"], badPwdCount=[b"0"], pwdLastSet=[b"5"])
    client_of(link).write(WRITE)
    assert link.sent[0] == STANDARD
    assert link.sent[1] == [
        (ldap.MOD_ADD, "isRecycled", [b"TRUE"]),
        *STANDARD,
        (ldap.MOD_REPLACE, "accountExpires", [b"9"]),
        (ldap.MOD_REPLACE, "badPwdCount", [b"0"]),
        (ldap.MOD_REPLACE, "adminCount", None),
        (ldap.MOD_REPLACE, "operatorCount", None),
        (ldap.MOD_REPLACE, "pwdLastSet", [b"0"]),
    ]


def test_it_is_said_otherwise_once() -> None:
    link = Link(NO_RECYCLED, NO_RECYCLED)
    with pytest.raises(Exception, match="isRecycled"):
        client_of(link).write(WRITE)
    assert len(link.sent) == 2


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        # ERROR_DS_ILLEGAL_MOD_OPERATION: Windows, of a recycled object.
        (refusal(ldap.UNWILLING_TO_PERFORM, 53, "00002077: SvcErr: DSID-031A1236, problem 5003"), UnwillingToPerform),
        (
            refusal(ldap.NO_SUCH_OBJECT, 32, "0000208D: NameErr: DSID-03152D1A, problem 2001 (NO_OBJECT)"),
            VersionConflict,
        ),
        (refusal(ldap.NO_SUCH_ATTRIBUTE, 16, "00002085: AtrErr: DSID-030F1083, Att 20030 (isDeleted)"), Exception),
    ],
)
def test_other_refusals_are_final(answer: ldap.LDAPError, meaning: type[Exception]) -> None:
    link = Link(answer)
    with pytest.raises(meaning):
        client_of(link).write(WRITE)
    assert len(link.sent) == 1
