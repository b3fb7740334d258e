"""Attribution: which of several recorded changes made the change that the directory shows.

`evidence` only sees that something changed since a record's evidence was taken. A retry that succeeded while the record
of the killed first attempt was still open leaves the same trace, and so does anybody else's change of the attribute.
The log distinguishes them: of changes that started from the same state and exclude one another, only one was applied.
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

from active_directory import Client, LdapError, decode, fold_case, is_samba
from audit.models import OPEN_OUTCOMES, OperationRecord, Outcome
from audit.redact import SECRET
from core.database import shared_clock
from directory.lookup.replication import server_of
from directory.outcomes.evidence import await_outcomes, find_outcome, has_finished_writing, version_growth
from directory.shapes.kinds import Kind
from directory.shapes.modifications import is_single_valued

_logger = structlog.stdlib.get_logger(__name__)

ExclusiveEffect = tuple[str, ...]
"""An effect that only one of all changes that started from the same state can have had.

Most name a version, which never recurs; those in `_UNDONE_BY` can recur after they were undone.
"""

_MAX_WRITE_DURATION = timedelta(hours=1)
"""A record this much older than another was complete when that one began: far longer than any write takes."""

_MAX_COMPARED = 8
"""How many open records are compared: all their subsets are, so each more doubles the work."""

_UNDONE_BY = {"joined": "left", "left": "joined", "added": "gone", "gone": "added", "deleted": "restored"}
_UNDONE_BY |= {"restored": "deleted"}


def find_recorded_outcome(client: Client, record: OperationRecord) -> bool | None:
    """Whether a record's write was applied; None when that cannot be known (now). Never raises LdapError.

    It cannot be known while another change from the same state is under way.
    """
    evidence = record.evidence or {}
    client = client.at(server_of(evidence))
    shown = find_outcome(client, evidence)
    if shown is False:
        # A domain controller that is still executing the write shows the state before it.
        if not has_finished_writing(client, evidence):
            return None
        shown = find_outcome(client, evidence)
    if not shown:  # without a trace it was not applied, whatever other changes there were
        return shown
    try:
        return _is_own_trace(client, record)
    except LdapError:
        return None
    except (DatabaseError, InterfaceError):
        _logger.warning("the log does not answer, so an outcome stays unknown", record=str(record.id))
        connection.close_if_unusable_or_obsolete()
        return None


def await_recorded_outcomes(client: Client, records: Sequence[OperationRecord]) -> list[bool | None]:
    """Whether the writes of records whose answers were lost together were applied, for a caller who waits.

    It tries for up to RECOVERY_SECONDS in all; None for what stays unknown.
    """
    return await_outcomes([partial(find_recorded_outcome, client, record) for record in records])


class _Change:
    """A recorded change and its evidence."""

    def __init__(self, client: Client, record: OperationRecord) -> None:
        self.record = record
        self.evidence: dict[str, Any] = record.evidence or {}
        self.versions: dict[str, int] = self.evidence.get("versions", {})
        """For a modify, the versions before it, by attid."""
        self.is_unguarded = bool(self.evidence.get("unguarded"))
        """Whether it replaces a value whatever the old one is, so that it excludes no other change."""
        self._client = client
        self._schema = client.schema

    @cached_property
    def steps(self) -> dict[str, int]:
        """By how much a modify raises the version of each attribute, by attid.

        Samba raises it once for each step (seen with 4.17), Windows once for the modify ([MS-ADTS] 3.1.1.1.9).
        """
        steps: dict[str, int] = self.evidence.get("steps") or dict.fromkeys(self.versions, 1)
        return steps if is_samba(self._client) else dict.fromkeys(steps, 1)

    @cached_property
    def exclusive_effects(self) -> frozenset[ExclusiveEffect]:
        evidence = self.evidence
        match evidence.get("write"):
            case "modify":
                return frozenset(self._exclusive_effects_of_modify())
            case "rename" if evidence["nameVersion"] is not None:
                return frozenset({("renamed", str(evidence["nameVersion"]))})
            case "add":
                return frozenset({("added", fold_case(evidence["dn"]))})
            case "delete":
                return frozenset({("deleted", evidence["id"]), ("gone", fold_case(self.record.target_dn or ""))})
            case "restore":
                return frozenset({("restored", evidence["id"])})
        return frozenset()

    def _exclusive_effects_of_modify(self) -> Iterator[ExclusiveEffect]:
        """Each value is removed or added only once; two changes of a single-valued attribute exclude each other."""
        ids = self.evidence.get("ids", {})
        for action, links in (("joined", self.evidence["added"]), ("left", self.evidence["removed"])):
            yield from (
                (action, name.lower(), ids.get(dn, fold_case(dn))) for name, names in links.items() for dn in names
            )
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
        """Whether the directory shows a trace that is this change's or another's like it."""
        return bool(find_outcome(self._client, self.evidence))

    @property
    def is_under_way(self) -> bool:
        """Whether its writer may still be working on it.

        A writer that gave up has recorded an unknown outcome, and a settler takes a record only after its writer's time
        is over.
        """
        record = self.record
        is_pending = record.outcome == Outcome.PENDING and record.settle_attempts == 0
        return is_pending and record.settle_at is not None and record.settle_at > shared_clock.now()

    def may_exclude(self, other: "_Change") -> bool:
        """Whether possibly only one of the two was applied, for they share an exclusive effect or a changed version."""
        have_versions_in_common = not self.versions.keys().isdisjoint(other.versions)
        return have_versions_in_common or not self.exclusive_effects.isdisjoint(other.exclusive_effects)

    def is_excluded_by(self, succeeded: Sequence["_Change"]) -> bool:
        """Whether a change that succeeded had one of the exclusive effects of this one."""
        return any(self._is_effect_done_by(effect, succeeded) for effect in self.exclusive_effects)

    def _is_effect_done_by(self, effect: ExclusiveEffect, succeeded: Sequence["_Change"]) -> bool:
        action, *what = effect
        undoing = (_UNDONE_BY.get(action, ""), *what)
        done = [
            (other.record.at, effect in other.exclusive_effects)
            for other in succeeded
            if effect in other.exclusive_effects or undoing in other.exclusive_effects
        ]
        # The last such change before this record began, and the next one afterwards. If either had this effect and not
        # the inverse one, nothing was undone in between, so this record cannot have had the effect.
        before = max((each for each in done if each[0] < self.record.at), default=None)
        after = min((each for each in done if each[0] >= self.record.at), default=None)
        return any(each is not None and each[1] for each in (before, after))

    def has_final_values(self) -> bool:
        """Whether the directory holds the values that a modify set; secrets and other writes count as matching."""
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


def _is_own_trace(client: Client, record: OperationRecord) -> bool | None:
    """Whether the trace in the directory is this record's; None while a competing change is under way.

    Of all open records with a trace, those count as applied that together explain as much of the growth in the
    directory's metadata as possible, but not more, in addition to the changes known to have succeeded.
    """
    change = _Change(client, record)
    others = [_Change(client, other) for other in _other_changes_of_object(record)]
    succeeded = [other for other in others if other.record.outcome == Outcome.SUCCEEDED]
    if not change.is_unguarded and change.is_excluded_by(succeeded):
        return False
    competing = [other for other in others if other.record.outcome in OPEN_OUTCOMES and other.may_exclude(change)]
    if any(other.is_under_way for other in competing):
        return None
    candidates = [change, *(other for other in competing if other.has_trace)]
    if len(candidates) > 1:
        candidates.sort(key=lambda each: (not each.has_final_values(), each.record.id))
        candidates = [each for position, each in enumerate(candidates) if position < _MAX_COMPARED or each is change]
    return change in _most_explanatory(candidates, _unexplained_growth(client, candidates, succeeded))


def _most_explanatory(candidates: Sequence[_Change], growth: dict[str, int]) -> Sequence[_Change]:
    """The compatible candidates that explain most of the growth of versions, by attid; the first of equal choices."""
    chosen: Sequence[_Change] = ()
    most = (0, 0)
    for size in range(1, len(candidates) + 1):
        for some in combinations(candidates, size):
            raised = Counter[str]()
            for each in some:
                raised.update(each.steps)
            exclusive = [effect for each in some if not each.is_unguarded for effect in each.exclusive_effects]
            if len(exclusive) > len(set(exclusive)) or any(count > growth[attid] for attid, count in raised.items()):
                continue
            if (raised.total(), size) > most:
                chosen, most = some, (raised.total(), size)
    return chosen


def _unexplained_growth(client: Client, candidates: Sequence[_Change], succeeded: Sequence[_Change]) -> dict[str, int]:
    """By how much versions, by attid, have grown since the first candidate began, beyond what `succeeded` explains."""
    began: dict[str, int] = {}
    for each in candidates:
        for attid, version in each.versions.items():
            began[attid] = min(version, began.get(attid, version))
    if not began:
        return {}
    growth = version_growth(client, {**candidates[0].evidence, "versions": began})
    for other in succeeded:
        for attid, version in other.versions.items():
            if version >= began.get(attid, version + 1):
                growth[attid] -= other.steps.get(attid, 0)
    return growth


def _other_changes_of_object(record: OperationRecord) -> QuerySet[OperationRecord]:
    """The records of other changes of the object, made or possibly made, at most `_MAX_WRITE_DURATION` older."""
    evidence = record.evidence or {}
    others = OperationRecord.objects.filter(
        outcome__in=(Outcome.SUCCEEDED, *OPEN_OUTCOMES), evidence__isnull=False, at__gte=record.at - _MAX_WRITE_DURATION
    ).exclude(id=record.id)
    if evidence.get("write") == "add":
        return others.filter(target_dn__iexact=evidence["dn"])
    return others.filter(target_id=record.target_id)
