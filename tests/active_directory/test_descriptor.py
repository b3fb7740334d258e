"""Security descriptors, with Samba's own library as the second opinion."""

import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from active_directory import (
    AccessMask,
    Ace,
    AceFlags,
    AceType,
    Client,
    MalformedDescriptor,
    Modification,
    Modify,
    Scope,
    is_protected_from_deletion,
    parse_descriptor,
)
from active_directory.codecs import sid_to_text
from active_directory.sddl import render_sddl
from lab.directory import Directory
from tests.support.descriptors import pack, same_order, unpack


def listed(aces: tuple[Ace, ...]) -> list[list[object]]:
    return [
        [
            int(ace.type),
            int(ace.flags),
            int(ace.mask),
            ace.sid,
            ace.object_type and str(ace.object_type),
            ace.inherited_object_type and str(ace.inherited_object_type),
        ]
        for ace in aces
    ]


def test_every_descriptor_of_the_forest_is_read_and_written_as_samba_does(client: Client) -> None:
    """Domain, configuration and schema; what differs between versions of Samba is put in one order."""
    contexts = (client.default_naming_context, client.configuration_naming_context, client.schema_naming_context)
    found = [
        value
        for context in contexts
        for entry in client.search(context, Scope.SUBTREE, attributes=["1.1"], descriptor=True)
        for value in entry.values("nTSecurityDescriptor")
    ]
    raw = set(found)  # most objects of a kind have the same
    assert len(found) > 1000
    assert len(raw) > 30
    domain = client.read(client.default_naming_context, ["objectSid"])
    domain_sid = sid_to_text(domain.values("objectSid")[0])
    for one, expected in zip(raw, unpack(list(raw), domain_sid), strict=True):
        read = parse_descriptor(one)
        assert (read.owner, read.group, int(read.control)) == (
            expected["owner"],
            expected["group"],
            expected["control"],
        )
        assert read.dacl is not None
        assert listed(read.dacl.aces) == expected["dacl"]
        assert same_order(render_sddl(read, domain_sid)) == same_order(expected["sddl"])


SDDL = (
    "O:BAG:SYD:PAI(D;;SDDT;;;WD)(OA;CI;RPWP;bf967a86-0de6-11d0-a285-00aa003049e2;;PS)(A;;GA;;;SY)"
    "(OD;CIIO;CR;;bf967aba-0de6-11d0-a285-00aa003049e2;AU)(A;OICINPIOID;0x100001;;;DA)"
    "S:AI(AU;SAFA;WD;;;WD)(OU;CIIDSA;WP;f30e3bbe-9ff0-11d1-b603-0000f80367c1;bf967aa5-0de6-11d0-a285-00aa003049e2;WD)"
)
(SAMPLE,) = pack(SDDL)


def test_both_lists_are_read_as_samba_reads_them() -> None:
    read = parse_descriptor(SAMPLE)
    (expected,) = unpack([SAMPLE])
    assert read.dacl is not None
    assert read.sacl is not None
    assert listed(read.dacl.aces) == expected["dacl"]
    assert listed(read.sacl.aces) == expected["sacl"]


def test_a_descriptor_is_a_value() -> None:
    read = parse_descriptor(SAMPLE)
    assert (read.owner, read.group, read.is_inheritance_blocked) == ("S-1-5-32-544", "S-1-5-18", True)
    assert read.dacl is not None
    deny, grant, system, *_ = read.dacl.aces
    assert (deny.type, deny.denies, deny.sid) == (AceType.ACCESS_DENIED, True, "S-1-1-0")
    assert grant.object_type == uuid.UUID("bf967a86-0de6-11d0-a285-00aa003049e2")
    assert grant.flags == AceFlags.CONTAINER_INHERIT
    assert grant.mask == AccessMask.READ_PROPERTY | AccessMask.WRITE_PROPERTY
    assert system.allows


def test_no_list_and_an_empty_one_are_two_things() -> None:
    no_list, empty = pack("O:BA", "O:BAD:")
    read = parse_descriptor(empty)
    assert read.dacl is not None
    assert read.dacl.aces == ()
    assert parse_descriptor(no_list).dacl is None
    present_and_null = bytes([*no_list[:2], no_list[2] | 0x04, *no_list[3:]])
    assert parse_descriptor(present_and_null).dacl is None


@given(st.integers(0, len(SAMPLE) - 1))
def test_a_truncated_descriptor_is_refused(length: int) -> None:
    with pytest.raises(MalformedDescriptor):
        parse_descriptor(SAMPLE[:length])


def read_or_refused(data: bytes) -> None:
    try:
        parse_descriptor(data)
    except MalformedDescriptor:
        return


@given(st.binary(max_size=400))
def test_garbage_is_refused(garbage: bytes) -> None:
    read_or_refused(garbage)
    read_or_refused(SAMPLE[:20] + garbage)


@given(st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), min_size=1, max_size=8), st.binary())
def test_a_damaged_descriptor_is_refused_or_read_but_never_overrun(damage: list[tuple[int, int]], end: bytes) -> None:
    data = bytearray(SAMPLE)
    for position, byte in damage:
        data[position] = byte
    read_or_refused(bytes(data))
    # What lies behind is never read: it cannot change what was understood, only make references to it valid.
    try:
        read = parse_descriptor(bytes(data))
    except MalformedDescriptor:
        return
    assert parse_descriptor(bytes(data) + end) == read


