"""Is something missing because it is not there, or because it has not arrived yet? The log knows what there must be.

After a fail-over a domain controller may be asked that has not yet got the latest changes of another one.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet

from active_directory import Client, servers_asked_so_far
from audit.identifiers import identifier_bounds
from audit.models import OPEN_OUTCOMES, OperationRecord, Outcome
from core.database import shared_clock
from core.text.messages import message
from directory import errors


class NotReplicatedYet(errors.Unavailable):
    """The object was changed at another domain controller a moment ago, and this one does not show it yet."""

    def __init__(self) -> None:
        super().__init__(message("What was changed at another domain controller has not arrived at this one yet."))


def server_of(evidence: dict[str, Any] | None) -> str | None:
    """The domain controller whose state a record's evidence is; None in a record from before that was kept."""
    server = (evidence or {}).get("server")
    return server if isinstance(server, str) else None


def require_absent(client: Client, reference: UUID | str) -> None:
    """For an object that was not found by its objectGUID or name: raise NotReplicatedYet if it must be on its way.

    Costs nothing where a directory has one server. Raises LdapError.
    """
    if len(client.settings.urls) == 1:
        return
    _require_made_here(client, recent_changes(reference), reference)


def require_all_absent(client: Client, guids: Collection[UUID]) -> None:
    """The same for several objects that were not found by their objectGUIDs."""
    if len(client.settings.urls) > 1 and guids:
        for guid, changes in recent_changes_of(guids).items():
            _require_made_here(client, changes, guid)


def _require_made_here(client: Client, changes: Sequence[OperationRecord], reference: UUID | str) -> None:
    if not changes or not is_there_after(changes[0], reference):
        return
    # Those that were asked: the one that would be chosen now may be another one.
    servers = servers_asked_so_far() or {client.choose_server()}
    if any(is_from_elsewhere(client, changes[0], server) for server in servers):
        raise NotReplicatedYet


def may_lack_changes(client: Client, servers: Collection[str]) -> bool:
    """Whether one of the servers that something was read from may lack a change that was made at another one.

    That is so for `Directory:StickySeconds` after a change elsewhere. Without any it costs nothing but one look a
    second: what is told may be so old, but never older than the latest fail-over that this process heard of.
    """
    return len(client.settings.urls) > 1 and any(
        _may_lack(client, server) for server in servers if server in client.settings.urls
    )


_LOOK_SECONDS: Final = 1.0
_MOST_LOOKS: Final = 1000
_looks: dict[tuple[tuple[str, ...], str, str | None], tuple[float, bool]] = {}
"""What was found last, and when, of a server while one was the latest to have taken a write."""


def _may_lack(client: Client, server: str) -> bool:
    which = client.settings.urls, server, client.agreement.heard
    known = _looks.get(which)
    if known is not None and monotonic() - known[0] < _LOOK_SECONDS:
        return known[1]
    may_lack = not client.agreement.is_alone(server) and _was_changed_beside(client, server)
    if len(_looks) > _MOST_LOOKS:
        _looks.clear()
    _looks[which] = monotonic(), may_lack
    return may_lack


def _was_changed_beside(client: Client, server: str) -> bool:
    others = [url for url in client.settings.urls if url != server]
    return _recent(Q(evidence__server__in=others)).exists()


def recent_changes(reference: UUID | str) -> list[OperationRecord]:
    """What the log has of an object's changes within `Directory:StickySeconds`, made or perhaps made; the latest first.

    By its name an object is found that had it, was to get it, or has it.
    """
    is_same = Q(target_id=reference)
    if isinstance(reference, str):
        is_same = Q(target_dn__iexact=reference) | Q(evidence__newDn__iexact=reference)
    return list(_recent(is_same).order_by("-id"))


def recent_changes_of(targets: Collection[UUID]) -> dict[UUID, list[OperationRecord]]:
    """The same of several objects, by objectGUID."""
    found: dict[UUID, list[OperationRecord]] = {}
    for change in _recent(Q(target_id__in=targets)).order_by("-id"):
        if change.target_id is not None:
            found.setdefault(change.target_id, []).append(change)
    return found


def _recent(which: Q) -> QuerySet[OperationRecord]:
    since = shared_clock.now() - timedelta(seconds=settings.CONFIGURATION.Directory.StickySeconds)
    return OperationRecord.objects.filter(
        which,
        id__gte=identifier_bounds(since)[0],
        outcome__in=(Outcome.SUCCEEDED, *OPEN_OUTCOMES),
        evidence__isnull=False,
    )


def is_from_elsewhere(client: Client, change: OperationRecord, server: str | None) -> bool:
    """Whether it was made at another server, which the directory still has: what was made at this one is there."""
    made_at = server_of(change.evidence)
    return made_at != server and made_at in client.settings.urls


def is_there_after(change: OperationRecord, reference: UUID | str) -> bool:
    """Whether a change, if it was made, leaves an object with this objectGUID or name."""
    evidence = change.evidence or {}
    if evidence.get("write") == "rename" and not isinstance(reference, UUID):
        return bool(evidence["newDn"].lower() == reference.lower())
    return evidence.get("write") != "delete"
