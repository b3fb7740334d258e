"""The Security Descriptor Definition Language ([MS-DTYP] 2.5.1): security descriptors rendered as text and parsed.

Neither direction covers conditional entries or resource attributes.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from uuid import UUID

from active_directory.codecs import sid_to_text, text_to_guid, text_to_sid
from active_directory.descriptor import (
    OBJECT_TYPES,
    AccessMask,
    Ace,
    AceFlags,
    AceType,
    Acl,
    ControlFlags,
    SecurityDescriptor,
)

_REVISION, _REVISION_WITH_OBJECTS = 2, 4


def _pairs(text: str) -> Mapping[str, str]:
    """A mapping from alternating keys and values."""
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_TYPES = {
    letters: AceType[name]
    for letters, name in _pairs(
        """
        A ACCESS_ALLOWED            D ACCESS_DENIED            AU SYSTEM_AUDIT
        OA ACCESS_ALLOWED_OBJECT    OD ACCESS_DENIED_OBJECT    OU SYSTEM_AUDIT_OBJECT
        ML SYSTEM_MANDATORY_LABEL   SP SYSTEM_SCOPED_POLICY_ID
        """
    ).items()
}
_FLAGS = {
    letters: AceFlags[name]
    for letters, name in _pairs(
        """
        OI OBJECT_INHERIT   CI CONTAINER_INHERIT   NP NO_PROPAGATE   IO INHERIT_ONLY   ID INHERITED
        SA SUCCESSFUL_ACCESS   FA FAILED_ACCESS
        """
    ).items()
}
_RIGHTS: Mapping[str, int] = {
    letters: AccessMask[name]
    for letters, name in _pairs(
        """
        CC CREATE_CHILD    DC DELETE_CHILD     LC LIST_CHILDREN   SW SELF_WRITE   RP READ_PROPERTY
        WP WRITE_PROPERTY  DT DELETE_TREE      LO LIST_OBJECT     CR CONTROL_ACCESS
        SD DELETE          RC READ_CONTROL     WD WRITE_DACL      WO WRITE_OWNER
        GA GENERIC_ALL     GX GENERIC_EXECUTE  GW GENERIC_WRITE   GR GENERIC_READ
        """
    ).items()
}
# Sets of rights on files and registry keys. A mask that equals one of the files' is rendered by that name, too.
_FILE_RIGHTS: Mapping[str, int] = {"FA": 0x1F01FF, "FR": 0x120089, "FW": 0x120116, "FX": 0x1200A0}
_KEY_RIGHTS: Mapping[str, int] = {"KA": 0xF003F, "KR": 0x20019, "KW": 0x20006, "KX": 0x20019}
_LABEL_RIGHTS: Mapping[str, int] = {"NW": 0x1, "NR": 0x2, "NX": 0x4}  # [MS-DTYP] 2.4.4.13
_READABLE_RIGHTS: Mapping[str, int] = {**_RIGHTS, **_FILE_RIGHTS, **_KEY_RIGHTS, **_LABEL_RIGHTS}

_PRESENT = {"D": ControlFlags.DACL_PRESENT, "S": ControlFlags.SACL_PRESENT}
_CONTROL = {
    part: {
        letters: ControlFlags[f"{part}ACL_{name}"]
        for letters, name in _pairs("P PROTECTED AR AUTO_INHERIT_REQUIRED AI AUTO_INHERITED").items()
    }
    for part in _PRESENT
}
_NULL_ACL = "NO_ACCESS_CONTROL"

_WELL_KNOWN = _pairs(
    """
    WD S-1-1-0       CO S-1-3-0       CG S-1-3-1       OW S-1-3-4       NU S-1-5-2       IU S-1-5-4
    SU S-1-5-6       AN S-1-5-7       ED S-1-5-9       PS S-1-5-10      AU S-1-5-11      RC S-1-5-12
    SY S-1-5-18      LS S-1-5-19      NS S-1-5-20      WR S-1-5-33      UD S-1-5-84-0-0-0-0-0
    BA S-1-5-32-544  BU S-1-5-32-545  BG S-1-5-32-546  PU S-1-5-32-547  AO S-1-5-32-548  SO S-1-5-32-549
    PO S-1-5-32-550  BO S-1-5-32-551  RE S-1-5-32-552  RU S-1-5-32-554  RD S-1-5-32-555  NO S-1-5-32-556
    MU S-1-5-32-558  LU S-1-5-32-559  IS S-1-5-32-568  CY S-1-5-32-569  ER S-1-5-32-573  CD S-1-5-32-574
    RA S-1-5-32-575  ES S-1-5-32-576  MS S-1-5-32-577  HA S-1-5-32-578  AA S-1-5-32-579  RM S-1-5-32-580
    AC S-1-15-2-1    LW S-1-16-4096   ME S-1-16-8192   MP S-1-16-8448   HI S-1-16-12288  SI S-1-16-16384
    AS S-1-18-1      SS S-1-18-2
    """
)
# RIDs of the domain. RO, SA, EA and EK belong to the forest's root domain, which is assumed to be the one given.
_OF_THE_DOMAIN = _pairs(
    """
    RO 498  LA 500  LG 501  DA 512  DU 513  DG 514  DC 515  DD 516  CA 517
    SA 518  EA 519  PA 520  CN 522  AP 525  KA 526  EK 527  RS 553
    """
)

_SID = re.compile(r"[Ss]-1(?:-(?:0[Xx][0-9A-Fa-f]{1,12}|[0-9]+))+")
_ACE = re.compile(r"\s*\(([^()]*)\)")
_PART = re.compile(
    rf"(?P<account>[OG]):(?P<sid>{_SID.pattern}|..)"
    rf"|(?P<list>[DS]):(?P<control>(?:P|AR|AI)*)(?:(?P<null>{_NULL_ACL})|(?P<aces>(?:\s*\([^()]*\))*))"
)
_NUMBER = re.compile(r"0[Xx][0-9A-Fa-f]{1,8}|[0-9]{1,10}")


class MalformedSddl(ValueError):
    """The text is not a valid security descriptor."""


class NotExpressible(ValueError):
    """An entry of the descriptor has no form in SDDL, or one that this module does not render."""


def render_sddl(descriptor: SecurityDescriptor, domain_sid: str | None = None) -> str:
    """Render a descriptor as SDDL, with the two-letter names of the domain's own groups if its SID is given.

    A DACL that is present but null becomes ``D:NO_ACCESS_CONTROL``. Raises ``NotExpressible`` for entries with a
    condition or a claim, and for unknown types.
    """
    names = _names_of(domain_sid)
    parts = [f"{part}:{names.get(sid, sid)}" for part, sid in (("O", descriptor.owner), ("G", descriptor.group)) if sid]
    for part, acl in (("D", descriptor.dacl), ("S", descriptor.sacl)):
        if _PRESENT[part] in descriptor.control:
            control = "".join(letters for letters, flag in _CONTROL[part].items() if flag in descriptor.control)
            aces = _NULL_ACL if acl is None else "".join(f"({_render_ace(ace, names)})" for ace in acl.aces)
            parts.append(f"{part}:{control}{aces}")
    return "".join(parts)


def parse_sddl(text: str, domain_sid: str | None = None) -> SecurityDescriptor:
    """Parse the SDDL that `render_sddl` and the directory's schema use. Raises ``MalformedSddl`` for anything else.

    The two-letter names of a domain's own groups need its SID.
    """
    control = ControlFlags.SELF_RELATIVE
    sids: dict[str, str] = {}
    acls: dict[str, Acl | None] = {}
    text = text.strip()
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or part["account"] in sids or part["list"] in acls:
            raise MalformedSddl(f"No part of a descriptor begins at character {position}")
        position = part.end()
        if name := part["account"]:
            sids[name] = _parse_sid(part["sid"], domain_sid)
            continue
        name = part["list"]
        acls[name] = None if part["null"] else _parse_acl(part["aces"], domain_sid)
        control |= _PRESENT[name]
        for letters in re.findall("P|AR|AI", part["control"]):
            control |= _CONTROL[name][letters]
    return SecurityDescriptor(control, sids.get("O"), sids.get("G"), acls.get("D"), acls.get("S"))


@lru_cache(maxsize=64)
def _names_of(domain_sid: str | None) -> Mapping[str, str]:
    """The two-letter names, by SID."""
    names = {sid: name for name, sid in _WELL_KNOWN.items()}
    if domain_sid is not None:
        names |= {f"{domain_sid}-{rid}": name for name, rid in _OF_THE_DOMAIN.items()}
    return names


_TYPE_TEXTS = {kind: text for text, kind in _TYPES.items()}


def _render_ace(ace: Ace, names: Mapping[str, str]) -> str:
    kind = _TYPE_TEXTS.get(ace.type) if isinstance(ace.type, AceType) else None
    if kind is None or ace.sid is None:
        raise NotExpressible("An entry has a type, a condition or a claim that is not written in this language")
    flags = _letters(int(ace.flags), _FLAGS)
    if flags is None:
        raise NotExpressible("An entry has flags that the language does not know")
    mask = _render_mask(int(ace.mask), _LABEL_RIGHTS if ace.type is AceType.SYSTEM_MANDATORY_LABEL else _RIGHTS)
    guids = (str(guid) if guid else "" for guid in (ace.object_type, ace.inherited_object_type))
    return ";".join((kind, flags, mask, *guids, names.get(ace.sid, ace.sid)))


def _render_mask(mask: int, rights: Mapping[str, int]) -> str:
    letters = _letters(mask, rights)
    if letters is not None:
        return letters
    return next((text for text, value in _FILE_RIGHTS.items() if value == mask), f"0x{mask:x}")


def _letters(bits: int, names: Mapping[str, int]) -> str | None:
    """The names of the set bits, concatenated; None if one of them has no name."""
    known = [text for text, bit in names.items() if bits & bit]
    return "".join(known) if sum(names[text] for text in known) == bits else None


def _parse_acl(text: str, domain_sid: str | None) -> Acl:
    aces = tuple(_parse_ace(ace, domain_sid) for ace in _ACE.findall(text))
    return Acl(_REVISION_WITH_OBJECTS if any(ace.type in OBJECT_TYPES for ace in aces) else _REVISION, aces)


def _parse_ace(text: str, domain_sid: str | None) -> Ace:
    fields = text.split(";")
    if len(fields) != 6:
        raise MalformedSddl(f"An entry has {len(fields)} fields, not 6")
    kind = _TYPES.get(fields[0].strip())
    if kind is None:
        raise MalformedSddl("An entry is of an unknown type")
    object_type, inherited_object_type = (_parse_guid(field) for field in fields[3:5])
    if (object_type or inherited_object_type) and kind not in OBJECT_TYPES:
        raise MalformedSddl("An entry of this type cannot be about one class or attribute")
    flags, mask = AceFlags(_bits(fields[1], _FLAGS)), AccessMask(_parse_mask(fields[2]))
    return Ace(kind, flags, mask, _parse_sid(fields[5], domain_sid), object_type, inherited_object_type)


def _parse_mask(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        return _bits(text, _READABLE_RIGHTS)
    mask = int(text, 16 if text[:2] in ("0x", "0X") else 10)
    if mask >= 2**32:
        raise MalformedSddl("The rights of an entry are no number of 32 bits")
    return mask


def _bits(text: str, names: Mapping[str, int]) -> int:
    """The bits that pairs of letters stand for. Pairs may repeat, as in the schema's own defaults."""
    bits = 0
    for start in range(0, len(text), 2):
        pair = text[start : start + 2]
        if pair not in names:
            raise MalformedSddl(f"{pair!r} stands for nothing here")
        bits |= names[pair]
    return bits


def _parse_guid(text: str) -> UUID | None:
    try:
        return text_to_guid(text) if text else None
    except ValueError as error:
        raise MalformedSddl("An entry names a class or attribute by something that is no GUID") from error


def _parse_sid(text: str, domain_sid: str | None) -> str:
    if _SID.fullmatch(text):
        try:
            return sid_to_text(text_to_sid(text))
        except ValueError as error:
            raise MalformedSddl("A security identifier is malformed") from error
    if text in _WELL_KNOWN:
        return _WELL_KNOWN[text]
    if text in _OF_THE_DOMAIN and domain_sid is not None:
        return f"{domain_sid}-{_OF_THE_DOMAIN[text]}"
    raise MalformedSddl(f"{text!r} stands for no account")
