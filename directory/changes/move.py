"""Proposals to move an object to another parent and to give it another name: one modifyDN each.

AD takes distinguished names only for this write (`active_directory.Rename`), so a name is resolved by objectGUID right
before, and the answer is compared with it afterwards.
"""

import re
from collections.abc import Callable, Iterable
from uuid import UUID

from active_directory import Client, DistinguishedName, Entry, Equals, InstanceType, Rename, Scope, make_rdn
from core.call import Call
from core.errors import InvalidRequest
from core.operation import Risk
from core.text.messages import message
from directory import errors
from directory.changes.checks.deletion_protection import require_deletable
from directory.changes.checks.prechecks import require_name_free, require_possible_parent
from directory.changes.checks.subtrees import time_warnings
from directory.changes.references import parent_of
from directory.changes.targets import find_target, target_of
from directory.lookup.access import Reference, client_of, find_parent, require_inside_scopes
from directory.lookup.children import has_children
from directory.lookup.visibility import visibility_of
from directory.outcomes.evidence import evidence_of
from directory.policies.group_policy import inheritance_warnings
from directory.protection.rules import holds_protected, protects_its_content, require_may_write
from directory.queries.reading import read_changed
from directory.shapes.kinds import ACCOUNT_KINDS, Kind, kind_of, permission_for
from directory.shapes.proposal import AttributeChange, Proposal
from directory.shapes.record import PROTECTION_ATTRIBUTES, DirectoryObject
from directory.shapes.value_rules import refuse_name

_FIRST_COMPONENT = re.compile(r"(?:[^\\,]|\\.)+")
_COUNTED_BELOW = 10_000
"""Objects below are counted up to so many: more is a number nobody needs exactly."""

