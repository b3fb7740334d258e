"""The text form of security descriptors: there and back, and as Samba understands it."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from active_directory.codecs import sid_to_text
from active_directory.descriptor import (
    OBJECT_TYPES,
    AccessMask,
    Ace,
    AceFlags,
    AceType,
    Acl,
    ControlFlags,
    SecurityDescriptor,
    parse_descriptor,
)
from active_directory.sddl import MalformedSddl, NotExpressible, parse_sddl, render_sddl
from tests.support.descriptors import DOMAIN_SID, pack, same_order, unpack

TEXTS = [
    "",
    "O:BAG:SY",
    "O:LAG:DU",
    "D:",
    "D:P",
    "D:PARAI",
    "D:S:",
    "O:S-1-5-21-1-2-3-1104G:DUD:(A;;RP;;;S-1-5-21-4-5-6-512)",
    "D:(A;OICINPIOIDSAFA;CCDCLCSWRPWPDTLOCRSDRCWDWOGAGXGWGR;;;DA)",
    "D:(D;;;;;WD)(A;;0x100001;;;WD)",
    "D:AI(OA;CIIO;RPWP;bf967a86-0de6-11d0-a285-00aa003049e2;bf967aba-0de6-11d0-a285-00aa003049e2;PS)(OD;;CR;;;CO)",
    "D:(A;;RC;;;WD)S:PAI(AU;SAFA;WDWO;;;WD)(OU;CIIDSA;WP;f30e3bbe-9ff0-11d1-b603-0000f80367c1;;WD)",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_the_way_there_and_back(text: str) -> None:
    assert render_sddl(parse_sddl(text, DOMAIN_SID), DOMAIN_SID) == text


def test_samba_understands_the_same() -> None:
    for text, raw in zip(TEXTS, pack(*TEXTS), strict=True):
        theirs = parse_descriptor(raw)
        assert render_sddl(theirs, DOMAIN_SID) == text
        (shown,) = unpack([raw])
        assert same_order(shown["sddl"]) == same_order(text)


SHORT_NAMES = (
    "WD CO CG OW NU IU SU AN ED PS AU RC SY LS NS WR UD BA BU BG PU AO SO PO BO RE RU RD NO MU LU IS CY ER CD RA ES MS "
    "HA AA RM AC LW ME MP HI SI AS SS RO LA LG DA DU DG DC DD CA SA EA PA CN AP KA EK RS"
).split()


def test_short_names_stand_for_the_same_accounts() -> None:
    for name, raw in zip(SHORT_NAMES, pack(*(f"O:{name}" for name in SHORT_NAMES)), strict=True):
        theirs = parse_descriptor(raw)
        assert parse_sddl(f"O:{name}", DOMAIN_SID).owner == theirs.owner
        assert render_sddl(theirs, DOMAIN_SID) == f"O:{name}"


def test_without_the_domain_its_groups_have_no_short_names() -> None:
    descriptor = parse_sddl("O:DAG:SY", DOMAIN_SID)
    assert render_sddl(descriptor) == f"O:{DOMAIN_SID}-512G:SY"
    assert render_sddl(descriptor, "S-1-5-21-4-5-6") == f"O:{DOMAIN_SID}-512G:SY"
    with pytest.raises(MalformedSddl):
        parse_sddl("O:DA")


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("D: (A;;RPRPLOLC;;;WD) ", "D:(A;;LCRPLO;;;WD)"),  # the schema's defaults have blanks and doubles
        ("D:(OA;;CR;AB721A53-1E2F-11D0-9819-00AA0040529B;;WD)", "D:(OA;;CR;ab721a53-1e2f-11d0-9819-00aa0040529b;;WD)"),
        ("D:(A;;0x001f01ff;;;WD)", "D:(A;;FA;;;WD)"),
        ("D:(A;;FR;;;WD)", "D:(A;;FR;;;WD)"),
        ("D:(A;;KA;;;WD)", "D:(A;;CCDCLCSWRPWPSDRCWDWO;;;WD)"),
        ("D:(A;;16;;;WD)", "D:(A;;RP;;;WD)"),
        ("D:NO_ACCESS_CONTROL", "D:NO_ACCESS_CONTROL"),
        ("D:PNO_ACCESS_CONTROLS:AI", "D:PNO_ACCESS_CONTROLS:AI"),
        ("S:(ML;;NWNX;;;ME)(SP;;;;;S-1-17-1)", "S:(ML;;NWNX;;;ME)(SP;;;;;S-1-17-1)"),
        ("O:s-1-5-18", "O:SY"),
        ("O:S-1-0x000100000000-5", "O:S-1-0x000100000000-5"),
        ("D:AIARP", "D:PARAI"),
    ],
)
def test_other_spellings(text: str, rendered: str) -> None:
    assert render_sddl(parse_sddl(text)) == rendered


@pytest.mark.parametrize(
    "text",
    [
        "X:",
        "O:",
        "O:ZZ",
        "O:S-1",
        "O:S-1-5-4294967296",
        "O:BAO:BA",
        "D:D:",
        "D:(A;;RP;;;WD",
        "D:(A;;RP;;;WD))",
        "D:(A;;RP;;WD)",
        "D:(A;;RP;;;WD;x)",
        "D:(Q;;RP;;;WD)",
        "D:(A;XX;RP;;;WD)",
        "D:(A;;XX;;;WD)",
        "D:(A;;RPW;;;WD)",
        "D:(A;;0x1FFFFFFFF;;;WD)",
        "D:(A;;4294967296;;;WD)",
        "D:(OA;;RP;bf967a86;;WD)",
        "D:(A;;RP;bf967a86-0de6-11d0-a285-00aa003049e2;;WD)",
        "D:(A;;RP;;;WDX)",
        "D:(XA;;RP;;;WD;(@User.a==1))",
        "nonsense",
    ],
)
def test_what_is_no_descriptor(text: str) -> None:
    with pytest.raises(MalformedSddl):
        parse_sddl(text, DOMAIN_SID)


@given(st.text(alphabet="OGDSAIPRWXCL:();-0123456789x ", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_sddl(text, DOMAIN_SID)
    except MalformedSddl:
        return


EVERYONE = "S-1-1-0"


@pytest.mark.parametrize(
    "ace",
    [
        Ace(0x42, AceFlags(0), AccessMask(0), None, body=b"\x01"),
        Ace(AceType.ACCESS_ALLOWED_CALLBACK, AceFlags(0), AccessMask.READ_PROPERTY, EVERYONE, body=b"artx"),
        Ace(AceType.SYSTEM_RESOURCE_ATTRIBUTE, AceFlags(0), AccessMask(0), EVERYONE, body=b"\x00"),
        Ace(AceType.ACCESS_ALLOWED, AceFlags(0x20), AccessMask.READ_PROPERTY, EVERYONE),
    ],
)
def test_what_has_no_text(ace: Ace) -> None:
    with pytest.raises(NotExpressible):
        render_sddl(SecurityDescriptor(ControlFlags.DACL_PRESENT, None, None, Acl(4, (ace,)), None))


SIDS = st.builds(
    lambda authority, parts: sid_to_text(
        bytes([1, len(parts)]) + authority.to_bytes(6, "big") + b"".join(part.to_bytes(4, "little") for part in parts)
    ),
    st.sampled_from([0, 1, 3, 5, 2**32, 2**48 - 1]),
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=15),
) | st.sampled_from([EVERYONE, "S-1-5-32-544", f"{DOMAIN_SID}-512", f"{DOMAIN_SID}-1104"])
FLAGS = st.integers(0, 255).map(lambda bits: AceFlags(bits & ~0x20))
MASKS = st.integers(0, 2**32 - 1).map(AccessMask) | st.integers(0, 0x1FF).map(AccessMask)
PLAIN = st.sampled_from([AceType.ACCESS_ALLOWED, AceType.ACCESS_DENIED, AceType.SYSTEM_AUDIT])
WITH_OBJECTS = st.sampled_from(
    [AceType.ACCESS_ALLOWED_OBJECT, AceType.ACCESS_DENIED_OBJECT, AceType.SYSTEM_AUDIT_OBJECT]
)
GUIDS = st.none() | st.uuids()
ACES = st.builds(Ace, PLAIN, FLAGS, MASKS, SIDS) | st.builds(Ace, WITH_OBJECTS, FLAGS, MASKS, SIDS, GUIDS, GUIDS)
ACLS = st.lists(ACES, max_size=6).map(
    lambda aces: Acl(4 if any(ace.type in OBJECT_TYPES for ace in aces) else 2, tuple(aces))
)
DACL_FLAGS = st.sets(
    st.sampled_from(
        [ControlFlags.DACL_PROTECTED, ControlFlags.DACL_AUTO_INHERIT_REQUIRED, ControlFlags.DACL_AUTO_INHERITED]
    )
)


@st.composite
def descriptors(draw: st.DrawFn) -> SecurityDescriptor:
    control = ControlFlags.SELF_RELATIVE
    dacl = sacl = None
    if draw(st.booleans()):
        dacl = draw(st.none() | ACLS)
        control |= ControlFlags.DACL_PRESENT
        for flag in draw(DACL_FLAGS):
            control |= flag
    if draw(st.booleans()):
        sacl = draw(ACLS)
        control |= ControlFlags.SACL_PRESENT
    return SecurityDescriptor(control, draw(st.none() | SIDS), draw(st.none() | SIDS), dacl, sacl)


@given(descriptors())
def test_every_descriptor_survives_the_way_there_and_back(descriptor: SecurityDescriptor) -> None:
    assert parse_sddl(render_sddl(descriptor, DOMAIN_SID), DOMAIN_SID) == descriptor
    assert parse_sddl(render_sddl(descriptor)) == descriptor


def test_object_types_are_values() -> None:
    (ace,) = parse_sddl("D:(OA;;CR;;00299570-246d-11d0-a768-00aa006e0529;WD)").dacl.aces
    assert ace.inherited_object_type == UUID("00299570-246d-11d0-a768-00aa006e0529")
