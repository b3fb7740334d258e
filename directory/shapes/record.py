"""The record of a directory object, one shape for every kind (docs/api.md#record), and which attributes it needs.

This is the hot path of every read: plain dictionaries, no model, one pass. Attribute names are in the schema's
spelling, which the directory uses in its answers whatever the request had.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache

from typing_extensions import NotRequired, TypedDict

from active_directory import (
    KEEPS_PASSWORD,
    AttributeType,
    Entry,
    GroupType,
    Schema,
    UserAccountControl,
    decoder,
    guid_to_text,
    is_credential,
    is_text,
    sid_to_text,
)
from core.shapes import Id, Moment
from core.text.messages import message
from directory import errors
from directory.shapes.inputs import GroupCategory, GroupScope
from directory.shapes.kinds import ACCOUNT_KINDS, DEFAULT_ATTRIBUTES, Kind, kind_of, kind_of_entry

PARENT_ID = "parentGUID"
COMPUTED_CONTROL = "msDS-User-Account-Control-Computed"
SPARING_CONTROL = ("userAccountControl", "pwdLastSet", "lockoutTime")
"""Attributes of an account that show whether COMPUTED_CONTROL must be read (`directory.policies.known_policies`)."""
_IDENTITY = ("objectGUID", "objectClass", "name", PARENT_ID, "uSNChanged", "whenCreated", "whenChanged")
_ACCOUNT = (
    *("sAMAccountName", "userPrincipalName", "objectSid", "userAccountControl", COMPUTED_CONTROL),
    *("accountExpires", "pwdLastSet", "lastLogon", "lastLogonTimestamp"),
)
_GROUP = ("groupType", "member")
# `protected` depends on these (`directory.protection.rules`).
PROTECTION_ATTRIBUTES = tuple(
    """
    objectGUID objectSid memberOf primaryGroupID adminCount isCriticalSystemObject systemFlags userAccountControl
    """.split()
)
# The directory computes this for base searches only ([MS-ADTS] 3.1.1.4.5.19). A read of an object whose protection will
# be decided again includes it, to save a second read.
PROTECTION_COMPUTED = ("tokenGroups",)
# An access control list has an operation and a permission of its own.
_READ_BY_OTHER_OPERATIONS = frozenset({"ntsecuritydescriptor"})


class AccountRecord(TypedDict):
    """Properties of users, computers and service accounts."""

    samAccountName: str | None
    userPrincipalName: str | None
    sid: str | None
    enabled: bool
    lockedOut: bool
    expiresAt: Moment | None
    passwordLastSetAt: Moment | None
    passwordExpired: bool
    mustChangePassword: bool
    passwordNeverExpires: bool
    lastSignInAt: Moment | None


class GroupRecord(TypedDict):
    """Properties of groups. `memberCount` counts the members that the group's list shows, primary ones included."""

    scope: GroupScope
    type: GroupCategory
    memberCount: int


class ObjectIdentity(TypedDict):
    """The identity and version of an object: all that a caller without permission to read objects gets."""

    id: Id
    kind: Kind
    distinguishedName: str
    version: str


class Manager(TypedDict):
    """The object that `manager` names. Values that the caller may not read are null."""

    id: Id
    kind: Kind
    distinguishedName: str
    name: str | None
    displayName: str | None
    samAccountName: str | None
    userPrincipalName: str | None
    mail: str | None


class DirectoryObject(TypedDict):
    """A directory object of any kind. `account` and `group` are null for kinds that have none.

    `manager` is there only with `expand=manager`, and null where the caller may see none.
    """

    id: Id
    kind: Kind
    name: str
    distinguishedName: str
    parentId: Id | None
    objectClass: list[str]
    version: str
    createdAt: Moment | None
    changedAt: Moment | None
    protected: bool
    account: AccountRecord | None
    group: GroupRecord | None
    attributes: dict[str, list[str]]
    manager: NotRequired[Manager | None]


