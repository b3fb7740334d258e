"""Security descriptors, with Samba's own library as the second opinion."""

import base64
import json
import subprocess
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.domain_controller import SYSTEM_PYTHON
from directory.ldap import (
    AccessMask,
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
from tests.support.directory import Directory

_SAMBA = """
import base64, json, sys
from samba.dcerpc import security
from samba.ndr import ndr_unpack, ndr_pack
request = json.load(sys.stdin)
if "sddl" in request:
    domain = security.dom_sid("S-1-5-21-1-2-3")
    packed = [ndr_pack(security.descriptor.from_sddl(text, domain)) for text in request["sddl"]]
    print(json.dumps([base64.b64encode(one).decode() for one in packed]))
else:
    answer = []
    for text in request["descriptors"]:
        sd = ndr_unpack(security.descriptor, base64.b64decode(text))
        aces = []
        for ace in sd.dacl.aces if sd.dacl else []:
            objects = [None, None]
            if ace.type in (5, 6):
                if ace.object.flags & 1: objects[0] = str(ace.object.type)
                if ace.object.flags & 2: objects[1] = str(ace.object.inherited_type)
            aces.append([ace.type, ace.flags, ace.access_mask, str(ace.trustee), *objects])
        answer.append([str(sd.owner_sid), str(sd.group_sid), sd.type, aces])
    print(json.dumps(answer))
"""


def samba(request: dict[str, list[str]]) -> list[object]:
    """What Samba's bindings, which live in the system's Python, make of it."""
    done = subprocess.run(
        [SYSTEM_PYTHON, "-c", _SAMBA], input=json.dumps(request), capture_output=True, text=True, check=True
    )
    return list(json.loads(done.stdout))


def from_sddl(sddl: str) -> bytes:
    (text,) = samba({"sddl": [sddl]})
    return base64.b64decode(str(text))


def test_descriptors_of_the_domain_are_read_as_samba_reads_them(client: Client) -> None:
    raw = [
        entry.values("nTSecurityDescriptor")[0]
        for entry in client.search(
            client.settings.base_dn, Scope.SUBTREE, attributes=["cn"], descriptor=True, limit=120
        )
    ]
    assert len(raw) == 120
    expected = samba({"descriptors": [base64.b64encode(one).decode() for one in raw]})
    for one, (owner, group, control, aces) in zip(raw, expected, strict=True):  # type: ignore[misc]
        read = parse_descriptor(one)
        assert (read.owner, read.group, int(read.control)) == (owner, group, control)
        assert read.dacl is not None
        assert [
            [
                int(ace.type),
                int(ace.flags),
                int(ace.mask),
                ace.sid,
                ace.object_type and str(ace.object_type),
                ace.inherited_object_type and str(ace.inherited_object_type),
            ]
            for ace in read.dacl.aces
        ] == aces


SAMPLE = from_sddl(
    "O:BAG:SYD:PAI(D;;SDDT;;;WD)(OA;CI;RPWP;bf967a86-0de6-11d0-a285-00aa003049e2;;PS)(A;;GA;;;SY)S:(AU;SA;WD;;;WD)"
)


def test_a_descriptor_is_a_value() -> None:
    read = parse_descriptor(SAMPLE)
    assert (read.owner, read.group, read.inheritance_blocked) == ("S-1-5-32-544", "S-1-5-18", True)
    assert read.dacl is not None
    assert read.sacl is not None
    deny, grant, system = read.dacl.aces
    assert (deny.type, deny.denies, deny.sid) == (AceType.ACCESS_DENIED, True, "S-1-1-0")
    assert grant.object_type == uuid.UUID("bf967a86-0de6-11d0-a285-00aa003049e2")
    assert grant.flags == AceFlags.CONTAINER_INHERIT
    assert grant.mask == AccessMask.READ_PROPERTY | AccessMask.WRITE_PROPERTY
    assert system.allows


@given(st.integers(0, len(SAMPLE) - 1))
def test_a_truncated_descriptor_is_refused(length: int) -> None:
    with pytest.raises(MalformedDescriptor):
        parse_descriptor(SAMPLE[:length])


@given(st.binary(max_size=200), st.integers(0, len(SAMPLE) - 1), st.integers(0, 255))
def test_garbage_is_refused_or_read_but_never_overrun(garbage: bytes, position: int, byte: int) -> None:
    for data in (garbage, SAMPLE[:position] + bytes([byte]) + SAMPLE[position + 1 :]):
        try:
            parse_descriptor(data)
        except MalformedDescriptor:
            continue


def test_unknown_entries_are_kept_as_they_are() -> None:
    body = b"\x01\x02\x03\x04"
    ace = bytes([0x42, 0x10]) + (4 + len(body)).to_bytes(2, "little") + body
    acl = bytes([4, 0]) + (8 + len(ace)).to_bytes(2, "little") + b"\x01\x00\x00\x00" + ace
    header = b"\x01\x00" + (0x8004).to_bytes(2, "little") + b"\x00" * 12 + (20).to_bytes(4, "little")
    read = parse_descriptor(header + acl)
    assert read.dacl is not None
    (kept,) = read.dacl.aces
    assert (kept.type, kept.body, kept.inherited, kept.sid) == (0x42, body, True, None)


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
    assert is_protected_from_deletion(parse_descriptor(from_sddl(sddl))) is protected


def test_protection_is_seen_on_a_real_unit(client: Client, directory: Directory, organizational_unit: str) -> None:
    def protected() -> bool:
        entry = client.read(organizational_unit, ["ou"], descriptor=True)
        return is_protected_from_deletion(parse_descriptor(entry.values("nTSecurityDescriptor")[0]))

    assert not protected()
    raw = from_sddl("D:AI(D;;SDDT;;;WD)(A;CI;GA;;;AU)")
    client.write(Modify(organizational_unit, (Modification("replace", "nTSecurityDescriptor", (raw,)),)))
    assert protected()
    raw = from_sddl("D:AI(A;CI;GA;;;AU)")
    client.write(Modify(organizational_unit, (Modification("replace", "nTSecurityDescriptor", (raw,)),)))
