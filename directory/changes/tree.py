"""Proposals to delete an object, alone or with everything below it, to move it, and to rename it.

AD accepts only distinguished names in a modifyDN (`active_directory.Rename`), so the name is resolved from the
objectGUID right before the write, and the object is read by its objectGUID afterwards to confirm that it was meant.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from uuid import UUID

from active_directory import (
    Client,
    Delete,
    DistinguishedName,
    Entry,
    Equals,
    InstanceType,
    Rename,
    Schema,
    Scope,
    days_in_recycle_bin,
    decode,
    is_credential,
    is_protected_from_deletion,
    is_recycle_bin_enabled,
    make_rdn,
)
from core.call import Call
from core.errors import InvalidRequest
from core.operation import Risk
from core.text.messages import Message, message
from directory import errors
from directory.changes.references import parent_name
from directory.changes.targets import (
    TARGET_ATTRIBUTES,
    find_target,
    require_name_free,
    require_possible_parent,
    target_of,
)
from directory.groups import require_not_primary_group
from directory.lookup.access import Reference, client_of, find_object, find_parent, has_children, require_inside_scopes
from directory.lookup.prefetch import prefetch_of
from directory.lookup.visibility import visibility_of
from directory.outcomes.evidence import evidence_of
from directory.policies.change_warnings import inheritance_warnings
from directory.protection.rules import (
    contains_protected,
    is_content_protected,
    is_protected,
    protected_among,
    require_may_write,
)
from directory.queries.reading import read_record
from directory.security.access_control import descriptor_of
from directory.shapes.kinds import ACCOUNT_KINDS, KINDS, RESOURCES, Kind, kind_of_entry, permission_for
from directory.shapes.proposal import AttributeChange, Proposal
from directory.shapes.record import PROTECTION_ATTRIBUTES, DirectoryObject
from directory.shapes.value_rules import name_problem

# Only the directory writes these, but administrators want to know them of a deleted object, or a restore needs them.
_ALWAYS_LOGGED = frozenset("objectclass objectsid memberof admincount pwdlastset lastlogontimestamp".split())
_NEVER_LOGGED = frozenset(
    """
    name cn ou distinguishedname objectcategory dscorepropagationdata lastlogon logoncount badpwdcount
    badpasswordtime lastlogoff codepage countrycode ntsecuritydescriptor
    """.split()
)

_NAMES_SHOWN = 20
_FIRST_COMPONENT = re.compile(r"(?:[^\\,]|\\.)+")
_MAX_COUNTED = 10_000
"""Objects below a moved one are counted up to this number; nobody needs a greater one exactly."""

_RENAME_WARNINGS = {
    **dict.fromkeys(
        ACCOUNT_KINDS,
        message("Only the object is renamed: its sAMAccountName, userPrincipalName and displayName stay."),
    ),
    Kind.COMPUTER: message(
        "Only the object is renamed: its sAMAccountName, dNSHostName and service principal names stay, and the "
        "machine keeps its name."
    ),
    Kind.GROUP: message("Only the object is renamed: its sAMAccountName stays."),
}
LARGE_SUBTREE = 500
"""The number of objects from which a warning tells of the duration. A Samba domain of 20,000 objects took over 20 s to
move or delete a unit with 1,000 (measured)."""


def propose_delete(call: Call, *, resource: str, id: UUID, recursive: bool) -> Proposal:
    """Propose to delete an object; with `recursive`, along with everything below it, of which each object is checked.

    Raises DeletionProtected for the object or, recursively, for any below it; NotEmpty without `recursive`;
    DirectoryDenied when the bind account cannot read what decides whether one of them may be deleted; PrimaryGroup for
    an account's primary group.
    """
    client = client_of(call)
    find_object(call, id, kinds=RESOURCES[resource].kinds, attributes=())  # checks the caller's scopes
    # All readable attributes: without the recycle bin, a restore takes them from the record of the deletion.
    entry = client.read(id, ("*", *TARGET_ATTRIBUTES), descriptor=True, identities=True)
    protected = require_may_write(call, protected=is_protected(client, entry, prefetch=prefetch_of(call)))
    below = _below(client, entry)
    if recursive:
        for descendant in below:
            _require_readable(descendant)
    judgeable = [descendant for descendant in below if "objectGUID" in descendant]
    protected_below = protected_among(client, judgeable, prefetch=prefetch_of(call))
    protected = require_may_write(call, protected=protected or bool(protected_below))
    _require_deletable(entry)
    if below and not recursive:
        raise errors.NotEmpty(objectsBelow=len(below))
    for descendant in below:
        _require_deletable(descendant)
    require_not_primary_group(client, (entry, *below), display_name=lambda name: visibility_of(call).display_name(name))
    write = Delete(entry.dn, tree=bool(below))
    names = tuple(descendant.dn for descendant in below)
    return Proposal(
        target=target_of(entry),
        changes=(AttributeChange("distinguishedName", (entry.dn, *names), ()), *_before_image(client.schema, entry)),
        write=write,
        answer=lambda: None,
        requires=frozenset(permission_for("delete", kind_of_entry(each)) for each in (entry, *below)),
        protected=protected,
        risk=Risk.DESTRUCTIVE,
        warnings=_warnings(client, visibility_of(call).confined(entry), below) if call.dry_run else (),
        evidence=evidence_of(write, entry=entry),
        identities={**entry.identities, **{each.dn: each.guid for each in (entry, *below)}},
    )


def _below(client: Client, top: Entry) -> list[Entry]:
    """Everything below an object, read with what decides whether it may be deleted.

    An object whose children cannot be seen counts as empty: the directory refuses to delete it alone if it is not.
    """
    if not has_children(client, top):
        return []
    rows = client.search(
        top.dn, Scope.SUBTREE, attributes=(*PROTECTION_ATTRIBUTES, "objectClass"), descriptor=True, patient=True
    )
    return [entry for entry in rows if entry.dn.lower() != top.dn.lower()]


def _require_readable(entry: Entry) -> None:
    """Refuse an object that the bind account may not read: it might be an administrator. Raises DirectoryDenied.

    Objects below it might not even be listed, but would be deleted all the same.
    """
    if not all(name in entry for name in ("objectGUID", "objectClass", "nTSecurityDescriptor")):
        raise errors.DirectoryDenied(
            message(
                "The gateway's own account may not read {dn}: what would be deleted with it cannot be judged.",
                dn=entry.dn,
            )
        )


def _before_image(schema: Schema, entry: Entry) -> Iterator[AttributeChange]:
    for name in sorted(entry):
        attribute = schema.attribute(name)
        if attribute is None or is_credential(name) or name.lower() in _NEVER_LOGGED:
            continue
        if attribute.is_confidential:  # such values, like passwords, are stored in the directory only
            continue
        maintained = attribute.system_only or attribute.constructed or attribute.is_back_link
        if not maintained or name.lower() in _ALWAYS_LOGGED:
            yield AttributeChange(attribute.name, tuple(decode(attribute, entry.values(name))), ())


def _kept_in_recycle_bin(days: int | None, *, has_content: bool) -> Message:
    """Say how long the recycle bin keeps the deleted objects; `days` is None if the lifetime cannot be read."""
    if not has_content:
        return (
            message(
                "The recycle bin keeps it for {days} days, with attributes and memberships: until then the deletion "
                "can be undone.",
                days=days,
            )
            if days
            else message(
                "The recycle bin keeps it, with attributes and memberships: until then the deletion can be undone."
            )
        )
    return (
        message(
            "The recycle bin keeps it and everything below it for {days} days, with attributes and memberships: "
            "until then the deletion can be undone.",
            days=days,
        )
        if days
        else message(
            "The recycle bin keeps it and everything below it, with attributes and memberships: until then the "
            "deletion can be undone."
        )
    )


def _warnings(client: Client, entry: Entry, below: Sequence[Entry]) -> tuple[str, ...]:
    """Warn of what will be deleted, and of what a restore could not bring back."""
    warnings = []
    if below:
        kinds = _count_kinds(below)
        if len(below) == 1:
            warnings.append(message("1 object below it is deleted too: {kinds}.", kinds=kinds))
        else:
            warnings.append(
                message("{count} objects below it are deleted too: {kinds}.", count=len(below), kinds=kinds)
            )
        warnings += _duration_warnings(len(below))
    if groups := entry.texts("memberOf"):
        warnings.append(
            message("It is a member of {count} groups: {shown}.", count=len(groups), shown=_join_names(groups))
        )
    if members := entry.values("member"):
        warnings.append(message("Its {count} members lose the membership.", count=len(members)))
    if is_recycle_bin_enabled(client):
        warnings.append(_kept_in_recycle_bin(days_in_recycle_bin(client), has_content=bool(below)))
    else:
        warnings.append(
            message(
                "The recycle bin is not enabled. A restored object keeps its objectGUID, SID, sAMAccountName and "
                "access control list. Its other attributes and memberships are lost to the directory and given back "
                "from the operations log; its password is lost."
            )
        )
        if below:
            warnings.append(
                message("Of the {count} objects below it the operations log keeps no attributes.", count=len(below))
            )
    return tuple(warnings)


def _count_kinds(entries: Sequence[Entry]) -> str:
    """The number of entries of each kind, the most frequent first: "9 users, 2 groups"."""
    counts = Counter(kind_of_entry(entry) for entry in entries)
    return ", ".join(
        f"{count} {'other ' * (kind is Kind.OBJECT)}{KINDS[kind].singular if count == 1 else KINDS[kind].many}"
        for kind, count in counts.most_common()
    )


def _join_names(names: Sequence[str]) -> str:
    values = [DistinguishedName.parse(name).rdn_value for name in names[:_NAMES_SHOWN]]
    return ", ".join(sorted(values)) + (f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else "")


def propose_move(call: Call, *, resource: str, id: UUID, parent: Reference) -> Proposal:
    """Propose to move an object below another parent; it keeps its name.

    Raises ObjectNotFound for the object and the parent, Forbidden when either or the current parent is outside the
    scopes, DeletionProtected (a move needs the right to delete, [MS-ADTS] 3.1.1.5.4.1.1), MoveBelowItself,
    AlreadyExists, and DirectoryRejected for a parent that cannot contain the object's class.
    """
    client = client_of(call)
    entry, protected = _find_movable(call, id, resource)
    container = find_parent(call, parent, attributes=PROTECTION_ATTRIBUTES)
    stays = container.guid.bytes_le in entry.values("parentGUID")
    # An object in a container such as Domain Controllers is protected by its place alone.
    protected = require_may_write(call, protected=protected or (not stays and is_content_protected(client, container)))
    old = DistinguishedName.parse(entry.dn)
    if DistinguishedName.parse(container.dn).is_within(old):
        raise errors.MoveBelowItself
    rdn = _spelled_rdn(entry.dn)
    write = None
    if not stays:
        _require_deletable(client.read(id, ("objectGUID",), descriptor=True))
        require_possible_parent(client.schema, entry.object_classes, container, "#/parent")
        write = Rename(entry.dn, rdn, container.dn)
    return _propose_new_dn(
        call,
        entry,
        write,
        new_dn=f"{rdn},{container.dn}",
        protected=protected,
        new_parent=container.guid,
        risk_reason=_move_risk(client, entry) if write else None,
        warnings=lambda: inheritance_warnings(client, entry, container.dn, visibility_of(call)),
    )


def _move_risk(client: Client, entry: Entry) -> str | None:
    """Why a move is destructive, or None.

    Other group policies may apply to the accounts in a moved container, and other people may administer them.
    """
    if kind_of_entry(entry) is Kind.ORGANIZATIONAL_UNIT:
        return message("it moves an organizational unit")
    if not has_children(client, entry):
        return None
    is_account = Equals("objectClass", "user")
    accounts = client.search(entry.dn, Scope.SUBTREE, is_account, attributes=("objectGUID",), limit=2)
    has_accounts = any(account.guid != entry.guid for account in accounts)
    return message("it moves a container with accounts in it") if has_accounts else None


def propose_rename(call: Call, *, resource: str, id: UUID, name: str) -> Proposal:
    """Propose to rename an object in its container. A name that differs only in case is another name.

    Raises InvalidRequest for an impossible name, ObjectNotFound, Forbidden and AlreadyExists.
    """
    if complaint := name_problem(name):
        raise InvalidRequest.naming(complaint, pointer="#/name")
    entry, protected = _find_movable(call, id, resource)
    old = DistinguishedName.parse(entry.dn)
    rdn = make_rdn(old.rdn_attribute, name)
    write = None if name == entry.text("name") else Rename(entry.dn, rdn)
    kind = kind_of_entry(entry)
    return _propose_new_dn(
        call,
        entry,
        write,
        new_dn=f"{rdn},{old.parent}",
        protected=protected,
        requires=frozenset({permission_for("update", kind)}),
        warnings=lambda: (_RENAME_WARNINGS[kind],) if kind in _RENAME_WARNINGS else (),
    )


def _find_movable(call: Call, id: UUID, resource: str) -> tuple[Entry, bool]:
    """The object to move or rename, and whether it is protected or contains a protected object.

    Raises Forbidden for a protected one that the caller may not write, and when its parent is outside the caller's
    scopes: the base object of a scope keeps its place and name.
    """
    client = client_of(call)
    entry, protected = find_target(call, resource, id, "parentGUID", "gPOptions", "instanceType")
    require_inside_scopes(call, str(DistinguishedName.parse(entry.dn).parent))
    if not protected and has_children(client, entry):
        protected = require_may_write(call, protected=contains_protected(client, entry.dn))
    if (entry.integer("instanceType") or 0) & InstanceType.HEAD_OF_NAMING_CONTEXT:
        raise errors.DirectoryRejected(message("The root of a naming context has no other place and no other name."))
    return entry, protected


def _spelled_rdn(dn: str) -> str:
    """The RDN as the directory spells it, since servers differ in what they escape."""
    found = _FIRST_COMPONENT.match(dn)
    return found[0] if found else DistinguishedName.parse(dn).rdn


def _propose_new_dn(
    call: Call,
    entry: Entry,
    write: Rename | None,
    *,
    new_dn: str,
    protected: bool,
    new_parent: UUID | None = None,
    requires: frozenset[str] = frozenset(),
    risk_reason: str | None = None,
    warnings: Callable[[], Iterable[str]],
) -> Proposal:
    """Propose a new distinguished name for an entry; without a write the entry has it already."""
    client, target = client_of(call), target_of(entry)
    if write is None:
        answer = partial(read_record, call, entry.guid)
        return Proposal(target=target, changes=(), answer=answer, requires=requires, protected=protected)
    require_name_free(client, new_dn, besides=entry.guid)  # an object may take its own name in another spelling
    # The parents before and after the move; a rename has one only.
    parents = {parent_name(entry.dn): UUID(bytes_le=computed) for computed in entry.values("parentGUID")}
    if new_parent is not None:
        parents[parent_name(new_dn)] = new_parent
    return Proposal(
        target=target,
        changes=(AttributeChange("distinguishedName", (entry.dn,), (new_dn,)),),
        write=write,
        answer=lambda: _read_at(call, entry.guid, new_dn),
        requires=requires,
        protected=protected,
        risk=Risk.DESTRUCTIVE if risk_reason else Risk.ORDINARY,
        risk_reason=risk_reason,
        warnings=(*_subtree_warnings(client, entry), *warnings()) if call.dry_run else (),
        evidence=evidence_of(write, entry=entry, schema=client.schema),
        identities=parents,
    )


def _read_at(call: Call, guid: UUID, expected: str) -> DirectoryObject:
    """Read the record after the write. Raises VersionMismatch if the name belonged to another object by then."""
    record = read_record(call, guid)
    if DistinguishedName.parse(record["distinguishedName"]) != DistinguishedName.parse(expected):
        raise errors.VersionMismatch
    return record


def _subtree_warnings(client: Client, entry: Entry) -> tuple[str, ...]:
    if not has_children(client, entry):
        return ()
    rows = client.search(entry.dn, Scope.SUBTREE, attributes=("objectGUID",), limit=_MAX_COUNTED + 2)
    below = sum(1 for _ in rows) - 1
    if below <= 0:
        return ()
    if below > _MAX_COUNTED:
        counted = message("More than {count} objects below it get another distinguished name.", count=_MAX_COUNTED)
    else:
        counted = message("{count} objects below it get another distinguished name.", count=below)
    return (counted, *_duration_warnings(below))


def _require_deletable(entry: Entry) -> None:
    """Raise DeletionProtected when an entry, read with its security descriptor, must not be deleted or moved."""
    # Without the right to read the descriptor the gateway cannot check, and AD would not let it delete either.
    if "nTSecurityDescriptor" in entry and is_protected_from_deletion(descriptor_of(entry)):
        raise errors.DeletionProtected(message("{dn} is protected from accidental deletion.", dn=entry.dn))


def _duration_warnings(below: int) -> tuple[Message, ...]:
    """The warning that a domain controller may take long for so many objects."""
    if below < LARGE_SUBTREE:
        return ()
    return (
        message(
            "This many objects can take the domain controller a minute, during which it makes no other change. "
            "Do not repeat the request."
        ),
    )
