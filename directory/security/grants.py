"""Command lines that grant rights to an account, for PowerShell, dsacls and samba-tool.

They all add entries and leave existing ones alone. Callers must not ask for rights that the account already has.
"""

from collections.abc import Iterable
from shlex import quote
from uuid import UUID

from typing_extensions import TypedDict

from active_directory import DistinguishedName, InvalidValue, ObjectTypes, Subject
from directory.security.needed_rights import USUAL_ATTRIBUTES, Access, Right, write_rights
from directory.security.readable_parts import DirectoryPart, ReadCheck

_SDDL_RIGHTS = {Access.WRITE: "WP", Access.CREATE: "CC", Access.DELETE: "DC", Access.EXTENDED: "CR"}
# System.DirectoryServices.ActiveDirectoryRights
_DOTNET_RIGHTS = {
    Access.WRITE: "WriteProperty",
    Access.CREATE: "CreateChild",
    Access.DELETE: "DeleteChild",
    Access.EXTENDED: "ExtendedRight",
}
_EMPTY = UUID(int=0)
DISPLAY_NAMES = {
    "User-Force-Change-Password": "Reset Password",
    "Reanimate-Tombstones": "Reanimate Tombstones",
}
"""Extended rights as dsacls and Windows dialogs call them: the displayName of the controlAccessRight."""


class Grants(TypedDict):
    """The same grants for three tools, as lines to be run by somebody who may change access control there."""

    powershell: list[str]
    dsacls: list[str]
    sambaTool: list[str]


def grant_lines(rights: tuple[Right, ...], *, sid: str, account: str, base_dn: str, types: ObjectTypes) -> Grants:
    """The lines that give the account these rights below the base; empty without rights."""
    wanted = one_right_per_attribute(rights)
    places: dict[str, list[Right]] = {}
    for right in wanted:
        places.setdefault(base_dn if right.object_class else domain_of(base_dn), []).append(right)
    return {
        "powershell": [
            line for place, some in places.items() for line in _powershell(some, sid=sid, place=place, types=types)
        ],
        "dsacls": dsacls_lines(wanted, account=account, base_dn=base_dn),
        "sambaTool": [
            f"samba-tool dsacl set --objectdn={quote(place)} "
            f"--sddl={quote(''.join(_sddl(right, sid=sid, place=place, types=types) for right in some))}"
            for place, some in places.items()
        ],
    }


def reading_grant_lines(parts: Iterable[ReadCheck], *, sid: str, account: str) -> Grants:
    """The lines that let the account read these parts of the directory and everything below them."""
    lines = Grants(powershell=[], dsacls=[], sambaTool=[])
    for part in parts:
        is_control = part.part is DirectoryPart.ACCESS_CONTROL
        letters, names = ("RC", "ReadControl") if is_control else ("LCRP", "ListChildren, ReadProperty")
        on = f'dsacls "{part.place}"'
        if part.part is DirectoryPart.DELETED_OBJECTS:
            # Even administrators must own the container before they may change its DACL. Neither PowerShell's AD: drive
            # nor samba-tool can reach it.
            taking = [f"{on} /takeownership", f'{on} /G "{account}:{letters}"']
            lines["dsacls"] += taking
            lines["powershell"] += taking
            lines["sambaTool"].append(f"# samba-tool does not reach {part.place}")
            continue
        lines["dsacls"].append(f'{on} /I:T /G "{account}:{letters}"')
        lines["powershell"] += _powershell_edit(part.place, sid, [f"$who, '{names}', 'Allow', 'All'"])
        lines["sambaTool"].append(
            f"samba-tool dsacl set --objectdn={quote(part.place)} --sddl={quote(f'(A;CI;{letters};;;{sid})')}"
        )
    return lines


def merged_grants(*several: Grants) -> Grants:
    """The lines of all grants, in their order."""
    merged = Grants(powershell=[], dsacls=[], sambaTool=[])
    for each in several:
        merged["powershell"] += each["powershell"]
        merged["dsacls"] += each["dsacls"]
        merged["sambaTool"] += each["sambaTool"]
    return merged


def _ace_parts(right: Right, place: str, types: ObjectTypes) -> tuple[UUID | None, UUID | None, bool]:
    """An entry's object type, its inherited object type, and whether it applies only below the object."""
    of_class = types.guid_of(Subject.CLASS, right.object_class) if right.object_class else None
    if right.access in (Access.CREATE, Access.DELETE):
        return of_class, None, False
    subject = Subject.ATTRIBUTE if right.access is Access.WRITE else Subject.EXTENDED_RIGHT
    is_below = of_class is not None and not applies_to_base(right.object_class, place)
    return types.guid_of(subject, right.name) if right.name else None, of_class, is_below


