"""Whose write was it? What the operations log adds to the directory's evidence when several changes began alike.

`evidence` sees that something changed since a record's evidence was taken. A retry that was carried out while the
record of the killed first attempt was still open leaves the same trace, and so does anybody else's change of the
attribute. The log tells them apart: of changes that began from the same state and exclude one another, one was applied.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import cached_property, partial
from itertools import combinations
from typing import Any
from uuid import UUID

import structlog
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import QuerySet

from active_directory import Client, LdapError, decode, fold, is_samba
from audit.models import OPEN_OUTCOMES, OperationRecord, Outcome
from core.database import shared_clock
from directory.lookup.replication import server_of
from directory.outcomes.evidence import await_all, find_outcome, growth, has_finished_writing
from directory.shapes.kinds import Kind
from directory.shapes.modifications import is_single_valued
from directory.shapes.proposal import SECRET

_logger = structlog.stdlib.get_logger(__name__)

ExclusiveEffect = tuple[str, ...]
"""What of all changes that began from one state only a single one can have done. Most name a version, which never
comes again; those of `_UNDONE_BY` can be done again once they were undone."""

_EARLIER = timedelta(hours=1)
"""How much older than a record another one may be that was still being written: far more than any write takes."""

_MOST_COMPARED = 8
"""How many open records are weighed against one another; their sets are, so twice as many for each."""

_UNDONE_BY = {"joined": "left", "left": "joined", "added": "gone", "gone": "added", "deleted": "restored"}
_UNDONE_BY |= {"restored": "deleted"}


def find_recorded_outcome(client: Client, record: OperationRecord) -> bool | None:
    """Whether a record's write was applied; None when that cannot be known (now). Never raises for the directory.

    While another change from the same state is under way, that is not known.
    """
    client = client.at(server_of(record.evidence))
    shown = find_outcome(client, record.evidence or {})
    if shown is False:
        # A domain controller that is still at a write shows the state from before it.
        if not has_finished_writing(client, record.evidence or {}):
            return None
        shown = find_outcome(client, record.evidence or {})
    if not shown:  # without a trace it was not applied, whoever else was at it
        return shown
    try:
        return _is_its_own(client, record)
    except LdapError:
        return None
    except (DatabaseError, InterfaceError):
        _logger.warning("the log does not answer, so an outcome stays unknown", record=str(record.id))
        connection.close_if_unusable_or_obsolete()
        return None


def await_recorded_outcomes(client: Client, records: Sequence[OperationRecord]) -> list[bool | None]:
    """The same for a caller who still waits for writes lost together: the domain controller gets a moment to come back.

    They are waited for together.
    """
    return await_all([partial(find_recorded_outcome, client, record) for record in records])


class _Change:
    """A recorded change, and what its evidence says of it."""

    def __init__(self, client: Client, record: OperationRecord) -> None:
        self.record = record
        self.evidence: dict[str, Any] = record.evidence or {}
        self.versions: dict[str, int] = self.evidence.get("versions", {})
        """Of a modify: those from which it began, by attid."""
        self.is_unguarded = bool(self.evidence.get("unguarded"))
        """Whether it replaces a value whatever that is, and so excludes nobody."""
        self._client = client
        self._schema = client.schema

    @cached_property
    def steps(self) -> dict[str, int]:
        """By how much a modify raises the version of each attribute, by attid.

        One for each step on Samba (seen with 4.17), one in all on Windows ([MS-ADTS] 3.1.1.1.9).
        """
        steps: dict[str, int] = self.evidence.get("steps") or dict.fromkeys(self.versions, 1)
        return steps if is_samba(self._client) else dict.fromkeys(steps, 1)

    @cached_property
    def exclusive_effects(self) -> frozenset[ExclusiveEffect]:
        """See `ExclusiveEffect`."""
        evidence = self.evidence
        match evidence.get("write"):
            case "modify":
                return frozenset(self._exclusive_effects_of_modify())
            case "rename" if evidence["nameVersion"] is not None:
                return frozenset({("renamed", str(evidence["nameVersion"]))})
            case "add":
                return frozenset({("added", fold(evidence["dn"]))})
            case "delete":
                return frozenset({("deleted", evidence["id"]), ("gone", fold(self.record.target_dn or ""))})
            case "restore":
                return frozenset({("restored", evidence["id"])})
        return frozenset()

    def _exclusive_effects_of_modify(self) -> Iterator[ExclusiveEffect]:
        """A value is removed once and added once; of a single-valued attribute any change excludes any other."""
        ids = self.evidence.get("ids", {})
        for action, links in (("joined", self.evidence["added"]), ("left", self.evidence["removed"])):
            yield from ((action, name.lower(), ids.get(dn, fold(dn))) for name, names in links.items() for dn in names)
        kind = Kind(self.record.target_kind) if self.record.target_kind else Kind.OBJECT
        for change in self.record.changes:
            attribute = self._schema.attribute(change["attribute"])
            version = self.versions.get(str(attribute.attid)) if attribute else None
            if attribute is None or version is None:
                continue
            state = (attribute.name, str(version))
            if is_single_valued(attribute, kind):
                yield ("changed", *state)
            before, after = set(change["before"]), set(change["after"])
            yield from (("removed", *state, value) for value in before - after)
            yield from (("appended", *state, value) for value in after - before)

    @property
    def has_trace(self) -> bool:
        """Whether the directory shows a trace of it, be it its own or another's."""
        return bool(find_outcome(self._client, self.evidence))

    @property
    def is_under_way(self) -> bool:
        """Whether its writer may still be at it.

        One that gave up has noted that it does not know, and what a settler has at hand is past its writer's time.
        """
        record = self.record
        is_pending = record.outcome == Outcome.PENDING and record.settle_attempts == 0
        return is_pending and record.settle_at is not None and record.settle_at > shared_clock.now()

    def may_exclude(self, other: "_Change") -> bool:
        """Whether perhaps only one of the two was applied: by what they did, or since they raised the same versions."""
        have_versions_in_common = not self.versions.keys().isdisjoint(other.versions)
        return have_versions_in_common or not self.exclusive_effects.isdisjoint(other.exclusive_effects)

    def is_taken(self, succeeded: Sequence["_Change"]) -> bool:
        """Whether another change succeeded with what only one can have done."""
        return any(self._is_taken(effect, succeeded) for effect in self.exclusive_effects)

    def _is_taken(self, effect: ExclusiveEffect, succeeded: Sequence["_Change"]) -> bool:
        action, *what = effect
        undoing = (_UNDONE_BY.get(action, ""), *what)
        done = [
            (other.record.at, effect in other.exclusive_effects)
            for other in succeeded
            if effect in other.exclusive_effects or undoing in other.exclusive_effects
        ]
        # What was last done before this record began, and next: if it is the same, it was not undone in between.
        before = max((each for each in done if each[0] < self.record.at), default=None)
        after = min((each for each in done if each[0] >= self.record.at), default=None)
        return any(each is not None and each[1] for each in (before, after))

    def is_shown(self) -> bool:
        """Whether the directory holds the values that a modify led to; secrets and other writes count as shown."""
        changes = [
            (attribute, change["after"])
            for change in self.record.changes
            if (attribute := self._schema.attribute(change["attribute"])) is not None and SECRET not in change["after"]
            if str(attribute.attid) in self.versions
        ]
        if not changes:
            return True
        entry = self._client.find(UUID(self.evidence["id"]), [attribute.name for attribute, _ in changes])
        return entry is not None and all(
            sorted(decode(attribute, entry.values(attribute.name))) == sorted(after) for attribute, after in changes
        )