class ChangedObject(ObjectIdentity, total=False):
    """The object of a change, as it is now. Callers who may not read objects get only the first four members.

    `generatedPassword` is there if the gateway made the password of a new account, and shown only in this answer.
    """

    name: str
    parentId: Id | None
    objectClass: list[str]
    createdAt: Moment | None
    changedAt: Moment | None
    protected: bool
    account: AccountRecord | None
    group: GroupRecord | None
    attributes: dict[str, list[str]]
    generatedPassword: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Which attributes a record shows (`shown`; None for the kind's default set) and which must be read for it.

    `confidential` is whether the caller may read confidential attributes. The other members of a record come from
    attributes of the base schema, which cannot be marked confidential ([MS-ADTS] 3.1.1.2.3).
    """

    shown: tuple[str, ...] | None
    everything: bool
    to_read: tuple[str, ...]
    confidential: bool = False


def select(
    schema: Schema, requested: Collection[str] | None, kinds: Collection[Kind], *, confidential: bool
) -> Selection:
    """The selection for `?attributes=`: None for the default, `*` for all, else names.

    Raises AttributeUnknown or AttributeNotReadable naming the parameter.
    """
    needed = dict.fromkeys((*_IDENTITY, *PROTECTION_ATTRIBUTES))
    if ACCOUNT_KINDS & set(kinds):
        needed.update(dict.fromkeys(_ACCOUNT))
    if Kind.GROUP in kinds:
        needed.update(dict.fromkeys(_GROUP))
    if requested is None:
        defaults = dict.fromkeys(
            name for kind in sorted(kinds) for name in default_attributes(schema, kind, confidential=confidential)
        )
        to_read = dict.fromkeys((*needed, *defaults))
        return Selection(shown=None, everything=False, to_read=tuple(to_read), confidential=confidential)
    names = dict.fromkeys(
        readable_name(schema, name, parameter="attributes", confidential=confidential)
        for name in requested
        if name != "*"
    )
    everything = "*" in requested
    to_read = dict.fromkeys((*needed, *names, *(("*",) if everything else ())))
    return Selection(shown=tuple(names), everything=everything, to_read=tuple(to_read), confidential=confidential)


def default_attributes(schema: Schema, kind: Kind, *, confidential: bool) -> list[str]:
    """The attributes that a record of a kind shows when the caller names none, in order."""
    return sorted(
        name
        for name in DEFAULT_ATTRIBUTES[kind]
        if unreadable_reason(name, schema.attribute(name), confidential=confidential) is None
    )


def unreadable_reason(name: str, attribute: AttributeType | None, *, confidential: bool) -> str | None:
    """Why a caller may not read an attribute, or None; `confidential` is whether they may read confidential ones.

    Nobody may read secrets, and access control lists have a permission of their own.
    """
    if is_credential(name) or (attribute is not None and is_credential(attribute.name)):
        return message("is never shown")
    if name.lower() in _READ_BY_OTHER_OPERATIONS:
        return message("is never shown here: access control has an operation of its own")
    if attribute is not None and attribute.is_confidential and not confidential:
        return message("is marked confidential by the directory's schema")
    return None


def readable_name(schema: Schema, name: str, *, parameter: str, confidential: bool) -> str:
    """The schema's spelling of an attribute a caller may read; raises AttributeUnknown or AttributeNotReadable."""
    if why := unreadable_reason(name, schema.attribute(name), confidential=confidential):
        detail = message("{name} {why}", name=name, why=why)
        raise errors.AttributeNotReadable.naming(detail, parameter=parameter)
    attribute = None if ";" in name else schema.attribute(name)
    if attribute is None:
        detail = message("{name!r} is no attribute of the directory's schema", name=name)
        raise errors.AttributeUnknown.naming(detail, parameter=parameter)
    return attribute.name


def renderer_for(
    schema: Schema,
    requested: Collection[str] | None,
    kinds: Collection[Kind],
    *,
    confidential: bool,
    octets: bool = False,
) -> "Renderer":
    """The renderer for `?attributes=` (see `select`), cached with the schema, as most calls ask for the same."""
    key = (renderer_for, None if requested is None else tuple(requested), frozenset(kinds), confidential, octets)
    renderer: Renderer | None = schema.derived.get(key)
    if renderer is None:
        renderer = Renderer(schema, select(schema, requested, kinds, confidential=confidential), octets=octets)
        if len(schema.derived) < _MAX_RENDERERS:
            schema.derived[key] = renderer
    return renderer


def version_of(entry: Entry) -> str:
    """The version of an entry: its uSNChanged, which grows with every change, also of links such as member."""
    return f"{entry.integer('uSNChanged') or 0:x}"


_Decoder = Callable[[bytes], str] | None
"""Decodes a value to text; None where the octets are left as they are (`Renderer`)."""
_MAX_RENDERERS = 1000
_NO_VALUES: list[bytes] = []
_Get = Callable[[str], list[bytes] | None]


class Renderer:
    """Makes records of entries that were read with one selection, and looks the schema up once for all of them.

    With `octets`, text values stay octets (UTF-8): the JSON writer decodes them anyway, 20 times as fast
    (`core.shapes.encode_json`).
    """

    def __init__(self, schema: Schema, selection: Selection, *, octets: bool = False) -> None:
        self.selection = selection
        self.octets = octets
        self.to_read_with_policies: tuple[str, ...] = ()
        """What to read instead of `to_read` where the password policies are known. Empty where no record is an
        account's, or the caller asks for the computed attribute itself."""
        if COMPUTED_CONTROL in selection.to_read and COMPUTED_CONTROL not in (selection.shown or ()):
            spared = (name for name in selection.to_read if name != COMPUTED_CONTROL)
            self.to_read_with_policies = tuple(dict.fromkeys((*spared, *SPARING_CONTROL)))
        self.may_coalesce = not selection.everything and not any(
            attribute is not None and attribute.constructed
            for attribute in map(schema.attribute, selection.shown or ())
        )
        """Whether one search may read several objects for it: the directory computes some attributes for base searches
        only, and a group's members may take long."""
        self.schema = schema
        self._shown: dict[Kind, tuple[tuple[str, _Decoder], ...]] = {}
        self._time = decoder(schema.attribute("whenCreated"))
        self._filetime = decoder(schema.attribute("pwdLastSet"))

    def render_whole(
        self, entry: Entry, *, protected: bool, computed_control: int | None = None, version: str | None = None
    ) -> DirectoryObject:
        """The record of an entry that was read with the selection's `to_read`.

        `computed_control` must be given for an entry that was read without it; `version` overrides the entry's own.
        """
        parents = entry.values(PARENT_ID)
        if computed_control is None:
            computed_control = entry.integer(COMPUTED_CONTROL) or 0
        return self.render(
            entry,
            protected=protected,
            parent_id=guid_to_text(parents[0]) if parents else None,
            computed_control=computed_control,
            version=version,
        )

    def render(
        self,
        entry: Entry,
        *,
        protected: bool,
        parent_id: str | None,
        computed_control: int,
        version: str | None = None,
    ) -> DirectoryObject:
        """The record of an entry. Its version is `version_of(entry)` unless another is given.

        `parent_id` and `computed_control` (of accounts) are not taken from the entry: a domain controller computes
        parentGUID and msDS-User-Account-Control-Computed for each entry, which takes longer than the rest of a search.
        """
        values = entry.attributes.get
        classes, kind = classify(tuple(values("objectClass", _NO_VALUES)))
        created, changed = values("whenCreated"), values("whenChanged")
        return {
            "id": guid_to_text(values("objectGUID", _NO_VALUES)[0]),
            "kind": kind,
            "name": _text(values("name")) or "",
            "distinguishedName": entry.dn,
            "parentId": parent_id,
            "objectClass": list(classes),
            "version": version or version_of(entry),
            "createdAt": self._time(created[0]) if created else None,
            "changedAt": self._time(changed[0]) if changed else None,
            "protected": protected,
            "account": self._account_record(entry, computed_control) if kind in ACCOUNT_KINDS else None,
            "group": _group_record(entry) if kind is Kind.GROUP else None,
            "attributes": self._attributes(entry, kind),
        }

    def _account_record(self, entry: Entry, computed: int) -> AccountRecord:
        values = entry.attributes.get
        sids = values("objectSid")
        enabled, locked_out, expired, must_change, never_expires = account_state(values, computed)
        return {
            "samAccountName": _text(values("sAMAccountName")),
            "userPrincipalName": _text(values("userPrincipalName")),
            "sid": sid_to_text(sids[0]) if sids else None,
            "enabled": enabled,
            "lockedOut": locked_out,
            "expiresAt": self._moment(values("accountExpires")),
            "passwordLastSetAt": self._moment(values("pwdLastSet")),
            "passwordExpired": expired,
            "mustChangePassword": must_change,
            "passwordNeverExpires": never_expires,
            "lastSignInAt": self.last_sign_in(values),
        }

    def last_sign_in(self, values: _Get) -> str | None:
        # lastLogon is of this domain controller only; lastLogonTimestamp replicates, but is up to two weeks late
        # ([MS-ADA1] 2.351).
        own, shared = values("lastLogon"), values("lastLogonTimestamp")
        return self._moment(shared if _integer(shared) > _integer(own) else own)

    def _moment(self, values: list[bytes] | None) -> str | None:
        """A FILETIME as RFC 3339; None for never, and for a value beyond the calendar."""
        moment = self._filetime(values[0]) if values else ""
        return moment if moment.endswith("Z") else None

    def _attributes(self, entry: Entry, kind: Kind) -> dict[str, list[str]]:
        decoders = self._shown.get(kind)
        if decoders is None:
            decoders = self._shown.setdefault(kind, self._decoders(kind))
        values = entry.attributes.get
        shown: dict[str, list[str]] = {}
        for name, decode in decoders:
            found = values(name, _NO_VALUES)
            if decode is None:
                shown[name] = found  # type: ignore[assignment]  # the JSON writer decodes them
            else:  # faster for a single value, which most are
                shown[name] = [decode(found[0])] if len(found) == 1 else [*map(decode, found)]
        if self.selection.everything:
            for name in entry:
                attribute = self.schema.attribute(name)
                # `*` does not include computed attributes; these were read for other members of the record.
                is_hidden = attribute is not None and attribute.constructed
                if not (is_hidden or name in shown) and not unreadable_reason(
                    name, attribute, confidential=self.selection.confidential
                ):
                    shown[name] = [*map(decoder(attribute), entry.values(name))]
        return shown

    def _decoders(self, kind: Kind) -> tuple[tuple[str, _Decoder], ...]:
        return tuple((name, self._decoder(self.schema.attribute(name))) for name in self.shown_names(kind))

    def shown_names(self, kind: Kind) -> Collection[str]:
        """The attributes that records of a kind show, without the others of `*`."""
        shown = self.selection.shown
        return (
            default_attributes(self.schema, kind, confidential=self.selection.confidential) if shown is None else shown
        )

    def shown_of(self, entry: Entry) -> Collection[str]:
        """The attributes of an entry that its record shows."""
        return entry.attributes if self.selection.everything else self.shown_names(kind_of_entry(entry))

    def _decoder(self, attribute: AttributeType | None) -> _Decoder:
        return None if self.octets and is_text(attribute) else decoder(attribute)


def account_state(values: _Get, computed: int) -> tuple[bool, bool, bool, bool, bool]:
    """Whether an account is enabled and locked out, its password expired, must be changed, and never expires."""
    control, password_set = _integer(values("userAccountControl")), values("pwdLastSet")
    must_change = bool(password_set) and _integer(password_set) == 0 and not control & _KEEPS_PASSWORD
    expired = bool(computed & _PASSWORD_EXPIRED) and not must_change
    return not control & _DISABLED, bool(computed & _LOCKED_OUT), expired, must_change, bool(control & _NEVER_EXPIRES)


# Plain integers, as an IntFlag creates an object for each result.
_DISABLED = UserAccountControl.ACCOUNTDISABLE.value
_LOCKED_OUT = UserAccountControl.LOCKOUT.value
_PASSWORD_EXPIRED = UserAccountControl.PASSWORD_EXPIRED.value
_NEVER_EXPIRES = UserAccountControl.DONT_EXPIRE_PASSWD.value
_KEEPS_PASSWORD = KEEPS_PASSWORD.value


@lru_cache(maxsize=1024)
def classify(values: tuple[bytes, ...]) -> tuple[tuple[str, ...], Kind]:
    """The classes as text, and the kind; cached, as a directory has few combinations of classes."""
    classes = tuple(value.decode("utf-8", "replace") for value in values)
    return classes, kind_of(classes)


def _text(values: list[bytes] | None) -> str | None:
    return values[0].decode("utf-8", "replace") if values else None


def _integer(values: list[bytes] | None) -> int:
    return int(values[0]) if values else 0


def _group_record(entry: Entry) -> GroupRecord:
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
