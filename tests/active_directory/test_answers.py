"""The answers decoded in C against python-ldap's own, from a real domain controller and a server that misbehaves."""

import gc
import socket
import sys
import threading
from collections.abc import Callable, Iterator

import ldap
import pytest
from ldap.controls.libldap import SimplePagedResultsControl

from active_directory import Client
from active_directory.connections.connection import LdapObject, open_connection
from active_directory.streaming import EXTENDED_NAMES, SD_FLAGS, Values, answers_are_compiled, next_answer
from gateway import checks
from lab.directory import Directory

_ALL = ["*", "+"]
_SEARCHES = {
    "rootDSE": ("", ldap.SCOPE_BASE, "(objectClass=*)", ["namingContexts", "supportedControl"]),
    "every attribute": ("{unit}", ldap.SCOPE_SUBTREE, "(objectClass=*)", _ALL),
    "names alone": ("{unit}", ldap.SCOPE_SUBTREE, "(objectClass=*)", ["1.1"]),
    "more attributes than names are kept": ("{domain}", ldap.SCOPE_SUBTREE, "(objectClass=*)", _ALL),
    "the schema": ("CN=Schema,CN=Configuration,{domain}", ldap.SCOPE_ONELEVEL, "(cn=A*)", ["*"]),
    "nothing": ("{unit}", ldap.SCOPE_SUBTREE, "(cn=nobody)", _ALL),
    "values in part": ("{unit}", ldap.SCOPE_SUBTREE, "(member=*)", ["member;range=0-1"]),
}


@pytest.fixture
def people(directory: Directory, organizational_unit: str) -> str:
    """A unit with values of every make: empty, long, not ASCII, many, octets, names."""
    users = [directory.add_user(parent=organizational_unit, displayName="Jörg Möller 東京") for _ in range(3)]
    directory.modify(users[0], jpegPhoto=bytes(range(256)) * 40, otherTelephone=["1", "2", "3"])
    directory.add_group(parent=organizational_unit, members=users)
    return organizational_unit


@pytest.fixture
def link(client: Client) -> Iterator[LdapObject]:
    connection = open_connection(client.settings.urls[0], client.settings, 30)
    yield connection.ldap
    connection.close()


def _theirs(link: LdapObject, message: int) -> tuple[list[tuple[str, Values]], list[str]]:
    _, rows, _, controls = link.result3(message, timeout=30)
    return [(dn, values) for dn, values in rows if dn is not None], [control.controlType for control in controls]


def test_it_is_compiled_where_the_tests_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers_are_compiled()
    assert checks.check_answers() == []
    monkeypatch.setattr(checks, "answers_are_compiled", lambda: False)
    assert [warning.id for warning in checks.check_answers()] == ["gateway.W002"]


@pytest.mark.parametrize("search", _SEARCHES.values(), ids=_SEARCHES)
def test_answers_are_those_of_python_ldap(
    search: tuple[str, int, str, list[str]], client: Client, link: LdapObject, people: str
) -> None:
    base, *rest = search
    asked = (base.format(unit=people, domain=client.settings.base_dn), *rest)
    for controls in ([], [SD_FLAGS], [EXTENDED_NAMES], [SimplePagedResultsControl(True, size=2, cookie="")]):
        rows, end = next_answer(link, link.search_ext(*asked, serverctrls=controls), 30, whole=True)
        expected, its_controls = _theirs(link, link.search_ext(*asked, serverctrls=controls))
        found = list(rows)
        assert found == expected
        assert [list(values) for _, values in found] == [list(values) for _, values in expected]
        assert end is not None
        assert [control.controlType for control in end] == its_controls


def test_entries_come_one_by_one(link: LdapObject, people: str) -> None:
    message = link.search_ext(people, ldap.SCOPE_SUBTREE, "(objectClass=*)", ["cn"])
    found, end = [], None
    while end is None:
        rows, end = next_answer(link, message, 30, whole=False)
        row = list(rows)
        assert len(row) == (0 if end is not None else 1)
        found += row
    assert len(found) == 5
    assert end == []