def _is_its_own(client: Client, record: OperationRecord) -> bool | None:
    """Whether the trace that the directory shows is this record's.

    Among all open records with a trace, those are taken for applied that together explain most of what the directory's
    metadata counts and never more, beside one another and beside what is known to have succeeded.
    """
    change = _Change(client, record)
    others = [_Change(client, other) for other in others_about_the_same(record, _EARLIER)]
    succeeded = [other for other in others if other.record.outcome == Outcome.SUCCEEDED]
    if not change.is_unguarded and change.is_taken(succeeded):
        return False
    competing = [other for other in others if other.record.outcome in OPEN_OUTCOMES and other.may_exclude(change)]
    if any(other.is_under_way for other in competing):
        return None
    candidates = [change, *(other for other in competing if other.has_trace)]
    if len(candidates) > 1:
        candidates.sort(key=lambda each: (not each.is_shown(), each.record.id))
        candidates = [each for place, each in enumerate(candidates) if place < _MOST_COMPARED or each is change]
    return change in _applied_among(candidates, _unexplained_growth(client, candidates, succeeded))


def _applied_among(candidates: Sequence[_Change], room: dict[str, int]) -> Sequence[_Change]:
    """Those of the open records that explain most of what there is room for; of equal choices the first."""
    chosen: Sequence[_Change] = ()
    most = (0, 0)
    for size in range(1, len(candidates) + 1):
        for some in combinations(candidates, size):
            raised = Counter[str]()
            for each in some:
                raised.update(each.steps)
            exclusive = [effect for each in some if not each.is_unguarded for effect in each.exclusive_effects]
            if len(exclusive) > len(set(exclusive)) or any(count > room[attid] for attid, count in raised.items()):
                continue
            if (raised.total(), size) > most:
                chosen, most = some, (raised.total(), size)
    return chosen


def _unexplained_growth(client: Client, candidates: Sequence[_Change], succeeded: Sequence[_Change]) -> dict[str, int]:
    """How far versions have grown, by attid, since the first candidate began, without anybody known to have done it."""
    began: dict[str, int] = {}
    for each in candidates:
        for attid, version in each.versions.items():
            began[attid] = min(version, began.get(attid, version))
    if not began:
        return {}
    room = growth(client, {**candidates[0].evidence, "versions": began})
    for other in succeeded:
        for attid, version in other.versions.items():
            if version >= began.get(attid, version + 1):
                room[attid] -= other.steps.get(attid, 0)
    return room


def others_about_the_same(record: OperationRecord, earlier: timedelta) -> QuerySet[OperationRecord]:
    """The records of other changes of the object, made or perhaps made, that are at most so much older."""
    evidence = record.evidence or {}
    others = OperationRecord.objects.filter(
        outcome__in=(Outcome.SUCCEEDED, *OPEN_OUTCOMES), evidence__isnull=False, at__gte=record.at - earlier
    ).exclude(id=record.id)
    if evidence.get("write") == "add":
        return others.filter(target_dn__iexact=evidence["dn"])
    return others.filter(target_id=record.target_id)
