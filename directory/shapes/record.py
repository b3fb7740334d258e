"""The record of a directory object, one shape for every kind (docs/api.md#record), made from an entry.

The hot path of every read: plain dictionaries, no model, one pass. What to ask the directory for is decided here too.
Names are spelled as the schema spells them: so does the directory in its answers, whatever it was asked.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache

from typing_extensions import TypedDict

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
from directory.shapes.account import GroupCategory, GroupScope
from directory.shapes.kinds import ACCOUNT_KINDS, DEFAULT_ATTRIBUTES, Kind, kind_of

PARENT_ID = "parentGUID"
COMPUTED_CONTROL = "msDS-User-Account-Control-Computed"
SPARING_CONTROL = ("userAccountControl", "pwdLastSet", "lockoutTime")
"""What of an account tells whether COMPUTED_CONTROL has to be asked for (`directory.policies.known_policies`)."""
_IDENTITY = ("objectGUID", "objectClass", "name", PARENT_ID, "uSNChanged", "whenCreated", "whenChanged")
_ACCOUNT = (
    *("sAMAccountName", "userPrincipalName", "objectSid", "userAccountControl", COMPUTED_CONTROL),
    *("accountExpires", "pwdLastSet", "lastLogon", "lastLogonTimestamp"),
)
_GROUP = ("groupType", "member")
# What `protected` is judged by (`directory.protection.rules`).
PROTECTION_ATTRIBUTES = (
    *("objectGUID", "objectSid", "memberOf", "primaryGroupID", "adminCount"),
    *("isCriticalSystemObject", "systemFlags", "userAccountControl"),
)
# The same as the directory computes it, of single objects alone ([MS-ADTS] 3.1.1.4.5.19): what reads one of which it
# is to be judged anew asks for it at once, instead of in a read of its own.
PROTECTION_COMPUTED = ("tokenGroups",)
# An access control list has an operation and a permission of its own.
_HAS_ITS_OWN_OPERATION = frozenset({"ntsecuritydescriptor"})


class AccountRecord(TypedDict):
    """What users, computers and service accounts have besides."""

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
    """What groups have besides. `memberCount` counts direct members; those by primary group are not among them."""

    scope: GroupScope
    type: GroupCategory
    memberCount: int


class ObjectIdentity(TypedDict):
    """Which object it is and which version of it, and nothing else: what a caller is told who may not read objects."""

    id: Id
    kind: Kind
    distinguishedName: str
    version: str


class DirectoryObject(TypedDict):
    """A directory object of any kind. `account` and `group` are null for kinds that have none."""

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


class ChangedObject(ObjectIdentity, total=False):
    """The object of a change, as it is now. Whoever may not read objects gets the first four members alone."""

    name: str
    parentId: Id | None
    objectClass: list[str]
    createdAt: Moment | None
    changedAt: Moment | None
    protected: bool
    account: AccountRecord | None
    group: GroupRecord | None
    attributes: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which attributes a record shows (`shown`: None for the kind's default set) and what must be read for it.

    Confidential ones are among them for callers with the permission to read them (`confidential`). What a record holds
    besides its attributes is of Active Directory's base schema, in which nothing can be marked confidential ([MS-ADTS]
    3.1.1.2.3).
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
    """What a record of a kind shows when its caller names no attributes, in order."""
    return sorted(
        name
        for name in DEFAULT_ATTRIBUTES[kind]
        if why_unreadable(name, schema.attribute(name), confidential=confidential) is None
    )


def why_unreadable(name: str, attribute: AttributeType | None, *, confidential: bool) -> str | None:
    """Why a caller, who may read confidential attributes or not, may not read one; None for one they may.

    No secret is shown to anybody, and access control lists have a permission of their own.
    """
    if is_credential(name) or (attribute is not None and is_credential(attribute.name)):
        return message("is never shown")
    if name.lower() in _HAS_ITS_OWN_OPERATION:
        return message("is never shown here: access control has an operation of its own")
    if attribute is not None and attribute.confidential and not confidential:
        return message("is marked confidential by the directory's schema")
    return None


def readable_name(schema: Schema, name: str, *, parameter: str, confidential: bool) -> str:
    """The schema's spelling of an attribute a caller may read; raises AttributeUnknown or AttributeNotReadable."""
    if why := why_unreadable(name, schema.attribute(name), confidential=confidential):
        detail = message("{name} {why}", name=name, why=why)
        raise errors.AttributeNotReadable.naming(detail, parameter=parameter)
    attribute = None if ";" in name else schema.attribute(name)
    if attribute is None:
        detail = message("{name!r} is no attribute of the directory's schema", name=name)
        raise errors.AttributeUnknown.naming(detail, parameter=parameter)
    return attribute.name