def test_a_cookie_leads_to_the_next_page(link: LdapObject, people: str) -> None:
    page, names = SimplePagedResultsControl(True, size=2, cookie=""), []
    while True:
        message = link.search_ext(people, ldap.SCOPE_SUBTREE, "(objectClass=*)", ["cn"], serverctrls=[page])
        rows, end = next_answer(link, message, 30, whole=True)
        names += [dn for dn, _ in rows]
        assert end is not None
        page.cookie = end[0].cookie
        if not page.cookie:
            break
    assert len(set(names)) == len(names) == 5


@pytest.mark.parametrize(
    "base",
    [
        "OU=missing,{unit}",
        "<GUID=00000000-0000-0000-0000-000000000001>",
        "no name",
        "DC=elsewhere,DC=example",
    ],
)
def test_refusals_are_those_of_python_ldap(base: str, link: LdapObject, people: str) -> None:

    def refusal(receive: Callable[[int], object]) -> ldap.LDAPError:
        message = link.search_ext(base.format(unit=people), ldap.SCOPE_SUBTREE, "(cn=*)", ["cn"])
        with pytest.raises(ldap.LDAPError) as caught:
            receive(message)
        return caught.value

    mine = refusal(lambda message: next_answer(link, message, 30, whole=True))
    theirs = refusal(lambda message: link.result3(message, timeout=30))
    assert type(mine) is type(theirs)
    assert mine.args[0] == {
        name: value for name, value in theirs.args[0].items() if name in ("result", "desc", "info", "matched")
    }


