"""Telling an object that does not exist from one that has not replicated yet, by the changes in the operations log.

After a fail-over the gateway may ask a domain controller that lacks the latest changes of another one.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any
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
    """The object was changed at another domain controller a moment ago, and that has not replicated to this one."""

    def __init__(self) -> None:
        super().__init__(message("What was changed at another domain controller has not arrived at this one yet."))


def server_of(evidence: dict[str, Any] | None) -> str | None:
    """The domain controller that a record's evidence is from; None in a record made before servers were kept."""
    server = (evidence or {}).get("server")
    return server if isinstance(server, str) else None


def require_absent(client: Client, reference: UUID | str) -> None:
    """Raise NotReplicatedYet if the log says that an object that was not found must exist; also raises LdapError.

    Costs nothing for a directory with one server.
    """
    if len(client.settings.urls) == 1:
        return
    _require_not_pending(client, recent_changes(reference), reference)


def require_all_absent(client: Client, guids: Collection[UUID]) -> None:
    """The same as `require_absent` for several objects."""
    if len(client.settings.urls) > 1 and guids:
        for guid, changes in recent_changes_by_target(guids).items():
            _require_not_pending(client, changes, guid)


def _require_not_pending(client: Client, changes: Sequence[OperationRecord], reference: UUID | str) -> None:
    if not changes or not leaves_object(changes[0], reference):
        return
    # The servers that were asked, as the one that would be chosen now may be another.
    servers = servers_asked_so_far() or {client.choose_server()}
    if any(is_from_elsewhere(client, changes[0], server) for server in servers):
        raise NotReplicatedYet


def may_lack_changes(client: Client, servers: Collection[str]) -> bool:
    """Whether one of these servers may lack a change that was made at another one.

    That may be so for `Directory:StickySeconds` after a change. The log is not read where Redis knows of no change.
    """
    urls = client.settings.urls
    return len(urls) > 1 and any(
        not client.preferred_controller.is_only_writer(server)
        and _recent_records(Q(evidence__server__in=[url for url in urls if url != server])).exists()
        for server in servers
        if server in urls
    )


def recent_changes(reference: UUID | str) -> list[OperationRecord]:
    """An object's changes within `Directory:StickySeconds` that were or may have been made, the latest first.

    A name finds the changes of an object that has it, had it or was to get it.
    """
    is_same = Q(target_id=reference)
    if isinstance(reference, str):
        is_same = Q(target_dn__iexact=reference) | Q(evidence__newDn__iexact=reference)
    return list(_recent_records(is_same).order_by("-id"))


def recent_changes_by_target(targets: Collection[UUID]) -> dict[UUID, list[OperationRecord]]:
    """The same as `recent_changes` for several objects, by objectGUID."""
    found: dict[UUID, list[OperationRecord]] = {}
    for change in _recent_records(Q(target_id__in=targets)).order_by("-id"):
        if change.target_id is not None:
            found.setdefault(change.target_id, []).append(change)
    return found


def is_changed_elsewhere(client: Client, targets: Collection[UUID], server: str | None, *, besides_run: UUID) -> bool:
    """Whether a recent change of one of these objects, not by this run, is open or was made at another server."""
    concerned = Q(outcome__in=OPEN_OUTCOMES)
    if len(client.settings.urls) > 1:
        concerned |= ~Q(evidence__server=server)
    return _recent_records(concerned & Q(target_id__in=targets)).exclude(run_id=besides_run).exists()


def _recent_records(condition: Q) -> QuerySet[OperationRecord]:
    since = shared_clock.now() - timedelta(seconds=settings.CONFIGURATION.Directory.StickySeconds)
    recent = OperationRecord.objects.filter(
        condition,
        id__gte=identifier_bounds(since)[0],
        outcome__in=(Outcome.SUCCEEDED, *OPEN_OUTCOMES),
        evidence__isnull=False,
    )
    return recent.only("target_id", "run_id", "outcome", "evidence")  # the other columns cost a run of 100 some ms


def is_from_elsewhere(client: Client, change: OperationRecord, server: str | None) -> bool:
    """Whether a change was made at another server that the connection still has."""
    made_at = server_of(change.evidence)
    return made_at != server and made_at in client.settings.urls


def leaves_object(change: OperationRecord, reference: UUID | str) -> bool:
    """Whether an object with this objectGUID or name exists after a change, if it was made."""
    evidence = change.evidence or {}
    if evidence.get("write") == "rename" and not isinstance(reference, UUID):
        return bool(evidence["newDn"].lower() == reference.lower())
    return evidence.get("write") != "delete"
