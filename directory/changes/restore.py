"""Proposals to restore a deleted object: one reanimating modify, with lost values from the operations log.

What comes back depends on the recycle bin: an object in it has kept everything; a tombstone keeps its identity (GUID,
SID, sAMAccountName, access control list) and little else ([MS-ADTS] 3.1.1.5.5.1). The record of the deletion holds the
rest, except the password and what the directory maintains itself. The restoring write gives attributes back, further
writes give memberships back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from active_directory import (
    Client,
    DistinguishedName,
    Entry,
    Equals,
    Modification,
    Modify,
    Scope,
    decode,
    guid_reference,
    is_recycle_bin_enabled,
    is_samba,
    make_rdn,
    names_in,
    reanimate,
)
from core.call import Call
from core.errors import GatewayError, InvalidRequest
from core.operation import Risk
from core.text.messages import message
from directory import errors
from directory.changes.before_image import BeforeImage, RestoredContent, find_before_image
from directory.changes.references import parent_name
from directory.changes.targets import (
    TARGET_ATTRIBUTES,
    require_identifiers_free,
    require_name_free,
    require_possible_parent,
    target_of,
)
from directory.groups import is_deleted_name, primary_group_sid
from directory.lookup.access import Reference, client_of, find_object, find_parent, require_inside_scopes
from directory.outcomes.evidence import evidence_of
from directory.protection.domain_control import critical_containers
from directory.protection.rules import is_content_protected, is_protected, protected_among, require_may_write
from directory.queries.deleted_objects import (
    deleted_objects_container,
    find_deleted,
    is_recyclable,
    last_known_rdn,
    original_parent,
)
from directory.queries.reading import read_record
from directory.shapes.kinds import ACCOUNT_KINDS, DEFAULT_ATTRIBUTES, Kind, resource_of
from directory.shapes.proposal import AttributeChange, DependentChange, Proposal, Target
from directory.shapes.record import PROTECTION_ATTRIBUTES
from directory.shapes.value_rules import name_problem

# Default primary groups by kind of account: Domain Users, Domain Guests, Domain Computers, Domain Controllers and
# Read-only Domain Controllers ([MS-DTYP] 2.4.2.4).
_DEFAULT_PRIMARY_GROUPS: Final = frozenset({513, 514, 515, 516, 521})


def propose_restore(call: Call, *, id: UUID, parent: Reference | None, name: str | None) -> Proposal:
    """Propose to restore a deleted object to its last parent or below `parent`, under its last name or as `name`.

    Raises InvalidRequest for an impossible name, ObjectNotFound for the object and the parent, Forbidden for objects
    outside the scopes, ParentDeleted without `parent` when the last one is gone, AlreadyExists when the name, the
    sAMAccountName or the userPrincipalName is in use, DirectoryRejected for a parent that cannot contain the class.
    """
    if name is not None and (complaint := name_problem(name)):
        raise InvalidRequest.naming(complaint, pointer="#/name")
    client = client_of(call)
    entry = find_deleted(call, id, ("*", *TARGET_ATTRIBUTES, *sorted(client.schema.linked_attributes)), identities=True)
    was_critical = critical_containers(client).contains_children_of(original_parent(client, entry) or "")
    protected = require_may_write(call, protected=was_critical or is_protected(client, entry))
    if parent is None:
        container = _find_last_parent(call, client, entry)
    else:
        container = find_parent(call, parent, attributes=PROTECTION_ATTRIBUTES)
    protected = require_may_write(call, protected=protected or is_content_protected(client, container))
    require_possible_parent(client.schema, entry.object_classes, container, None if parent is None else "#/parent")
    rdn = last_known_rdn(entry)
    if name is not None:
        rdn = make_rdn(DistinguishedName.parse(entry.dn).rdn_attribute, name)
    new_dn = f"{rdn},{container.dn}"
    is_whole = is_recyclable(entry, recycle_bin=is_recycle_bin_enabled(client))
    image = None if is_whole else find_before_image(call, client, entry)
    _require_names_free(client, entry, image, new_dn)
    if is_whole:
        restored = _restored_links(call, client, entry)
    else:
        restored = RestoredContent() if image is None else image.restored(entry, new_dn)
    write = reanimate(entry.dn, new_dn, restored.steps)
    target = replace(target_of(entry), distinguished_name=new_dn)
    password_kept = _keep_password_usable(client, entry, target) if is_whole else None
    if password_kept is not None:
        restored.dependent_changes.append(password_kept)
    warnings: list[str] = []
    if call.dry_run:
        warnings += _restore_warnings(target.kind, restored, is_whole=is_whole, image=image)
        if password_kept is not None:
            warnings.append(message("Its password counts as set at the moment of the restore."))
        warnings += _content_warnings(client, entry)
    return Proposal(
        target=target,
        changes=(
            AttributeChange("distinguishedName", (entry.dn,), (new_dn,)),
            AttributeChange("isDeleted", ("TRUE",), ()),
            *restored.changes,
        ),
        write=write,
        # The answer includes memberOf: memberships come back one by one, and some may fail.
        answer=lambda: read_record(
            call,
            entry.guid,
            kinds=frozenset(Kind),
            attributes=sorted(DEFAULT_ATTRIBUTES[Kind(target.kind)] | {"memberOf"}),
        ),
        requires=restored.requires,
        protected=protected or restored.joins_protected,
        risk=Risk.SECURITY,
        warnings=tuple(warnings),
        evidence=evidence_of(write, entry=entry),
        identities={**restored.identities, parent_name(new_dn): container.guid},
        explain=lambda refusal: _explain_refusal(client, entry, refusal),
        dependent_changes=tuple(restored.dependent_changes),
    )


def _require_names_free(client: Client, entry: Entry, image: BeforeImage | None, new_dn: str) -> None:
    """Refuse names that another object has by now: the directory would refuse some and overlook others.

    Raises AlreadyExists.
    """
    require_name_free(client, new_dn, is_restored=True)
    for attribute in ("sAMAccountName", "userPrincipalName"):
        logged = () if image is None else image.values.get(attribute, ())
        values = entry.values(attribute) or [text.encode() for text in logged]
        require_identifiers_free(client, {attribute: values[:1]}, {})


def _find_last_parent(call: Call, client: Client, entry: Entry) -> Entry:
    known = entry.identities.get(entry.text("lastKnownParent") or "")
    parent = None if known is None else client.find(known, ("objectGUID",))
    if parent is None:
        raise errors.ParentDeleted(message("The container the object was in is deleted: name another parent."))
    return find_object(call, parent.guid, attributes=PROTECTION_ATTRIBUTES)


def _keep_password_usable(client: Client, entry: Entry, target: Target) -> DependentChange | None:
    """The change that keeps a restored account's password usable, or None where the directory does so.

    On Samba the restoring write must set pwdLastSet to 0 (`active_directory.writes`), which forces a change of the
    password at the next sign-in. This change sets it to the current time; nobody can write the earlier one.
    """
    attribute = client.schema.attribute("pwdLastSet")
    if attribute is None or attribute.attid is None or not entry.integer("pwdLastSet") or not is_samba(client):
        return None
    steps = (Modification("delete", attribute.name, (b"0",)), Modification("add", attribute.name, (b"-1",)))
    write = Modify(guid_reference(entry.guid), steps, guarded=True)
    before, after = (decode(attribute, step.values)[0] for step in steps)
    evidence = evidence_of(write, entry=entry, schema=client.schema)
    evidence["versions"][str(attribute.attid)] += 1  # the restoring write, which comes first, raises it too
    return DependentChange(
        operation=f"{resource_of(target.kind)}.update",
        target=target,
        changes=(AttributeChange(attribute.name, (before,), (after,)),),
        write=write,
        evidence=evidence,
    )


def _restore_warnings(
    kind: str, restored: RestoredContent, *, is_whole: bool, image: BeforeImage | None
) -> Sequence[str]:
    if is_whole:
        return (message("The recycle bin has kept the object's attributes and memberships: they come back with it."),)
    warnings = [message("It is a tombstone: the directory has lost most of its attributes and all memberships.")]
    if image is None:
        warnings.append(message("The operations log holds no record of this deletion: they stay lost."))
    elif restored.steps or restored.dependent_changes:
        warnings.append(message("What the operations log holds of them is given back, as the changes show."))
    if kind in ACCOUNT_KINDS:
        warnings.append(message("The password is lost: nobody can sign in with the account before it has a new one."))
    return (*warnings, *restored.warnings)


def _content_warnings(client: Client, entry: Entry) -> tuple[str, ...]:
    """The warning that objects which were directly below the object stay deleted."""
    in_it = Equals("lastKnownParent", entry.dn)
    container = deleted_objects_container(client).dn
    count = len([*client.search(container, Scope.ONE_LEVEL, in_it, ("objectGUID",), deleted=True)])
    if not count:
        return ()
    return (message("{count} objects directly below it stay deleted: restore them afterwards.", count=count),)


def _explain_refusal(client: Client, entry: Entry, refusal: GatewayError) -> GatewayError:
    """Explain Samba's unspecific error if the object is not deleted any more: somebody else has restored it."""
    if isinstance(refusal, errors.DirectoryFailed):
        with errors.translate_ldap_errors():
            if client.find(entry.guid, ("objectGUID",)) is not None:
                return errors.VersionMismatch()
    return refusal


