"""A write waits until what was done to its object at other domain controllers has arrived at its own.

What a domain controller shows of an object may be an earlier state, after a fail-over. A change judged by it would be
overwritten, or overwrite, when replication catches up: the directory keeps one of two changes of an attribute. So
nothing is changed before all is there that the log has of the object within `Directory:StickySeconds`. The writers of
two hosts that use different domain controllers see each other's intents, for each looks after its own is committed.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any
from uuid import UUID

from active_directory import Client, Entry, fold, servers_asked_so_far
from audit.models import OPEN_OUTCOMES, OperationRecord
from directory.lookup.replication import (
    NotReplicatedYet,
    is_from_elsewhere,
    is_there_after,
    recent_changes,
    recent_changes_of,
)
from directory.outcomes.evidence import ATTID_OF_NAME, EVIDENCE_ATTRIBUTES, key_of_link, names_now
from directory.shapes.proposal import Target


def require_replicated(
    client: Client, server: str | None, target: UUID | None, dn: str, own: UUID | None = None
) -> None:
    """Raise NotReplicatedYet while a server lacks a recent change of the object, made or perhaps made at another one.

    To be called before a write, when its intent (`own`) is in the log. Without several servers it costs nothing, and
    little as long as all use the same one. Raises LdapError.
    """
    here = client.at(server)
    if here.claim():
        return
    changes = [each for each in recent_changes(target=target, dn=dn) if each.id != own]
    _require_shown(here, server, target, dn, changes)


def require_judged_by_all(client: Client, servers: Collection[str], objects: Collection[Target]) -> None:
    """Raise NotReplicatedYet while a server that objects were judged by lacks a recent change of one of them.

    To be called before anything is made of the judgement, for all servers that were asked for it: a domain controller
    that is chosen after the look may be another one. Nothing is claimed, for nothing is written. Raises LdapError.
    """
    if len(client.settings.urls) == 1:
        return
    for server in servers:
        if server not in client.settings.urls or client.agreement.is_alone(server):
            continue
        here = client.at(server)
        changes = recent_changes_of([each.id for each in objects if each.id is not None])
        for each in objects:
            of_object = recent_changes(dn=each.distinguished_name) if each.id is None else changes.get(each.id, [])
            _require_shown(here, server, each.id, each.distinguished_name, of_object)


def require_still_taken(client: Client, other: Entry) -> None:
    """Raise NotReplicatedYet where the object that has a name or identifier here may have given it up elsewhere."""
    require_judged_by_all(client, servers_asked_so_far(), [Target(other.guid, "", other.dn)])


def _require_shown(
    here: Client, server: str | None, target: UUID | None, dn: str, changes: Sequence[OperationRecord]
) -> None:
    elsewhere = [each for each in changes if is_from_elsewhere(here, each, server)]
    if not elsewhere:
        return
    is_open = any(each.outcome in OPEN_OUTCOMES for each in elsewhere)
    if is_open or not _shows(here, target, dn, changes, {each.id for each in elsewhere}):
        raise NotReplicatedYet


def _shows(
    client: Client, target: UUID | None, dn: str, changes: Sequence[OperationRecord], elsewhere: Collection[UUID]
) -> bool:
    """Whether the server's state of the object is one after all these changes, the latest of them first."""
    is_expected = is_there_after(changes[0], dn if target is None else target)
    if target is None:
        return (client.find(dn, ("objectGUID",)) is not None) == is_expected
    evidence = [each.evidence or {} for each in changes]
    links = {name for each in evidence for name in chain(each.get("added", ()), each.get("removed", ()))}
    entry = client.find(target, (*EVIDENCE_ATTRIBUTES, *sorted(links)))
    if entry is None or not is_expected:
        return (entry is not None) == is_expected
    has_grown = all(_has_grown(entry, each.evidence or {}) for each in changes if each.id in elsewhere)
    return has_grown and all(_links_hold(client, entry, evidence))


def _has_grown(entry: Entry, evidence: dict[str, Any]) -> bool:
    """Whether every version that the change raised is higher than before it."""
    versions = {int(attid): version for attid, version in evidence.get("versions", {}).items()}
    if evidence.get("nameVersion") is not None:
        versions[ATTID_OF_NAME] = evidence["nameVersion"]
    if not versions or "replPropertyMetaData" not in entry:
        return True
    return all(entry.versions.get(attid, 0) > before for attid, before in versions.items())


def _links_hold(client: Client, entry: Entry, changes: Iterable[dict[str, Any]]) -> Iterator[bool]:
    """For each linked object, whether it is linked as the latest change of that left it; links have no versions."""
    schema = client.schema
    known: set[tuple[str, str]] = set()
    for evidence in changes:
        ids = evidence.get("ids", {})
        called_now = names_now(client, evidence) if ids else {}
        for action in ("added", "removed"):
            for name, texts in evidence.get(action, {}).items():
                attribute = schema.attribute(name)
                if attribute is None:
                    continue
                present = {key_of_link(attribute, value) for value in entry.texts(name)}
                for text in texts:
                    which = (name, ids.get(text, fold(text)))
                    if which not in known:
                        known.add(which)
                        # What has no name here is deleted, or has not arrived itself: it is linked to nothing.
                        called = called_now.get(text, text)
                        is_linked = bool(called) and key_of_link(attribute, called) in present
                        yield is_linked == (action == "added")
