"""Security descriptors as text, the security descriptor definition language ([MS-DTYP] 2.5.1), both ways.

Written as Windows and Samba from 4.18 on do: rights in the order of their bits, numbers without leading zeros. Text by
older Samba versions has another order of rights and means the same.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from uuid import UUID

from active_directory.codecs import sid_to_text, text_to_sid
from active_directory.security.descriptor import (
    OBJECT_TYPES,
    AccessMask,
    Ace,
    AceFlags,
    AceType,
    Acl,
    Control,
    SecurityDescriptor,
)

_REVISION, _REVISION_WITH_OBJECTS = 2, 4

_TYPES: Mapping[str, AceType] = {
    "A": AceType.ACCESS_ALLOWED,
    "D": AceType.ACCESS_DENIED,
    "AU": AceType.SYSTEM_AUDIT,
    "OA": AceType.ACCESS_ALLOWED_OBJECT,
    "OD": AceType.ACCESS_DENIED_OBJECT,
    "OU": AceType.SYSTEM_AUDIT_OBJECT,
    "ML": AceType.SYSTEM_MANDATORY_LABEL,
    "SP": AceType.SYSTEM_SCOPED_POLICY_ID,
}
_FLAGS: Mapping[str, AceFlags] = {
    "OI": AceFlags.OBJECT_INHERIT,
    "CI": AceFlags.CONTAINER_INHERIT,
    "NP": AceFlags.NO_PROPAGATE,
    "IO": AceFlags.INHERIT_ONLY,
    "ID": AceFlags.INHERITED,
    "SA": AceFlags.SUCCESSFUL_ACCESS,
    "FA": AceFlags.FAILED_ACCESS,
}
_RIGHTS: Mapping[str, int] = {
    "CC": AccessMask.CREATE_CHILD,
    "DC": AccessMask.DELETE_CHILD,
    "LC": AccessMask.LIST_CHILDREN,
    "SW": AccessMask.SELF_WRITE,
    "RP": AccessMask.READ_PROPERTY,
    "WP": AccessMask.WRITE_PROPERTY,
    "DT": AccessMask.DELETE_TREE,
    "LO": AccessMask.LIST_OBJECT,
    "CR": AccessMask.CONTROL_ACCESS,
    "SD": AccessMask.DELETE,
    "RC": AccessMask.READ_CONTROL,
    "WD": AccessMask.WRITE_DACL,
    "WO": AccessMask.WRITE_OWNER,
    "GA": AccessMask.GENERIC_ALL,
    "GX": AccessMask.GENERIC_EXECUTE,
    "GW": AccessMask.GENERIC_WRITE,
    "GR": AccessMask.GENERIC_READ,
}
# Sets of rights on files and registry keys; a mask that is exactly one of the files' is written that way too.
_FILE_RIGHTS: Mapping[str, int] = {"FA": 0x1F01FF, "FR": 0x120089, "FW": 0x120116, "FX": 0x1200A0}
_KEY_RIGHTS: Mapping[str, int] = {"KA": 0xF003F, "KR": 0x20019, "KW": 0x20006, "KX": 0x20019}
_LABEL_RIGHTS: Mapping[str, int] = {"NW": 0x1, "NR": 0x2, "NX": 0x4}  # [MS-DTYP] 2.4.4.13
_READABLE_RIGHTS: Mapping[str, int] = {**_RIGHTS, **_FILE_RIGHTS, **_KEY_RIGHTS, **_LABEL_RIGHTS}

_DACL_CONTROL: Mapping[str, Control] = {
    "P": Control.DACL_PROTECTED,
    "AR": Control.DACL_AUTO_INHERIT_REQUIRED,
    "AI": Control.DACL_AUTO_INHERITED,
}
_SACL_CONTROL: Mapping[str, Control] = {
    "P": Control.SACL_PROTECTED,
    "AR": Control.SACL_AUTO_INHERIT_REQUIRED,
    "AI": Control.SACL_AUTO_INHERITED,
}
_NULL_ACL = "NO_ACCESS_CONTROL"

_WELL_KNOWN: Mapping[str, str] = {
    "WD": "S-1-1-0",
    "CO": "S-1-3-0",
    "CG": "S-1-3-1",
    "OW": "S-1-3-4",
    "NU": "S-1-5-2",
    "IU": "S-1-5-4",
    "SU": "S-1-5-6",
    "AN": "S-1-5-7",
    "ED": "S-1-5-9",
    "PS": "S-1-5-10",
    "AU": "S-1-5-11",
    "RC": "S-1-5-12",
    "SY": "S-1-5-18",
    "LS": "S-1-5-19",
    "NS": "S-1-5-20",
    "WR": "S-1-5-33",
    "UD": "S-1-5-84-0-0-0-0-0",
    "BA": "S-1-5-32-544",
    "BU": "S-1-5-32-545",
    "BG": "S-1-5-32-546",
    "PU": "S-1-5-32-547",
    "AO": "S-1-5-32-548",
    "SO": "S-1-5-32-549",
    "PO": "S-1-5-32-550",
    "BO": "S-1-5-32-551",
    "RE": "S-1-5-32-552",
    "RU": "S-1-5-32-554",
    "RD": "S-1-5-32-555",
    "NO": "S-1-5-32-556",
    "MU": "S-1-5-32-558",
    "LU": "S-1-5-32-559",
    "IS": "S-1-5-32-568",
    "CY": "S-1-5-32-569",
    "ER": "S-1-5-32-573",
    "CD": "S-1-5-32-574",
    "RA": "S-1-5-32-575",
    "ES": "S-1-5-32-576",
    "MS": "S-1-5-32-577",
    "HA": "S-1-5-32-578",
    "AA": "S-1-5-32-579",
    "RM": "S-1-5-32-580",
    "AC": "S-1-15-2-1",
    "LW": "S-1-16-4096",
    "ME": "S-1-16-8192",
    "MP": "S-1-16-8448",
    "HI": "S-1-16-12288",
    "SI": "S-1-16-16384",
    "AS": "S-1-18-1",
    "SS": "S-1-18-2",
}
# Those of the forest (RO, SA, EA, EK) belong to its root domain, which is taken to be the one given.
_OF_THE_DOMAIN: Mapping[str, int] = {
    "RO": 498,
    "LA": 500,
    "LG": 501,
    "DA": 512,
    "DU": 513,
    "DG": 514,
    "DC": 515,
    "DD": 516,
    "CA": 517,
    "SA": 518,
    "EA": 519,
    "PA": 520,
    "CN": 522,
    "AP": 525,
    "KA": 526,
    "EK": 527,
    "RS": 553,
}

_SID = re.compile(r"[Ss]-1(?:-(?:0[Xx][0-9A-Fa-f]{1,12}|[0-9]+))+")
_PART = re.compile(r"([OGDS]):")
_ACE = re.compile(r"\s*\(([^()]*)\)")
_GUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_NUMBER = re.compile(r"0[Xx][0-9A-Fa-f]{1,8}|[0-9]{1,10}")


class MalformedSddl(ValueError):
    """The text is no security descriptor."""


class NotExpressible(ValueError):
    """The descriptor has an entry that has no form in the language, or one this module does not write."""


def render_sddl(descriptor: SecurityDescriptor, domain_sid: str | None = None) -> str:
    """The descriptor as text, with the short names of the domain's own groups when its SID is given.

    A DACL that is present and null is ``D:NO_ACCESS_CONTROL``. Raises ``NotExpressible`` for entries with a condition
    or a claim, and for those of unknown types.
    """
    names = _names_of(domain_sid)
    parts = []
    if descriptor.owner is not None:
        parts.append("O:" + names.get(descriptor.owner, descriptor.owner))
    if descriptor.group is not None:
        parts.append("G:" + names.get(descriptor.group, descriptor.group))
    if Control.DACL_PRESENT in descriptor.control:
        parts.append("D:" + _render_acl(descriptor.dacl, descriptor.control, _DACL_CONTROL, names))
    if Control.SACL_PRESENT in descriptor.control:
        parts.append("S:" + _render_acl(descriptor.sacl, descriptor.control, _SACL_CONTROL, names))
    return "".join(parts)


def parse_sddl(text: str, domain_sid: str | None = None) -> SecurityDescriptor:
    """Read what `render_sddl` and the directory's schema write; ``MalformedSddl`` for anything else.

    Short names of a domain's own groups need its SID.
    """
    control = Control.SELF_RELATIVE
    sids: dict[str, str] = {}
    acls: dict[str, Acl | None] = {}
    text = text.strip()
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or part[1] in sids or part[1] in acls:
            raise MalformedSddl(f"No part of a descriptor begins at character {position}")
        position = part.end()
        if part[1] in "OG":
            sids[part[1]], position = _parse_sid(text, position, domain_sid)
        elif part[1] == "D":
            acls["D"], flags, position = _parse_acl(text, position, _DACL_CONTROL, domain_sid)
            control |= flags | Control.DACL_PRESENT
        else:
            acls["S"], flags, position = _parse_acl(text, position, _SACL_CONTROL, domain_sid)
            control |= flags | Control.SACL_PRESENT
    return SecurityDescriptor(control, sids.get("O"), sids.get("G"), acls.get("D"), acls.get("S"))


@lru_cache(maxsize=64)
def _names_of(domain_sid: str | None) -> Mapping[str, str]:
    """Short names by SID."""
    names = {sid: name for name, sid in _WELL_KNOWN.items()}
    if domain_sid is not None:
        names |= {f"{domain_sid}-{rid}": name for name, rid in _OF_THE_DOMAIN.items()}
    return names


def _render_acl(acl: Acl | None, control: Control, flags: Mapping[str, Control], names: Mapping[str, str]) -> str:
    shown = "".join(text for text, flag in flags.items() if flag in control)
    if acl is None:
        return shown + _NULL_ACL
    return shown + "".join(f"({_render_ace(ace, names)})" for ace in acl.aces)


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
    """The names of the bits that are set; None when one of them has no name."""
    known = [text for text, bit in names.items() if bits & bit]
    return "".join(known) if sum(names[text] for text in known) == bits else None


def _parse_acl(
    text: str, position: int, flags: Mapping[str, Control], domain_sid: str | None
) -> tuple[Acl | None, Control, int]:
    found = Control(0)
    while True:
        name = next((name for name in flags if text.startswith(name, position)), None)
        if name is None:
            break
        found |= flags[name]
        position += len(name)
    if text.startswith(_NULL_ACL, position):
        return None, found, position + len(_NULL_ACL)
    aces = []
    while (match := _ACE.match(text, position)) is not None:
        aces.append(_parse_ace(match[1], domain_sid))
        position = match.end()
    revision = _REVISION_WITH_OBJECTS if any(ace.type in OBJECT_TYPES for ace in aces) else _REVISION
    return Acl(revision, tuple(aces)), found, position


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
    sid, end = _parse_sid(fields[5], 0, domain_sid)
    if end != len(fields[5]):
        raise MalformedSddl("Something follows the account of an entry")
    return Ace(
        kind,
        AceFlags(_bits(fields[1], _FLAGS)),
        AccessMask(_parse_mask(fields[2])),
        sid,
        object_type,
        inherited_object_type,
    )


def _parse_mask(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        return _bits(text, _READABLE_RIGHTS)
    mask = int(text, 16 if text[:2] in ("0x", "0X") else 10)
    if mask >= 2**32:
        raise MalformedSddl("The rights of an entry are no number of 32 bits")
    return mask


def _bits(text: str, names: Mapping[str, int]) -> int:
    """What pairs of letters stand for together; a pair may be repeated, as in the schema's own defaults."""
    bits = 0
    for start in range(0, len(text), 2):
        pair = text[start : start + 2]
        if pair not in names:
            raise MalformedSddl(f"{pair!r} stands for nothing here")
        bits |= names[pair]
    return bits


def _parse_guid(text: str) -> UUID | None:
    if not text:
        return None
    if not _GUID.fullmatch(text):
        raise MalformedSddl("An entry names a class or attribute by something that is no GUID")
    return UUID(text)


def _parse_sid(text: str, position: int, domain_sid: str | None) -> tuple[str, int]:
    """The SID at a position, and where it ends."""
    match = _SID.match(text, position)
    if match is not None:
        try:
            return sid_to_text(text_to_sid(match[0])), match.end()
        except ValueError as error:
            raise MalformedSddl("A security identifier is malformed") from error
    name = text[position : position + 2]
    if name in _WELL_KNOWN:
        return _WELL_KNOWN[name], position + 2
    if name in _OF_THE_DOMAIN and domain_sid is not None:
        return f"{domain_sid}-{_OF_THE_DOMAIN[name]}", position + 2
    raise MalformedSddl(f"{name!r} stands for no account")
