"""The lines that grant rights to an account, for the three tools that administrators have: PowerShell, dsacls, Samba's.

All of them add entries and leave the others as they are. Granting nothing twice is the business of whoever asks.
"""

from collections.abc import Iterable
from shlex import quote
from uuid import UUID

from typing_extensions import TypedDict

from active_directory import ObjectTypes, Subject
from directory.security.needed_rights import Access, Right, by_attribute, domain_of, dsacls_lines, holds_for_base
from directory.security.readable import Readable, Reading

_LETTERS = {Access.WRITE: "WP", Access.CREATE: "CC", Access.DELETE: "DC", Access.EXTENDED: "CR"}
# System.DirectoryServices.ActiveDirectoryRights
_DOTNET = {
    Access.WRITE: "WriteProperty",
    Access.CREATE: "CreateChild",
    Access.DELETE: "DeleteChild",
    Access.EXTENDED: "ExtendedRight",
}
_EMPTY = UUID(int=0)


class Grants(TypedDict):
    """Lines to be run by somebody who may change access control there, the same for each tool."""

    powershell: list[str]
    dsacls: list[str]
    sambaTool: list[str]


def grants(rights: tuple[Right, ...], *, sid: str, account: str, base_dn: str, types: ObjectTypes) -> Grants:
    """What gives the account these rights below the base; nothing for no rights."""
    wanted = by_attribute(rights)
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


def reading_grants(parts: Iterable[Readable], *, sid: str, account: str) -> Grants:
    """What lets the account read these parts of the directory, at their places and below."""
    lines = Grants(powershell=[], dsacls=[], sambaTool=[])
    for part in parts:
        is_control = part.part is Reading.ACCESS_CONTROL
        letters, names = ("RC", "ReadControl") if is_control else ("LCRP", "ListChildren, ReadProperty")
        on = f'dsacls "{part.place}"'
        if part.part is Reading.DELETED_OBJECTS:
            # Even administrators may not change who lists them before they own the container. Neither the drive of
            # PowerShell nor samba-tool shows it.
            taking = [f"{on} /takeownership", f'{on} /G "{account}:{letters}"']
            lines["dsacls"] += taking
            lines["powershell"] += taking
            lines["sambaTool"].append(f"# samba-tool does not reach {part.place}")
            continue
        lines["dsacls"].append(f'{on} /I:T /G "{account}:{letters}"')
        lines["powershell"] += _changed(part.place, sid, [f"$who, '{names}', 'Allow', 'All'"])
        lines["sambaTool"].append(
            f"samba-tool dsacl set --objectdn={quote(part.place)} --sddl={quote(f'(A;CI;{letters};;;{sid})')}"
        )
    return lines


def together(*several: Grants) -> Grants:
    """All lines, those of the first before the others'."""
    return {
        "powershell": [line for each in several for line in each["powershell"]],
        "dsacls": [line for each in several for line in each["dsacls"]],
        "sambaTool": [line for each in several for line in each["sambaTool"]],
    }


def _entry(right: Right, place: str, types: ObjectTypes) -> tuple[UUID | None, UUID | None, bool]:
    """What the right is about, the class of objects that it is for, and whether it is for those below only."""
    of_class = types.guid_of(Subject.CLASS, right.object_class) if right.object_class else None
    if right.access in (Access.CREATE, Access.DELETE):
        return of_class, None, False
    subject = Subject.ATTRIBUTE if right.access is Access.WRITE else Subject.EXTENDED_RIGHT
    is_below = of_class is not None and not holds_for_base(right.object_class, place)
    return types.guid_of(subject, right.name) if right.name else None, of_class, is_below


def _sddl(right: Right, *, sid: str, place: str, types: ObjectTypes) -> str:
    """One entry ([MS-DTYP] 2.5.1.1): on the container and those below, or only on the objects below of a class."""
    what, objects, is_below = _entry(right, place, types)
    flags = "CIIO" if is_below else "CI" if right.object_class else ""
    return f"(OA;{flags};{_LETTERS[right.access]};{what or ''};{objects or ''};{sid})"


def _powershell(rights: list[Right], *, sid: str, place: str, types: ObjectTypes) -> list[str]:
    rules = []
    for right in rights:
        what, objects, is_below = _entry(right, place, types)
        inheritance = "Descendents" if is_below else "All" if right.object_class else "None"
        parts = f"$who, '{_DOTNET[right.access]}', 'Allow', [guid]'{what or _EMPTY}', '{inheritance}'"
        rules.append(parts + (f", [guid]'{objects}'" if objects else ""))
    return _changed(place, sid, rules)


def _changed(place: str, sid: str, rules: list[str]) -> list[str]:
    """For the module ActiveDirectory, which makes the directory a drive."""
    path = "AD:" + place.replace("'", "''")
    return [
        f"$acl = Get-Acl -Path '{path}'",
        f"$who = [System.Security.Principal.SecurityIdentifier]'{sid}'",
        *(f"$acl.AddAccessRule([System.DirectoryServices.ActiveDirectoryAccessRule]::new({rule}))" for rule in rules),
        f"Set-Acl -Path '{path}' -AclObject $acl",
    ]