def renderer_for(
    schema: Schema, requested: Collection[str] | None, kinds: Collection[Kind], *, confidential: bool
) -> "Renderer":
    """What makes the records for `?attributes=` (see `select`), kept with the schema: most calls ask for the same."""
    key = (renderer_for, None if requested is None else tuple(requested), frozenset(kinds), confidential)
    renderer: Renderer | None = schema.derived.get(key)
    if renderer is None:
        renderer = Renderer(schema, select(schema, requested, kinds, confidential=confidential))
        if len(schema.derived) < _MOST_KEPT:
            schema.derived[key] = renderer
    return renderer


def version_of(entry: Entry) -> str:
    """The version of an entry: its own change number, which grows with every change, of links such as member too."""
    return f"{entry.integer('uSNChanged') or 0:x}"


_Decoder = Callable[[bytes], str] | None
"""What makes text of a value; None where the value is left as it is (`Renderer`)."""
_MOST_KEPT = 1000
_NO_VALUES: list[bytes] = []


class Renderer:
    """Makes records of entries that were read with one selection; what the schema says is looked up once for all.

    With `octets` the values that are text in the directory stay octets (UTF-8): what writes them into JSON decodes
    them anyway, and 20 times as fast (`core.text.json_text`).
    """

    def __init__(self, schema: Schema, selection: Selection, *, octets: bool = False) -> None:
        self.selection = selection
        self._octets = octets
        self.to_read_with_policies: tuple[str, ...] = ()
        """What to read instead of `to_read` where the password policies are known; empty where no record is an
        account's, or the caller asks for what the domain controller computes."""
        if COMPUTED_CONTROL in selection.to_read and COMPUTED_CONTROL not in (selection.shown or ()):
            spared = (name for name in selection.to_read if name != COMPUTED_CONTROL)
            self.to_read_with_policies = tuple(dict.fromkeys((*spared, *SPARING_CONTROL)))
        self._schema = schema
        self._shown: dict[Kind, tuple[tuple[str, _Decoder], ...]] = {}
        self._time = decoder(schema.attribute("whenCreated"))
        self._filetime = decoder(schema.attribute("pwdLastSet"))

    def render_whole(
        self, entry: Entry, *, protected: bool, computed_control: int | None = None, version: str | None = None
    ) -> DirectoryObject:
        """The record of an entry that was read with all of the selection's `to_read`.

        `computed_control` is given where the entry was read without it, `version` where it has another (see `render`).
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
        """The record of an entry. Its version is its own change number unless another is given.

        `parent_id` and `computed_control` (of accounts) are given: a domain controller computes parentGUID and
        msDS-User-Account-Control-Computed for each entry, which for many takes longer than all the rest.
        """
        values = entry.attributes.get
        classes, kind = _classified(tuple(values("objectClass", _NO_VALUES)))
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
            "account": self._account(entry, computed_control) if kind in ACCOUNT_KINDS else None,
            "group": _group(entry) if kind is Kind.GROUP else None,
            "attributes": self._attributes(entry, kind),
        }

    def _account(self, entry: Entry, computed: int) -> AccountRecord:
        values = entry.attributes.get
        control = _integer(values("userAccountControl"))
        sids = values("objectSid")
        password_set = values("pwdLastSet")
        must_change = bool(password_set) and _integer(password_set) == 0 and not control & _KEEPS_PASSWORD
        # lastLogon is this domain controller's, lastLogonTimestamp everybody's but up to two weeks late
        # ([MS-ADA1] 2.351).
        own, shared = values("lastLogon"), values("lastLogonTimestamp")
        account: AccountRecord = {
            "samAccountName": _text(values("sAMAccountName")),
            "userPrincipalName": _text(values("userPrincipalName")),
            "sid": sid_to_text(sids[0]) if sids else None,
            "enabled": not control & _DISABLED,
            "lockedOut": False,
            "expiresAt": self._moment(values("accountExpires")),
            "passwordLastSetAt": self._moment(password_set),
            "passwordExpired": False,
            "mustChangePassword": must_change,
            "passwordNeverExpires": bool(control & _NEVER_EXPIRES),
            "lastSignInAt": self._moment(shared if _integer(shared) > _integer(own) else own),
        }
        if computed:
            set_computed_control(account, computed)
        return account

    def _moment(self, values: list[bytes] | None) -> str | None:
        """A FILETIME as RFC 3339; None for never, and for what is no date of any calendar."""
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
                shown[name] = found  # type: ignore[assignment]  # what writes JSON decodes them
            else:  # a single value, as most are, takes less than a list of them
                shown[name] = [decode(found[0])] if len(found) == 1 else [*map(decode, found)]
        if self.selection.everything:
            for name in entry:
                attribute = self._schema.attribute(name)
                # What was read for the record itself and is computed is not among an entry's attributes.
                is_hidden = attribute is not None and attribute.constructed
                if not (is_hidden or name in shown) and not why_unreadable(
                    name, attribute, confidential=self.selection.confidential
                ):
                    shown[name] = [*map(decoder(attribute), entry.values(name))]
        return shown

    def _decoders(self, kind: Kind) -> tuple[tuple[str, _Decoder], ...]:
        names: Collection[str] | None = self.selection.shown
        if names is None:
            names = default_attributes(self._schema, kind, confidential=self.selection.confidential)
        return tuple((name, self._decoder(self._schema.attribute(name))) for name in names)

    def _decoder(self, attribute: AttributeType | None) -> _Decoder:
        return None if self._octets and is_text(attribute) else decoder(attribute)


def set_computed_control(account: AccountRecord, control: int) -> None:
    """Set what msDS-User-Account-Control-Computed tells of an account."""
    account["lockedOut"] = bool(control & _LOCKED_OUT)
    account["passwordExpired"] = bool(control & _PASSWORD_EXPIRED) and not account["mustChangePassword"]


# As plain integers: an IntFlag makes an object of each result.
_DISABLED = UserAccountControl.ACCOUNTDISABLE.value
_LOCKED_OUT = UserAccountControl.LOCKOUT.value
_PASSWORD_EXPIRED = UserAccountControl.PASSWORD_EXPIRED.value
_NEVER_EXPIRES = UserAccountControl.DONT_EXPIRE_PASSWD.value
_KEEPS_PASSWORD = KEEPS_PASSWORD.value


@lru_cache(maxsize=1024)
def _classified(values: tuple[bytes, ...]) -> tuple[tuple[str, ...], Kind]:
    """The classes as text and the kind they make: a directory has few combinations of classes."""
    classes = tuple(value.decode("utf-8", "replace") for value in values)
    return classes, kind_of(classes)


def _text(values: list[bytes] | None) -> str | None:
    return values[0].decode("utf-8", "replace") if values else None


def _integer(values: list[bytes] | None) -> int:
    return int(values[0]) if values else 0


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
