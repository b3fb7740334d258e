"""Answers that no server sends, read in C: entries or an error of python-ldap, and nothing out of bounds."""

import socket
from pathlib import Path
from random import Random

import ldap

from active_directory.streaming import next_answer
from tests.support.sanitizers import run_under_sanitizers


def _ber(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    length = len(content)
    return bytes([tag, *((length,) if length < 128 else (0x82, length >> 8, length & 255))]) + content


def _message(id: int, *parts: bytes) -> bytes:
    return _ber(0x30, b"\x02\x01%c" % id, *parts)


def _answer(random: Random) -> bytes:
    """A few entries with attributes, a referral, and the end with a control."""
    messages = []
    for number in range(random.randrange(6)):
        attributes = [
            _ber(
                0x30,
                _ber(0x04, random.choice([b"cn", b"objectClass", b"member;range=0-1", b"x%d" % random.randrange(100)])),
                _ber(0x31, *(_ber(0x04, random.randbytes(random.randrange(40))) for _ in range(random.randrange(4)))),
            )
            for _ in range(random.randrange(80 if number else 8))
        ]
        messages.append(_message(1, _ber(0x64, _ber(0x04, b"CN=%d,DC=x" % number), _ber(0x30, *attributes))))
    if random.random() < 0.3:
        messages.append(_message(1, _ber(0x73, _ber(0x04, b"ldap://x/DC=y"))))
    code = random.choice([b"\x00", b"\x04", b"\x20"])
    control = _ber(0xA0, _ber(0x30, _ber(0x04, b"1.2.840.113556.1.4.319"), _ber(0x04, b"\x30\x05\x02\x01\x00\x04\x00")))
    end = (_ber(0x0A, code), _ber(0x04, b"DC=x"), _ber(0x04, random.randbytes(3)))
    messages.append(_message(1, _ber(0x65, *end), *([control] if random.random() < 0.5 else [])))
    return b"".join(messages)


def _damaged(answer: bytes, random: Random) -> bytes:
    octets = bytearray(answer)
    for _ in range(random.choice([0, 1, 1, 2, 8])):
        at = random.randrange(len(octets))
        match random.randrange(4):
            case 0:
                octets[at] = random.randrange(256)
            case 1:
                octets[at] ^= 1 << random.randrange(8)
            case 2:
                del octets[at : at + random.randrange(1, 4)]
            case _:
                octets[at:at] = random.randbytes(random.randrange(1, 4))
    return bytes(octets)


def read_broken_answers(seed: int, count: int) -> tuple[int, int]:
    """Read as many; return how many entries and how many errors there were."""
    entries, errors = 0, 0
    for number in range(count):
        random = Random(f"{seed} {number}")  # noqa: S311 - the same in each run
        own, peer = socket.socketpair()
        with peer:
            link = ldap.initialize("ldap://127.0.0.1", fileno=own)
            own.detach()  # it is the link's
            link.set_option(ldap.OPT_REFERRALS, 0)
            message = link.search_ext("", ldap.SCOPE_BASE, "(objectClass=*)", ["*"])
            peer.sendall(_damaged(_answer(random), random))
            peer.shutdown(socket.SHUT_WR)
            whole, kept = random.random() < 0.5, list[object]()
            try:
                end = None
                while end is None and hasattr(link, "_l"):
                    rows, end = next_answer(link, message, 30, whole=whole)
                    for dn, values in rows:
                        entries += 1
                        if random.random() < 0.3:
                            kept.append((dn, values))
                        if random.random() < 0.02:
                            kept.append(rows)  # and what is left of them
                            break
                        if random.random() < 0.01:
                            link.unbind_ext_s()
            except ldap.LDAPError:
                errors += 1
    return entries, errors


def test_they_are_entries_or_errors() -> None:
    entries, errors = read_broken_answers(seed=1, count=2000)
    assert entries > 500
    assert errors > 500


def test_nothing_is_read_or_written_out_of_bounds(tmp_path: Path) -> None:
    program = (
        "from tests.active_directory.test_broken_answers import read_broken_answers as read; print(*read(2, 2000))"
    )
    entries, errors = map(int, run_under_sanitizers(tmp_path, program).split())
    assert entries > 500
    assert errors > 500
