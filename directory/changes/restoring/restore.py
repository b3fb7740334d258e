"""Proposals to restore a deleted object: one reanimating modify, with what AD lost from the operations log.

What comes back depends on the recycle bin: an object in it has kept everything; a tombstone keeps its identity (GUID,
SID, sAMAccountName, access control list) and loses most else, the password and all memberships included.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
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
    reanimate,
)
from audit.deletions import last_deletion
from core.call import Call
from core.errors import GatewayError, InvalidRequest
from core.operation import Risk
from core.text.messages import message
from directory import errors
from directory.changes.checks.prechecks import require_name_free, require_possible_parent
from directory.changes.references import parent_of
from directory.changes.restoring.from_log import FromLog, Image, image_of, restored_from_log
from directory.changes.restoring.links import RestoredLinks, find_restored_links
from directory.changes.targets import TARGET_ATTRIBUTES
from directory.lookup.access import Reference, client_of, find_object, find_parent
from directory.outcomes.evidence import evidence_of
from directory.outcomes.replication import require_still_taken
from directory.protection.domain_infrastructure import places_of
from directory.protection.rules import is_protected, protects_its_content, require_may_write
from directory.queries.deleted_objects import (
    deleted_at,
    deleted_objects_container,
    find_deleted,
    former_parent,
    is_recyclable,
    last_known_rdn,
)
from directory.queries.reading import read_record
from directory.shapes.kinds import ACCOUNT_KINDS, DEFAULT_ATTRIBUTES, Kind, kind_of, resource_of
from directory.shapes.proposal import AttributeChange, DependentChange, Proposal, Target
from directory.shapes.record import PROTECTION_ATTRIBUTES, version_of
from directory.shapes.value_rules import refuse_name


def propose_restore(call: Call, *, id: UUID, parent: Reference | None, name: str | None) -> Proposal:
    """The modify that makes a deleted object live again, where it was or below `parent`, as it was called or as `name`.

    Raises InvalidRequest for a name that cannot be, ObjectNotFound for the object and the parent, Forbidden for what is
    outside the scopes, ParentDeleted without `parent` when the last known one is gone, AlreadyExists when the name, the
    sAMAccountName or the userPrincipalName is in use by now, DirectoryRejected for a parent that holds no such class.
    """
    if name is not None and (complaint := refuse_name(name)):
        raise InvalidRequest.naming(complaint, pointer="#/name")
    client = client_of(call)
    entry = find_deleted(call, id, ("*", *TARGET_ATTRIBUTES, *sorted(client.schema.linked)), identities=True)
    was_governing = places_of(client).contains_children_of(former_parent(client, entry) or "")
    protected = require_may_write(call, protected=was_governing or is_protected(client, entry))
    if parent is None:
        container = _last_parent(call, client, entry)
    else:
        container = find_parent(call, parent, attributes=PROTECTION_ATTRIBUTES)
    protected = require_may_write(call, protected=protected or protects_its_content(client, container))
    require_possible_parent(client.schema, entry.object_classes, container, None if parent is None else "#/parent")
    rdn = last_known_rdn(entry)
    if name is not None:
        rdn = make_rdn(DistinguishedName.parse(entry.dn).rdn_attribute, name)
    new_dn = f"{rdn},{container.dn}"
    is_whole = is_recyclable(entry, recycle_bin=is_recycle_bin_enabled(client))
    image = None if is_whole else _image(call, client, entry)
    _require_free(client, entry, new_dn, {} if image is None else image.values)
    links = find_restored_links(call, client, entry) if is_whole else RestoredLinks()
    from_log = FromLog() if image is None else restored_from_log(call, image, entry, new_dn)
    write = reanimate(entry.dn, new_dn, from_log.steps)
    kind = kind_of(entry.object_classes)
    account_name = entry.text("sAMAccountName")
    target = Target(entry.guid, kind, new_dn, version_of(entry), account_name)
    password_kept = _password_kept(client, entry, target) if is_whole else None
    warnings: list[str] = []
    if call.dry_run:
        warnings += _what_comes_back(kind, from_log, is_whole=is_whole, image=image)
        if password_kept is not None:
            warnings.append(message("Its password counts as set at the moment of the restore."))
        warnings += _left_below(client, entry)
    return Proposal(
        target=target,
        changes=(
            AttributeChange("distinguishedName", (entry.dn,), (new_dn,)),
            AttributeChange("isDeleted", ("TRUE",), ()),
            *from_log.changes,
            *links.changes,
        ),
        write=write,
        # With the memberships: they come back one by one, and the answer shows which did.
        answer=lambda: read_record(
            call, entry.guid, kinds=frozenset(Kind), attributes=sorted(DEFAULT_ATTRIBUTES[kind] | {"memberOf"})
        ),
        requires=links.requires,
        protected=protected or links.joins_protected or from_log.joins_protected,
        risk=Risk.SECURITY,
        warnings=tuple(warnings),
        evidence=evidence_of(write, entry=entry),
        identities={**from_log.identities, **links.identities, parent_of(new_dn): container.guid},
        explain=lambda refusal: _explained(client, entry, refusal),
        dependent_changes=tuple(from_log.dependent_changes) if password_kept is None else (password_kept,),
    )


def _password_kept(client: Client, entry: Entry, target: Target) -> DependentChange | None:
    """What lets the account sign in with the password it has kept, where the restore makes it change that first.

    Samba does (see `reworded`). The time of the last change is lost with that: only the present one can be written.
    """
    attribute = client.schema.attribute("pwdLastSet")
    if attribute is None or attribute.attid is None or not entry.integer("pwdLastSet") or not is_samba(client):
        return None
    steps = (Modification("delete", attribute.name, (b"0",)), Modification("add", attribute.name, (b"-1",)))
    write = Modify(guid_reference(entry.guid), steps, guarded=True)
    before, after = (decode(attribute, step.values)[0] for step in steps)
    evidence = evidence_of(write, entry=entry, schema=client.schema)
    evidence["versions"][str(attribute.attid)] += 1  # the restore itself is the first to change it
    return DependentChange(
        operation=f"{resource_of(target.kind)}.update",
        target=target,
        changes=(AttributeChange(attribute.name, (before,), (after,)),),
        write=write,
        evidence=evidence,
    )


def _explained(client: Client, entry: Entry, refusal: GatewayError) -> GatewayError:
    """Samba has no words for an object that is no longer deleted: somebody else restored it meanwhile."""
    if isinstance(refusal, errors.DirectoryFailed):
        with errors.translated():
            if client.find(entry.guid, ("objectGUID",)) is not None:
                return errors.VersionMismatch()
    return refusal


def _last_parent(call: Call, client: Client, entry: Entry) -> Entry:
    known = entry.identities.get(entry.text("lastKnownParent") or "")
    parent = None if known is None else client.find(known, ("objectGUID",))
    if parent is None:
        raise errors.ParentDeleted(message("The container the object was in is deleted: name another parent."))
    return find_object(call, parent.guid, attributes=PROTECTION_ATTRIBUTES)


def _image(call: Call, client: Client, entry: Entry) -> Image | None:
    """What the log knows of the object from the record of this deletion."""
    moment = deleted_at(entry, client.schema)
    if moment is None or call.directory is None:
        return None
    deletion = last_deletion(call.directory.id, entry.guid, deleted_at=datetime.fromisoformat(moment))
    return None if deletion is None else image_of(client, deletion)


def _require_free(client: Client, entry: Entry, new_dn: str, image: Mapping[str, Sequence[str]]) -> None:
    """Refuse early what the directory would refuse, or what it would not notice: names that others have by now."""
    require_name_free(client, new_dn, is_restored=True)
    for attribute in ("sAMAccountName", "userPrincipalName"):
        text = entry.text(attribute) or next(iter(image.get(attribute, ())), None)
        if text is None:
            continue
        same = Equals(attribute, text)
        for other in [*client.search(client.default_naming_context, Scope.SUBTREE, same, ("objectGUID",), limit=1)]:
            require_still_taken(client, other)
            raise errors.AlreadyExists(
                message("The {attribute} {text!r} is in use by another object.", attribute=attribute, text=text)
            )


def _what_comes_back(kind: Kind, from_log: FromLog, *, is_whole: bool, image: Image | None) -> Sequence[str]:
    if is_whole:
        return (message("The recycle bin has kept the object's attributes and memberships: they come back with it."),)
    warnings = [message("It is a tombstone: the directory has lost most of its attributes and all memberships.")]
    if image is None:
        warnings.append(message("The operations log holds no record of this deletion: they stay lost."))
    elif from_log.steps or from_log.dependent_changes:
        warnings.append(message("What the operations log holds of them is given back, as the changes show."))
    if kind in ACCOUNT_KINDS:
        warnings.append(message("The password is lost: nobody can sign in with the account before it has a new one."))
    return (*warnings, *from_log.warnings)


def _left_below(client: Client, entry: Entry) -> tuple[str, ...]:
    """What was in the object when it was deleted does not come back with it."""
    container = deleted_objects_container(client)
    in_it = Equals("lastKnownParent", entry.dn)
    rows = client.search(container.dn, Scope.ONE_LEVEL, in_it, ("objectGUID",), deleted=True)
    count = sum(1 for _ in rows)
    return (
        (message("{count} objects directly below it stay deleted: restore them afterwards.", count=count),)
        if count
        else ()
    )
