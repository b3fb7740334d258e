"""The record of a directory object, one shape for every kind (contract section 3), made from an entry.

The hot path of every read: plain dictionaries, no model, one pass. What to ask the directory for is decided here too.
"""

from collections.abc import Collection
from dataclasses import dataclass

from typing_extensions import TypedDict

from directory import errors
from directory.ldap import Entry, Schema
from directory.ldap.codecs import decode, is_credential, sid_to_text
from directory.ldap.flags import FILETIME_NEVER, GroupType, UserAccountControl
from directory.shapes.account import GroupCategory, GroupScope
from directory.shapes.kinds import ACCOUNT_KINDS, DEFAULT_ATTRIBUTES, Kind, kind_of
from gateway.core.errors import FieldError

_IDENTITY = ("objectGUID", "objectClass", "name", "parentGUID", "uSNChanged", "whenCreated", "whenChanged")
_ACCOUNT = (
    *("sAMAccountName", "userPrincipalName", "objectSid", "userAccountControl", "msDS-User-Account-Control-Computed"),
    *("accountExpires", "pwdLastSet", "lastLogon", "lastLogonTimestamp"),
)
_GROUP = ("groupType", "member")
# What `protected` is judged by (`directory.policy`).
PROTECTION_ATTRIBUTES = (
    *("objectGUID", "objectSid", "memberOf", "primaryGroupID", "adminCount"),
    *("isCriticalSystemObject", "systemFlags", "userAccountControl"),
)
# An access control list has an operation and a permission of its own.
_HAS_ITS_OWN_OPERATION = frozenset({"ntsecuritydescriptor"})


class AccountRecord(TypedDict):
    """What users, computers and service accounts have besides."""

    samAccountName: str | None
    userPrincipalName: str | None
    sid: str | None
    enabled: bool
    lockedOut: bool
    expiresAt: str | None
    passwordLastSetAt: str | None
    passwordExpired: bool
    mustChangePassword: bool
    passwordNeverExpires: bool
    lastSignInAt: str | None


class GroupRecord(TypedDict):
    """What groups have besides. `memberCount` counts direct members; those by primary group are not among them."""

    scope: GroupScope
    type: GroupCategory
    memberCount: int