def _restored_links(call: Call, client: Client, entry: Entry) -> RestoredContent:
    """The links that the recycle bin restores along with an object, read with its links and their objectGUIDs.

    The directory restores them unasked, so the caller needs the permissions that making them anew would need: otherwise
    a restore could bring a membership back that the caller may not grant. Raises Forbidden when a group it joins, or a
    member it has, is outside the caller's scopes.
    """
    links = {name: values for name, values in _links(client, entry) if values}
    identities = dict(entry.identities)
    joined = _groups_joined(client, entry, links.get("memberOf", []))
    if joined:
        links["memberOf"] = [group.dn for group in joined]
        identities.update((group.dn, group.guid) for group in joined)
    memberships = [name for attribute in ("member", "memberOf") for name in links.get(attribute, ())]
    require_inside_scopes(call, *memberships)
    return RestoredContent(
        changes=[AttributeChange(name, (), tuple(values)) for name, values in sorted(links.items())],
        requires=frozenset({"directory.manage_membership"}) if memberships else frozenset(),
        joins_protected=bool(protected_among(client, joined)),
        identities=identities,
    )


def _links(client: Client, entry: Entry) -> Iterator[tuple[str, list[str]]]:
    """The forward and back links of the object by attribute, without links to deleted objects."""
    for name in sorted(client.schema.linked_attributes):
        attribute = client.schema.attribute(name)
        texts = decode(attribute, entry.values(name))
        yield (
            name,
            [text for text in texts if not any(is_deleted_name(client, each) for each in names_in(attribute, text))],
        )


def _groups_joined(client: Client, entry: Entry, names: Sequence[str]) -> list[Entry]:
    """The groups that the object becomes a member of again, including a primary group other than the default."""
    if any(name not in entry.identities for name in names):
        raise errors.DirectoryDenied(
            message("The gateway's own account may not read all groups that the object would be a member of.")
        )
    found = client.read_many([entry.identities[name] for name in names], (*PROTECTION_ATTRIBUTES, "objectClass"))
    if (sid := primary_group_sid(entry)) is not None and entry.integer("primaryGroupID") not in _DEFAULT_PRIMARY_GROUPS:
        found |= {group.guid: group for group in client.search_domain(Equals("objectSid", sid), PROTECTION_ATTRIBUTES)}
    return list(found.values())
