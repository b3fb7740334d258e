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
from directory.outcomes.evidence import EVIDENCE_ATTRIBUTES, has_grown, key_of_link, names_now
from directory.shapes.proposal import Target


def require_replicated(client: Client, server: str | None, reference: UUID | str, own: UUID) -> None:
    """Raise NotReplicatedYet while a server lacks a recent change of the object, made or perhaps made at another one.

    To be called before a write, when its intent (`own`) is in the log. Without several servers it costs nothing, and
    little as long as all use the same one. Raises LdapError.
    """
    here = client.at(server)
    if not here.claim():
        changes = [each for each in recent_changes(reference) if each.id != own]
        _require_shown(here, server, reference, changes)


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
            if each.id is not None:
                _require_shown(here, server, each.id, changes.get(each.id, []))
            else:
                _require_shown(here, server, each.distinguished_name, recent_changes(each.distinguished_name))


def require_still_taken(client: Client, other: Entry) -> None:
    """Raise NotReplicatedYet where the object that has a name or identifier here may have given it up elsewhere."""
    require_judged_by_all(client, servers_asked_so_far(), [Target(other.guid, "", other.dn)])


def _require_shown(here: Client, server: str | None, reference: UUID | str, changes: Sequence[OperationRecord]) -> None:
    elsewhere = [each for each in changes if is_from_elsewhere(here, each, server)]
    if not elsewhere:
        return
    is_open = any(each.outcome in OPEN_OUTCOMES for each in elsewhere)
    if is_open or not _shows(here, reference, changes, elsewhere):
        raise NotReplicatedYet


def _shows(
    client: Client, reference: UUID | str, changes: Sequence[OperationRecord], elsewhere: Collection[OperationRecord]
) -> bool:
    """Whether the server's state of the object is one after all these changes, the latest of them first."""
    is_expected = is_there_after(changes[0], reference)
    if isinstance(reference, str):
        return (client.find(reference, ("objectGUID",)) is not None) == is_expected
    evidence = [each.evidence or {} for each in changes]
    links = {name for each in evidence for name in chain(each.get("added", ()), each.get("removed", ()))}
    entry = client.find(reference, (*EVIDENCE_ATTRIBUTES, *sorted(links)))
    if entry is None or not is_expected:
        return (entry is not None) == is_expected
    is_grown = all(has_grown(entry, each.evidence or {}) for each in elsewhere)
    return is_grown and all(_links_hold(client, entry, evidence))


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