_STAYING_NAMES = {
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


def propose_move(call: Call, *, resource: str, id: UUID, parent: Reference) -> Proposal:
    """Another parent, the same name.

    Raises ObjectNotFound for the object and the parent, Forbidden when either or the present parent is outside the
    scopes, DeletionProtected (a move needs the right to delete, [MS-ADTS] 3.1.1.5.4.1.1), MoveBelowItself,
    AlreadyExists, and DirectoryRejected for a parent that holds no such class.
    """
    client = client_of(call)
    entry, protected = _find(call, id, resource)
    container = find_parent(call, parent, attributes=PROTECTION_ATTRIBUTES)
    stays = container.guid.bytes_le in entry.values("parentGUID")
    protected = require_may_write(call, protected=protected or (not stays and protects_its_content(client, container)))
    old = DistinguishedName.parse(entry.dn)
    if DistinguishedName.parse(container.dn).is_within(old):
        raise errors.MoveBelowItself
    rdn = _spelled_rdn(entry.dn)
    write = None
    if not stays:
        require_deletable(client.read(id, ("objectGUID",), descriptor=True))
        require_possible_parent(client.schema, entry.object_classes, container, "#/parent")
        write = Rename(entry.dn, rdn, container.dn)
    return _propose(
        call,
        entry,
        write,
        new_dn=f"{rdn},{container.dn}",
        protected=protected,
        new_parent=container.guid,
        risk_reason=_why_destructive(client, entry) if write else None,
        warnings=lambda: inheritance_warnings(client, entry, container.dn, visibility_of(call)),
    )


def _why_destructive(client: Client, entry: Entry) -> str | None:
    """Other policies may apply to everybody in it, and other people may be delegated its administration."""
    if kind_of(entry.object_classes) is Kind.ORGANIZATIONAL_UNIT:
        return message("it moves an organizational unit")
    if not has_children(client, entry):
        return None
    is_account = Equals("objectClass", "user")
    accounts = client.search(entry.dn, Scope.SUBTREE, is_account, attributes=("objectGUID",), limit=2)
    has_accounts = any(account.guid != entry.guid for account in accounts)
    return message("it moves a container with accounts in it") if has_accounts else None


def propose_rename(call: Call, *, resource: str, id: UUID, name: str) -> Proposal:
    """Another name, the same parent; one that differs in case only is another.

    Raises InvalidRequest for a name that cannot be, ObjectNotFound, Forbidden and AlreadyExists.
    """
    if complaint := refuse_name(name):
        raise InvalidRequest.naming(complaint, pointer="#/name")
    entry, protected = _find(call, id, resource)
    old = DistinguishedName.parse(entry.dn)
    rdn = make_rdn(old.rdn_attribute, name)
    write = None if name == entry.text("name") else Rename(entry.dn, rdn)
    kind = kind_of(entry.object_classes)
    return _propose(
        call,
        entry,
        write,
        new_dn=f"{rdn},{old.parent}",
        protected=protected,
        requires=frozenset({permission_for("update", kind)}),
        warnings=lambda: (_STAYING_NAMES[kind],) if kind in _STAYING_NAMES else (),
    )


def _find(call: Call, id: UUID, resource: str) -> tuple[Entry, bool]:
    """The object, with its present parent inside the scopes: the base of a scope stays where and what it is.

    And whether it is protected, or holds an object that is; Forbidden when the caller may not write such.
    """
    client = client_of(call)
    entry, protected = find_target(call, resource, id, "parentGUID", "gPOptions", "instanceType")
    require_inside_scopes(call, str(DistinguishedName.parse(entry.dn).parent))
    if not protected and has_children(client, entry):
        protected = require_may_write(call, protected=holds_protected(client, entry.dn))
    if (entry.integer("instanceType") or 0) & InstanceType.HEAD_OF_NAMING_CONTEXT:
        raise errors.DirectoryRejected(message("The root of a naming context has no other place and no other name."))
    return entry, protected


def _spelled_rdn(dn: str) -> str:
    """The first component as the directory spells it; servers differ in what they escape."""
    found = _FIRST_COMPONENT.match(dn)
    return found[0] if found else DistinguishedName.parse(dn).rdn


def _propose(
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
    client = client_of(call)
    if write is not None:  # an object may take its own name in another spelling
        require_name_free(client, new_dn, besides=entry.guid)
    return Proposal(
        target=target_of(entry),
        changes=(AttributeChange("distinguishedName", (entry.dn,), (new_dn,)),) if write else (),
        write=write,
        answer=lambda: _read_at(call, entry.guid, new_dn if write else None),
        requires=requires,
        protected=protected,
        risk=Risk.DESTRUCTIVE if risk_reason else Risk.ORDINARY,
        risk_reason=risk_reason,
        warnings=(*_below_warnings(client, entry), *warnings()) if call.dry_run and write else (),
        evidence=evidence_of(write, entry=entry, schema=client.schema) if write else {},
        identities=_parents(entry, new_dn, new_parent) if write else {},
    )


def _parents(entry: Entry, new_dn: str, new_parent: UUID | None) -> dict[str, UUID]:
    """The objectGUIDs of the parents before and after, by name; without a new one it stays where it is."""
    computed = entry.values("parentGUID")
    parents = {} if new_parent is None else {parent_of(new_dn): new_parent}
    return {parent_of(entry.dn): UUID(bytes_le=computed[0]), **parents} if computed else parents


def _read_at(call: Call, guid: UUID, expected: str | None) -> DirectoryObject:
    """The record after the write. Elsewhere than expected: the name stood for another object when it was sent."""
    record = read_changed(call, guid)
    parse = DistinguishedName.parse
    if expected is not None and parse(record["distinguishedName"]) != parse(expected):
        raise errors.VersionMismatch
    return record


def _below_warnings(client: Client, entry: Entry) -> tuple[str, ...]:
    if not has_children(client, entry):
        return ()
    rows = client.search(entry.dn, Scope.SUBTREE, attributes=("objectGUID",), limit=_COUNTED_BELOW + 2)
    below = sum(1 for _ in rows) - 1
    if below <= 0:
        return ()
    if below > _COUNTED_BELOW:
        told = message("More than {count} objects below it get another distinguished name.", count=_COUNTED_BELOW)
    else:
        told = message("{count} objects below it get another distinguished name.", count=below)
    return (told, *time_warnings(below))