def test_nothing_may_lie_in_the_header() -> None:
    system = b"\x01\x01\x00\x00\x00\x00\x00\x05\x12\x00\x00\x00"
    behind = struct.pack("<BBHIIII", 1, 0, 0x8000, 20, 0, 0, 0) + system
    assert parse_descriptor(behind).owner == "S-1-5-18"
    with pytest.raises(MalformedDescriptor):
        parse_descriptor(struct.pack("<BBHII", 1, 0, 0x8000, 12, 0) + system)


@pytest.mark.parametrize("size", [0, 7])
def test_a_list_has_at_least_its_header(size: int) -> None:
    header = struct.pack("<BBHIIII", 1, 0, 0x8004, 0, 0, 0, 20)
    with pytest.raises(MalformedDescriptor):
        parse_descriptor(header + struct.pack("<BBHHH", 2, 0, size, 0, 0))


def with_dacl(*aces: bytes) -> bytes:
    """A descriptor with nothing but these entries."""
    content = b"".join(aces)
    acl = struct.pack("<BBHHH", 4, 0, 8 + len(content), len(aces), 0) + content
    return struct.pack("<BBHIIII", 1, 0, 0x8004, 0, 0, 0, 20) + acl


def ace_of(kind: int, content: bytes, flags: int = 0) -> bytes:
    return struct.pack("<BBH", kind, flags, 4 + len(content)) + content


def test_unknown_entries_are_kept_as_they_are() -> None:
    read = parse_descriptor(with_dacl(ace_of(0x42, b"\x01\x02\x03\x04", flags=0x10)))
    assert read.dacl is not None
    (kept,) = read.dacl.aces
    assert (kept.type, kept.body, kept.is_inherited, kept.sid) == (0x42, b"\x01\x02\x03\x04", True, None)
    assert not kept.allows
    assert not kept.denies


EVERYONE = b"\x01\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"
CLASS = uuid.UUID("bf967aba-0de6-11d0-a285-00aa003049e2")


@pytest.mark.parametrize("kind", [kind for kind in AceType if "OBJECT" not in kind.name], ids=lambda kind: kind.name)
def test_every_type_is_read_with_what_follows_the_account(kind: AceType) -> None:
    read = parse_descriptor(with_dacl(ace_of(kind, struct.pack("<I", 0x100) + EVERYONE + b"artx")))
    assert read.dacl is not None
    (ace,) = read.dacl.aces
    assert (ace.type, ace.mask, ace.sid, ace.body) == (kind, AccessMask.CONTROL_ACCESS, "S-1-1-0", b"artx")
    assert ace.is_conditional is ("CALLBACK" in kind.name)
    assert (ace.allows, ace.denies) == ("ALLOWED" in kind.name, "DENIED" in kind.name)


@pytest.mark.parametrize("kind", [kind for kind in AceType if "OBJECT" in kind.name], ids=lambda kind: kind.name)
def test_every_object_type_is_read(kind: AceType) -> None:
    content = struct.pack("<II", 0x100, 2) + CLASS.bytes_le + EVERYONE + b"artx"
    read = parse_descriptor(with_dacl(ace_of(kind, content)))
    assert read.dacl is not None
    (ace,) = read.dacl.aces
    assert (ace.type, ace.object_type, ace.inherited_object_type) == (kind, None, CLASS)
    assert (ace.sid, ace.body) == ("S-1-1-0", b"artx")


@pytest.mark.parametrize(
    ("sddl", "protected"),
    [
        ("D:(D;;SDDT;;;WD)(A;;GA;;;SY)", True),
        ("D:(D;;DT;;;WD)", True),
        ("D:(D;CI;SD;;;WD)", True),
        ("D:(D;CIIO;SDDT;;;WD)", False),
        ("D:(D;;SDDT;;;BA)", False),
        ("D:(A;;SDDT;;;WD)", False),
        ("D:(D;;WP;;;WD)", False),
        ("D:", False),
        ("O:BA", False),
    ],
)
def test_protection_from_accidental_deletion(sddl: str, protected: bool) -> None:
    (raw,) = pack(sddl)
    assert is_protected_from_deletion(parse_descriptor(raw)) is protected


def test_protection_is_seen_on_a_real_unit(client: Client, directory: Directory, organizational_unit: str) -> None:
    def protected() -> bool:
        entry = client.read(organizational_unit, ["ou"], descriptor=True)
        return is_protected_from_deletion(parse_descriptor(entry.values("nTSecurityDescriptor")[0]))

    assert not protected()
    with_protection, without = pack("D:AI(D;;SDDT;;;WD)(A;CI;GA;;;AU)", "D:AI(A;CI;GA;;;AU)")
    client.write(Modify(organizational_unit, (Modification("replace", "nTSecurityDescriptor", (with_protection,)),)))
    assert protected()
    client.write(Modify(organizational_unit, (Modification("replace", "nTSecurityDescriptor", (without,)),)))
    assert not protected()
