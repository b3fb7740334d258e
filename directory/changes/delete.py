"""Proposals to delete an object, alone or with everything below it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from uuid import UUID

from active_directory import (
    Client,
    Delete,
    DistinguishedName,
    Entry,
    Schema,
    Scope,
    days_in_recycle_bin,
    decode,
    is_credential,
    is_recycle_bin_enabled,
)
from core.call import Call
from core.operation import Risk
from core.text.messages import Message, message
from directory import errors
from directory.changes.checks.deletion_protection import require_deletable
from directory.changes.checks.subtrees import time_warnings
from directory.changes.targets import TARGET_ATTRIBUTES, target_of
from directory.groups.nesting import require_nobodys_primary_group
from directory.lookup.access import client_of, find_object
from directory.lookup.children import has_children
from directory.lookup.prefetch import prefetch_of
from directory.lookup.visibility import visibility_of
from directory.outcomes.evidence import evidence_of
from directory.protection.rules import is_protected, protected_among, require_may_write
from directory.shapes.kinds import KINDS, RESOURCES, Kind, kind_of, permission_for
from directory.shapes.proposal import AttributeChange, Proposal
from directory.shapes.record import PROTECTION_ATTRIBUTES

# What an administrator needs to know of a deleted object, or a restore to refill it, although nobody can write it.
_WORTH_KEEPING = frozenset({"objectclass", "objectsid", "memberof", "admincount", "pwdlastset", "lastlogontimestamp"})
_NOT_WORTH_KEEPING = frozenset(
    {"name", "cn", "ou", "distinguishedname", "objectcategory", "dscorepropagationdata", "lastlogon", "logoncount"}
    | {"badpwdcount", "badpasswordtime", "lastlogoff", "codepage", "countrycode", "ntsecuritydescriptor"}
)

_NAMES_SHOWN = 20


def propose_delete(call: Call, *, resource: str, id: UUID, recursive: bool) -> Proposal:
    """The end of an object. With `recursive` everything below is checked first, and refused whole.

    Raises DeletionProtected for the object or, recursively, for any below it; NotEmpty without `recursive`;
    DirectoryDenied when the gateway's account may not read what decides about one of them; PrimaryGroup for a
    group that is the primary one of an account.
    """
    client = client_of(call)
    find_object(call, id, kinds=RESOURCES[resource].kinds, attributes=())
    # All readable attributes: the record of the deletion is what a restore is refilled from.
    entry = client.read(id, ("*", *TARGET_ATTRIBUTES), descriptor=True, identities=True)
    protected = require_may_write(call, protected=is_protected(client, entry, prefetch=prefetch_of(call)))
    below = _below(client, entry)
    if recursive:
        for descendant in below:
            _require_judgeable(descendant)
    judgeable = [descendant for descendant in below if "objectGUID" in descendant]
    protected_below = protected_among(client, judgeable, prefetch=prefetch_of(call))
    protected = require_may_write(call, protected=protected or bool(protected_below))
    require_deletable(entry)
    if below and not recursive:
        raise errors.NotEmpty(objectsBelow=len(below))
    for descendant in below:
        require_deletable(descendant)
    require_nobodys_primary_group(client, (entry, *below), tell=lambda name: visibility_of(call).display_name(name))
    write = Delete(entry.dn, tree=bool(below))
    names = tuple(descendant.dn for descendant in below)
    return Proposal(
        target=target_of(entry),
        changes=(AttributeChange("distinguishedName", (entry.dn, *names), ()), *_before_image(client.schema, entry)),
        write=write,
        answer=lambda: None,
        requires=frozenset(permission_for("delete", kind_of(each.object_classes)) for each in (entry, *below)),
        protected=protected,
        risk=Risk.DESTRUCTIVE,
        warnings=_warnings(client, visibility_of(call).confined(entry), below) if call.dry_run else (),
        evidence=evidence_of(write, entry=entry),
        identities={**entry.identities, **{each.dn: each.guid for each in (entry, *below)}},
    )


def _below(client: Client, top: Entry) -> list[Entry]:
    """Everything below an object, each with what decides whether it may go.

    Where nothing is seen directly below it, it is deleted alone: the directory refuses that if there is something.
    """
    if not has_children(client, top):
        return []
    rows = client.search(top.dn, Scope.SUBTREE, attributes=(*PROTECTION_ATTRIBUTES, "objectClass"), descriptor=True)
    return [entry for entry in rows if entry.dn.lower() != top.dn.lower()]


def _require_judgeable(entry: Entry) -> None:
    """Refuse what cannot be read, for whoever may read it may be an administrator. Raises DirectoryDenied.

    What is below such an object may not even be listed, but goes with it all the same.
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
        if attribute is None or is_credential(name) or name.lower() in _NOT_WORTH_KEEPING:
            continue
        if attribute.confidential:  # kept nowhere but in the directory, as passwords are
            continue
        maintained = attribute.system_only or attribute.constructed or attribute.back_link
        if not maintained or name.lower() in _WORTH_KEEPING:
            yield AttributeChange(attribute.name, tuple(decode(attribute, entry.values(name))), ())


def _kept_in_recycle_bin(days: int | None, *, has_content: bool) -> Message:
    """How long the recycle bin keeps an object with what is below it; `days` is None where it cannot be read."""
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
    """What goes, and what a restore could bring back."""
    warnings = []
    if below:
        kinds = _kinds(below)
        if len(below) == 1:
            warnings.append(message("1 object below it is deleted too: {kinds}.", kinds=kinds))
        else:
            warnings.append(
                message("{count} objects below it are deleted too: {kinds}.", count=len(below), kinds=kinds)
            )
        warnings += time_warnings(len(below))
    if groups := entry.texts("memberOf"):
        warnings.append(message("It is a member of {count} groups: {shown}.", count=len(groups), shown=_shown(groups)))
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


def _kinds(entries: Sequence[Entry]) -> str:
    """How many of each kind, the most frequent first: "9 users, 2 groups"."""
    counts = Counter(kind_of(entry.object_classes) for entry in entries)
    return ", ".join(f"{count} {_words(kind, count)}" for kind, count in counts.most_common())


def _words(kind: Kind, count: int) -> str:
    words = KINDS[kind].singular if count == 1 else KINDS[kind].many
    return f"other {words}" if kind is Kind.OBJECT else words


def _shown(names: Sequence[str]) -> str:
    values = [DistinguishedName.parse(name).rdn_value for name in names[:_NAMES_SHOWN]]
    return ", ".join(sorted(values)) + (f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else "")