def _sddl(right: Right, *, sid: str, place: str, types: ObjectTypes) -> str:
    """One entry ([MS-DTYP] 2.5.1.1), for the container and all below it, or only for objects of a class below it."""
    object_type, inherited_type, is_below = _ace_parts(right, place, types)
    flags = "CIIO" if is_below else "CI" if right.object_class else ""
    return f"(OA;{flags};{_SDDL_RIGHTS[right.access]};{object_type or ''};{inherited_type or ''};{sid})"


def _powershell(rights: list[Right], *, sid: str, place: str, types: ObjectTypes) -> list[str]:
    rules = []
    for right in rights:
        object_type, inherited_type, is_below = _ace_parts(right, place, types)
        inheritance = "Descendents" if is_below else "All" if right.object_class else "None"
        parts = f"$who, '{_DOTNET_RIGHTS[right.access]}', 'Allow', [guid]'{object_type or _EMPTY}', '{inheritance}'"
        rules.append(parts + (f", [guid]'{inherited_type}'" if inherited_type else ""))
    return _powershell_edit(place, sid, rules)


def _powershell_edit(place: str, sid: str, rules: list[str]) -> list[str]:
    """Lines that add rules to an object's DACL, on the AD: drive of the module ActiveDirectory."""
    path = "AD:" + place.replace("'", "''")
    return [
        f"$acl = Get-Acl -Path '{path}'",
        f"$who = [System.Security.Principal.SecurityIdentifier]'{sid}'",
        *(f"$acl.AddAccessRule([System.DirectoryServices.ActiveDirectoryAccessRule]::new({rule}))" for rule in rules),
        f"Set-Acl -Path '{path}' -AclObject $acl",
    ]


def one_right_per_attribute(rights: Iterable[Right]) -> tuple[Right, ...]:
    """The same rights, each once, with rights to write split into one for each attribute."""
    every: list[Right] = []
    for right in rights:
        usual = USUAL_ATTRIBUTES[right.object_class or ""] if right.access is Access.WRITE and not right.name else None
        every += (right,) if usual is None else write_rights(right.object_class or "", *usual)
    return tuple(dict.fromkeys(every))


def applies_to_base(object_class: str | None, base_dn: str) -> bool:
    """Whether a right on objects of the class includes the base itself, which a managed organizational unit does."""
    return object_class == "organizationalUnit" and base_dn[:3].upper() == "OU="


def dsacls_lines(rights: Iterable[Right], *, account: str, base_dn: str) -> list[str]:
    """The lines for dsacls, whose grants are `RIGHTS;OBJECT TYPE;INHERITED TYPE`. A class has one line for attributes.

    `/I:T` applies to a container and all below it, `/I:S` only to objects of the inherited type below it.
    """
    extended: list[str] = []
    children: dict[str, str] = {}
    written: dict[str, list[str]] = {}
    for right in one_right_per_attribute(rights):
        object_class = right.object_class or ""
        match right.access:
            case Access.CREATE | Access.DELETE:
                letters = "CC" if right.access is Access.CREATE else "DC"
                children[object_class] = children.get(object_class, "") + letters
            case Access.WRITE:
                written.setdefault(object_class, []).append(f'"{account}:RPWP;{right.name};{object_class}"')
            case Access.EXTENDED:
                place = f'"{base_dn}" /I:S' if object_class else f'"{domain_of(base_dn)}"'
                below = f";{object_class}" if object_class else ""
                extended.append(f'dsacls {place} /G "{account}:CA;{DISPLAY_NAMES[right.name]}{below}"')
    of_children = [
        f'dsacls "{base_dn}" /I:T /G "{account}:{letters};{object_class}"' for object_class, letters in children.items()
    ]
    of_attributes = [
        f'dsacls "{base_dn}" /I:{"T" if applies_to_base(object_class, base_dn) else "S"} /G {" ".join(entries)}'
        for object_class, entries in written.items()
    ]
    return of_children + of_attributes + extended


def account_name(bind_name: str) -> str:
    """The account as `dsacls` takes it: `name@domain` or `DOMAIN\\name`.

    For a distinguished name this is a guess: the account name may differ from the object's name.
    """
    if "=" not in bind_name:
        return bind_name
    try:
        name = DistinguishedName.parse(bind_name).rdn_value
    except InvalidValue:
        return bind_name
    return f"{name}@{'.'.join(part.partition('=')[2] for part in domain_of(bind_name).split(','))}"


def domain_of(dn: str) -> str:
    """The distinguished name of the domain that an object is in; the name itself where it has no DC parts."""
    try:
        return str(DistinguishedName.parse(dn).domain) or dn
    except InvalidValue:
        return dn