class DirectoryObject(TypedDict):
    """A directory object of any kind. `account` and `group` are null for kinds that have none."""

    id: str
    kind: Kind
    name: str
    distinguishedName: str
    parentId: str | None
    objectClass: list[str]
    version: str
    createdAt: str | None
    changedAt: str | None
    protected: bool
    account: AccountRecord | None
    group: GroupRecord | None
    attributes: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which attributes a record shows (`shown`: None for the kind's default set) and what must be read for it."""

    shown: tuple[str, ...] | None
    everything: bool
    to_read: tuple[str, ...]


def select(schema: Schema, requested: Collection[str] | None, kinds: Collection[Kind]) -> Selection:
    """The selection for `?attributes=`: None for the default, `*` for all, else names.

    Raises AttributeUnknown or AttributeNotReadable naming the parameter.
    """
    needed = dict.fromkeys((*_IDENTITY, *PROTECTION_ATTRIBUTES))
    if ACCOUNT_KINDS & set(kinds):
        needed.update(dict.fromkeys(_ACCOUNT))
    if Kind.GROUP in kinds:
        needed.update(dict.fromkeys(_GROUP))
    if requested is None:
        defaults = dict.fromkeys(name for kind in sorted(kinds) for name in sorted(DEFAULT_ATTRIBUTES[kind]))
        return Selection(
            shown=None, everything=False, to_read=(*needed, *(name for name in defaults if name not in needed))
        )
    names = dict.fromkeys(readable_name(schema, name, parameter="attributes") for name in requested if name != "*")
    everything = "*" in requested
    to_read = dict.fromkeys((*needed, *names, *(("*",) if everything else ())))
    return Selection(shown=tuple(names), everything=everything, to_read=tuple(to_read))


def readable_name(schema: Schema, name: str, *, parameter: str) -> str:
    """The schema's spelling of an attribute a caller may read; raises AttributeUnknown or AttributeNotReadable."""
    if is_credential(name) or name.lower() in _HAS_ITS_OWN_OPERATION:
        detail = f"{name} is never returned"
        raise errors.AttributeNotReadable(
            detail, errors=[FieldError(errors.AttributeNotReadable.code, detail, parameter=parameter)]
        )
    attribute = None if ";" in name else schema.attribute(name)
    if attribute is None:
        detail = f"{name!r} is no attribute of the directory's schema"
        raise errors.AttributeUnknown(
            detail, errors=[FieldError(errors.AttributeUnknown.code, detail, parameter=parameter)]
        )
    return attribute.name


def render(entry: Entry, schema: Schema, selection: Selection, *, protected: bool) -> DirectoryObject:
    """The record of an entry that was read with the selection's `to_read`."""
    classes = entry.object_classes
    kind = kind_of(classes)
    parents = entry.values("parentGUID")
    return {
        "id": str(entry.guid),
        "kind": kind,
        "name": entry.text("name") or "",
        "distinguishedName": entry.dn,
        "parentId": decode(schema.attribute("parentGUID"), parents)[0] if parents else None,
        "objectClass": classes,
        "version": version_of(entry),
        "createdAt": _time(entry, schema, "whenCreated"),
        "changedAt": _time(entry, schema, "whenChanged"),
        "protected": protected,
        "account": _account(entry, schema) if kind in ACCOUNT_KINDS else None,
        "group": _group(entry) if kind is Kind.GROUP else None,
        "attributes": _attributes(entry, schema, selection, kind),
    }


def version_of(entry: Entry) -> str:
    """The version of an entry: its own change number, which grows with every change, of links such as member too."""
    return f"{entry.integer('uSNChanged') or 0:x}"


def _time(entry: Entry, schema: Schema, name: str) -> str | None:
    values = entry.values(name)
    return decode(schema.attribute(name), values[:1])[0] if values else None


def _moment(entry: Entry, schema: Schema, name: str) -> str | None:
    """A FILETIME as RFC 3339; None for never."""
    return None if (entry.integer(name) or 0) in FILETIME_NEVER else _time(entry, schema, name)


def _account(entry: Entry, schema: Schema) -> AccountRecord:
    control = entry.integer("userAccountControl") or 0
    computed = entry.integer("msDS-User-Account-Control-Computed") or 0
    sids = entry.values("objectSid")
    must_change = entry.integer("pwdLastSet") == 0
    # lastLogon is this domain controller's, lastLogonTimestamp everybody's but up to two weeks late ([MS-ADA1] 2.351).
    sign_in = max(("lastLogon", "lastLogonTimestamp"), key=lambda name: entry.integer(name) or 0)
    return {
        "samAccountName": entry.text("sAMAccountName"),
        "userPrincipalName": entry.text("userPrincipalName"),
        "sid": sid_to_text(sids[0]) if sids else None,
        "enabled": not control & UserAccountControl.ACCOUNTDISABLE.value,
        "lockedOut": bool(computed & UserAccountControl.LOCKOUT.value),
        "expiresAt": _moment(entry, schema, "accountExpires"),
        "passwordLastSetAt": _moment(entry, schema, "pwdLastSet"),
        "passwordExpired": bool(computed & UserAccountControl.PASSWORD_EXPIRED.value) and not must_change,
        "mustChangePassword": must_change,
        "passwordNeverExpires": bool(control & UserAccountControl.DONT_EXPIRE_PASSWD.value),
        "lastSignInAt": _moment(entry, schema, sign_in),
    }


def _group(entry: Entry) -> GroupRecord:
    bits = GroupType.from_directory(entry.integer("groupType") or 0)
    scope: GroupScope = "domainLocal"
    if bits & GroupType.UNIVERSAL:
        scope = "universal"
    elif bits & GroupType.GLOBAL:
        scope = "global"
    return {
        "scope": scope,
        "type": "security" if bits & GroupType.SECURITY_ENABLED else "distribution",
        "memberCount": len(entry.values("member")),
    }


def _attributes(entry: Entry, schema: Schema, selection: Selection, kind: Kind) -> dict[str, list[str]]:
    names = sorted(DEFAULT_ATTRIBUTES[kind]) if selection.shown is None else selection.shown
    shown = {name: decode(schema.attribute(name), entry.values(name)) for name in names}
    if selection.everything:
        for name in entry:
            attribute = schema.attribute(name)
            # What was read for the record itself and is computed is not among an entry's attributes.
            is_hidden = name.lower() in _HAS_ITS_OWN_OPERATION or (attribute is not None and attribute.constructed)
            if not (is_hidden or is_credential(name) or name in shown):
                shown[name] = decode(attribute, entry.values(name))
    return shown