@pytest.fixture
def deaf_server() -> Iterator[tuple[str, socket.socket]]:
    """A server that takes connections; what it answers, and when, is the test's business."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"ldap://127.0.0.1:{listening.getsockname()[1]}", listening


def test_silence_and_a_closed_connection_are_told_apart(deaf_server: tuple[str, socket.socket]) -> None:
    url, listening = deaf_server
    link = ldap.initialize(url)
    message = link.search_ext("", ldap.SCOPE_BASE, "(objectClass=*)", ["*"])
    taken, _ = listening.accept()
    with pytest.raises(ldap.TIMEOUT):
        next_answer(link, message, 0.05, whole=True)
    taken.close()
    with pytest.raises(ldap.SERVER_DOWN):
        next_answer(link, message, 30, whole=True)


def test_a_search_that_is_cut_off_says_so(deaf_server: tuple[str, socket.socket]) -> None:
    url, listening = deaf_server
    link = ldap.initialize(url)
    message = link.search_ext("", ldap.SCOPE_BASE, "(objectClass=*)", ["*"])
    taken, _ = listening.accept()
    with taken:
        taken.sendall(b"\x30\x10\x02\x01\x01\x65\x0b\x0a\x01\x04\x04\x01\x78\x04\x03no\xff")
        with pytest.raises(ldap.SIZELIMIT_EXCEEDED) as caught:
            next_answer(link, message, 30, whole=True)
    assert caught.value.args[0] == {"result": 4, "desc": "Size limit exceeded", "matched": "x", "info": "no\ufffd"}


@pytest.mark.parametrize(
    "entry",
    [
        b"\x30\x0f\x02\x01\x01\x64\x0a\x04\x04cn=a\x30\x02\x30\x7f",  # an attribute longer than the message
        b"\x30\x0b\x02\x01\x01\x64\x06\x04\x04\xff\xff\xff\xff",  # a name that is no UTF-8, and no attributes
        b"\x30\x19\x02\x01\x01\x64\x14\x04\x04cn=a\x30\x0c\x30\x0a\x04\x02\xff\xfe\x31\x04\x04\x02ok",  # such a type
        b"\x30\x05\x02\x01\x01\x64\x00",  # an entry with nothing in it
    ],
)
def test_what_no_server_sends_is_an_error(entry: bytes, deaf_server: tuple[str, socket.socket]) -> None:
    url, listening = deaf_server
    link = ldap.initialize(url)
    message = link.search_ext("", ldap.SCOPE_BASE, "(objectClass=*)", ["*"])
    taken, _ = listening.accept()
    with taken:
        taken.sendall(entry + b"\x30\x0c\x02\x01\x01\x65\x07\x0a\x01\x00\x04\x00\x04\x00")
        with pytest.raises((ldap.DECODING_ERROR, ldap.SERVER_DOWN)):
            list(next_answer(link, message, 5, whole=True)[0])


_ENTRY = b"\x30\x0d\x02\x01\x01\x64\x08\x04\x04cn=a\x30\x00"


@pytest.mark.parametrize("code", [ldap.UNAVAILABLE.errnum, 0])
def test_a_notice_of_disconnection_does_not_end_a_search_well(
    code: int, deaf_server: tuple[str, socket.socket]
) -> None:
    url, listening = deaf_server
    link = ldap.initialize(url)
    message = link.search_ext("", ldap.SCOPE_BASE, "(objectClass=*)", ["*"])
    taken, _ = listening.accept()
    notice = b"\x0a\x01%c\x04\x00\x04\x00\x8a\x161.3.6.1.4.1.1466.20036" % code
    with taken:
        taken.sendall(_ENTRY + b"\x30\x24\x02\x01\x00\x78\x1f" + notice)
        assert list(next_answer(link, message, 30, whole=False)[0]) == [("cn=a", {})]
        with pytest.raises((ldap.UNAVAILABLE, ldap.SERVER_DOWN)):
            next_answer(link, message, 30, whole=False)


@pytest.mark.parametrize(
    "control",
    [
        b"\x04\x02\xff\xfe",  # whose name is no text
        b"\x04\x161.2.840.113556.1.4.319",  # of pages, without a value
    ],
)
def test_a_control_that_no_server_sends_is_an_error(control: bytes, deaf_server: tuple[str, socket.socket]) -> None:
    url, listening = deaf_server
    link = ldap.initialize(url)
    message = link.search_ext("", ldap.SCOPE_BASE, "(objectClass=*)", ["*"])
    taken, _ = listening.accept()
    with taken:
        sequence = b"\x30%c" % len(control) + control
        controls = b"\xa0%c" % len(sequence) + sequence
        answer = b"\x02\x01\x01\x65\x07\x0a\x01\x00\x04\x00\x04\x00" + controls
        taken.sendall(b"\x30%c" % len(answer) + answer)
        with pytest.raises(ldap.DECODING_ERROR):
            next_answer(link, message, 30, whole=True)


def test_a_connection_closed_between_entries_is_an_error(client: Client, people: str) -> None:
    connection = open_connection(client.settings.urls[0], client.settings, 30)
    message = connection.ldap.search_ext(people, ldap.SCOPE_SUBTREE, "(objectClass=*)", ["cn"])
    rows = iter(next_answer(connection.ldap, message, 30, whole=True)[0])
    assert next(rows)[0]
    connection.close()
    with pytest.raises(ldap.DECODING_ERROR):
        next(rows)


def test_nothing_of_an_answer_is_kept(link: LdapObject, people: str) -> None:
    """Names are shared among the entries of an answer; afterwards nobody has them."""

    def search() -> None:
        asked = people, ldap.SCOPE_SUBTREE, "(objectClass=*)", _ALL
        list(next_answer(link, link.search_ext(*asked), 30, whole=True)[0])
        next(iter(next_answer(link, link.search_ext(*asked), 30, whole=True)[0]))  # the others are never made
        with pytest.raises(ldap.NO_SUCH_OBJECT):
            next_answer(link, link.search_ext(f"CN=x,{people}", ldap.SCOPE_BASE), 30, whole=True)

    for _ in range(3):
        search()
    grown = []
    for _ in range(3):  # other threads of this process allocate, too, but not every time
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(50):
            search()
        gc.collect()
        grown.append(sys.getallocatedblocks() - before)
    assert min(grown) < 50


def test_others_go_on_while_an_answer_is_awaited(deaf_server: tuple[str, socket.socket]) -> None:
    url, listening = deaf_server
    link = ldap.initialize(url)
    message = link.search_ext("", ldap.SCOPE_BASE, "(objectClass=*)", ["*"])
    taken, _ = listening.accept()
    answer = b"\x30\x0c\x02\x01\x01\x65\x07\x0a\x01\x00\x04\x00\x04\x00"
    # Would never be sent if the wait kept the interpreter to itself.
    threading.Timer(0.05, taken.sendall, [answer]).start()
    with taken:
        rows, end = next_answer(link, message, 120, whole=True)
        assert (list(rows), end) == ([], [])
