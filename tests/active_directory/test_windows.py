"""What Windows does and Samba does not, by a fake where python-ldap's connection would be: result and range limits."""

import itertools
import socket
from collections.abc import Iterator
from typing import Any

import ldap
import pytest
from ldap.controls.libldap import SimplePagedResultsControl

from active_directory import Client, LimitExceeded, Scope, ServerSettings
from active_directory.connections.connection import Connection

MAX_PAGE_SIZE, MAX_VALUES = 1000, 1500
Row = tuple[str | None, dict[str, list[bytes]]]


class WindowsLink:
    """A connection to a domain controller that has many entries, each a group with many members."""

    def __init__(self, entries: int, members: int = 0, *, pages: bool = True) -> None:
        self.entries = [f"CN={number},DC=corp" for number in range(entries)]
        self.members = [f"CN=m{number},DC=corp".encode() for number in range(members)]
        self.pages = pages
        self.abandoned: list[int] = []
        self._answers: dict[int, Iterator[tuple[int, list[Row], list[Any]]]] = {}
        self._ids = itertools.count(1)

    def search_ext(
        self,
        base: str,
        scope: int,
        filterstr: str,
        attrlist: list[str],
        *,
        serverctrls: list[Any],
        timeout: int = -1,
        sizelimit: int = 0,
    ) -> int:
        message = next(self._ids)
        page = next((c for c in serverctrls if isinstance(c, SimplePagedResultsControl)), None)
        if scope == ldap.SCOPE_BASE:
            self._answers[message] = iter([(ldap.RES_SEARCH_RESULT, [(base, self._values(attrlist))], [])])
        elif page is None:
            self._answers[message] = self._capped(attrlist, sizelimit or MAX_PAGE_SIZE)
        else:
            self._answers[message] = self._page(attrlist, page)
        return message

    def result3(self, message: int, all: int = 1, timeout: float = -1) -> tuple[int, list[Row], int, list[Any]]:
        kind, rows, controls = next(self._answers[message])
        return kind, rows, message, controls

    def abandon(self, message: int) -> None:
        self.abandoned.append(message)

    def search_ext_s(self, *_: object, **__: object) -> list[Row]:
        return []

    def unbind_ext_s(self) -> None:
        pass

    def _capped(self, names: list[str], limit: int) -> Iterator[tuple[int, list[Row], list[Any]]]:
        for dn in self.entries[: min(limit, MAX_PAGE_SIZE)]:
            yield ldap.RES_SEARCH_ENTRY, [(dn, self._values(names))], []
        yield ldap.RES_SEARCH_REFERENCE, [(None, {})], []
        if len(self.entries) > min(limit, MAX_PAGE_SIZE):
            raise ldap.SIZELIMIT_EXCEEDED({"result": 4, "desc": "Size limit exceeded"})
        yield ldap.RES_SEARCH_RESULT, [], []

    def _page(self, names: list[str], page: SimplePagedResultsControl) -> Iterator[tuple[int, list[Row], list[Any]]]:
        if not self.pages:
            raise ldap.SIZELIMIT_EXCEEDED({"result": 4, "desc": "Size limit exceeded"})
        start = int(page.cookie or b"0")
        end = start + min(page.size, MAX_PAGE_SIZE)
        for dn in self.entries[start:end]:
            yield ldap.RES_SEARCH_ENTRY, [(dn, self._values(names))], []
        cookie = str(end).encode() if end < len(self.entries) else b""
        yield ldap.RES_SEARCH_RESULT, [], [SimplePagedResultsControl(True, size=0, cookie=cookie)]

    def _values(self, names: list[str]) -> dict[str, list[bytes]]:
        values: dict[str, list[bytes]] = {"cn": [b"x"]}
        if not self.members:
            return values
        start = 0
        for name in names:
            if name.startswith("member;range="):
                start = int(name.partition("=")[2].partition("-")[0])
        end = start + MAX_VALUES
        if start == 0 and end >= len(self.members):
            return values | {"member": list(self.members)}
        last = "*" if end >= len(self.members) else str(end - 1)
        if start == 0:
            values["member"] = []  # Windows returns the plain name too, empty
        return values | {f"member;range={start}-{last}": self.members[start:end]}


def client_of(link: WindowsLink) -> Client:
    quiet, _keep = socket.socketpair()

    def opener(url: str, settings: ServerSettings, seconds: float) -> Connection:
        connection = Connection(link, url, quiet.fileno())
        connection.quiet = quiet, _keep  # type: ignore[attr-defined]
        return connection

    return Client(ServerSettings(("ldaps://dc.test",), "DC=corp", "CN=x", "x"), opener)


@pytest.mark.parametrize("entries", [0, 1, 999, 1000, 1001, 2500])
def test_all_entries_come_exactly_once(entries: int) -> None:
    found = client_of(WindowsLink(entries)).search("DC=corp", Scope.SUBTREE)
    assert [entry.dn for entry in found] == [f"CN={number},DC=corp" for number in range(entries)]


@pytest.mark.parametrize("limit", [1, 999, 1000, 1001, 1700])
def test_a_limit_holds_across_pages(limit: int) -> None:
    client = client_of(WindowsLink(2500))
    found = [entry.dn for entry in client.search("DC=corp", Scope.SUBTREE, limit=limit)]
    assert found == [f"CN={number},DC=corp" for number in range(limit)]


def test_a_limit_the_server_insists_on_is_no_end() -> None:
    with pytest.raises(LimitExceeded):
        list(client_of(WindowsLink(2500, pages=False)).search("DC=corp", Scope.SUBTREE))


def test_a_search_given_up_is_abandoned() -> None:
    link = WindowsLink(2500)
    found = client_of(link).search("DC=corp", Scope.SUBTREE)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert link.abandoned == [1]


@pytest.mark.parametrize("members", [1, 1499, 1500, 1501, 3000, 10_000])
def test_ranged_attributes_are_fetched_whole(members: int) -> None:
    link = WindowsLink(3, members)
    client = client_of(link)
    for entry in (client.read("CN=0,DC=corp", ["cn", "member"]), *client.search("DC=corp", Scope.SUBTREE)):
        assert entry.values("member") == link.members
        assert set(entry) == {"cn", "member"}
