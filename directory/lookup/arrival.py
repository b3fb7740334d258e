"""Is something missing because it is not there, or because it has not arrived yet? The log knows what there must be.

After a fail-over a domain controller may be asked that has not yet got the latest changes of another one.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from audit.identifiers import identifier_bounds
from audit.models import OPEN_OUTCOMES, OperationRecord, Outcome
from directory import errors
from directory.ldap import Client
from gateway.core import shared_clock


class NotArrived(errors.Unavailable):
    """The object was changed at another domain controller a moment ago, and this one does not show it yet."""

    def __init__(self) -> None:
        super().__init__("What was changed at another domain controller has not arrived at this one yet.")


def server_of(evidence: dict[str, Any] | None) -> str | None:
    """The domain controller whose state a record's evidence is; None in a record from before that was kept."""
    server = (evidence or {}).get("server")
    return server if isinstance(server, str) else None


def require_absent(client: Client, reference: UUID | str) -> None:
    """For an object that was not found by its objectGUID or name: raise NotArrived if it must be on its way.

    Costs nothing where a directory has one server. Raises LdapError.
    """
    if len(client.settings.urls) == 1:
        return
    server = client.choose_server()
    changes = recent_changes(target=reference) if isinstance(reference, UUID) else recent_changes(dn=reference)
    if changes and is_from_elsewhere(client, changes[0], server) and is_there_after(changes[0], reference):
        raise NotArrived


def recent_changes(*, target: UUID | None = None, dn: str | None = None) -> list[OperationRecord]:
    """What the log has of an object's changes within `Directory:StickySeconds`, made or perhaps made; the latest first.

    By its name an object is found that had it, was to get it, or has it.
    """
    since = shared_clock.now() - timedelta(seconds=settings.CONFIGURATION.Directory.StickySeconds)
    named = Q(target_dn__iexact=dn) | Q(evidence__newDn__iexact=dn)
    found = OperationRecord.objects.filter(
        named if target is None else Q(target_id=target),
        id__gte=identifier_bounds(since)[0],
        outcome__in=(Outcome.SUCCEEDED, *OPEN_OUTCOMES),
        evidence__isnull=False,
    )
    return list(found.order_by("-id"))


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
