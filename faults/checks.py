"""The independent checker: what clients were told, what the log says and what the directory holds must agree.

It relies on nothing that the gateway computed. Every finding is a sentence; a target without findings is met.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from faults.diary import ABSENT, NO, YES, Diary, Key, Outcome, Request
from faults.lending import BURST, LASTS
from faults.observed import TRACKED, Calibration, ChangeRequest, ObservedObject, Record
from faults.world import ATTRIBUTES
from lab.accounts.making import BUDGET
from lab.directory import split_dn

DISABLED = 0x0002
_AFTER_APPROVAL = ("approved", "applying", "applied", "partly-failed", "failed", "stale", "unknown")


@dataclass
class Story:
    """Everything that is compared.

    `before` is the directory when the load began; `can_sign_in` has the accounts with the passwords that work, among
    those that clients have set. `faults` are when something was broken, and when that was over.
    """

    diaries: Sequence[Diary]
    records: Sequence[Record]
    before: Mapping[str, ObservedObject]
    after: Mapping[str, ObservedObject]
    calibration: Calibration
    decisions: Mapping[str, str]
    change_requests: Sequence[ChangeRequest]
    runs: Sequence[tuple[str, str, int, int]]
    can_sign_in: frozenset[tuple[str, str]]
    faults: Sequence[tuple[float, float]] = ()

    def __post_init__(self) -> None:
        self.by_request, self.by_target = defaultdict[str, list[Record]](list), defaultdict[str, list[Record]](list)
        # No name is ever reused, but users are renamed and moved.
        self._by_name = {seen.dn.lower(): guid for each in (self.before, self.after) for guid, seen in each.items()}
        for record in self.records:
            self.by_request[record.request].append(record)
            if target := record.target or self._created_as(record):
                self.by_target[target].append(record)
                for before, after in record.changes_of("distinguishedName"):
                    self._by_name |= {dn.lower(): target for dn in (*before, *after)}

    def named(self, dn: str) -> str:
        """The object that had this name at some time; what is no object's name stays as it is."""
        return self._by_name.get(dn.lower(), dn)

    def _created_as(self, record: Record) -> str | None:
        """The object that a creation made, found by its unique first name, for a record that does not have its GUID."""
        if not record.operation.endswith(".create") or record.target_dn is None:
            return None
        name = split_dn(record.target_dn)[0].partition("=")[2]
        return next((guid for guid, seen in self.after.items() if seen.text("sAMAccountName") == name), None)

    @property
    def made(self) -> Iterator[Record]:
        """The records of success."""
        return (record for record in self.records if record.is_made)

    @property
    def due(self) -> Iterator[tuple[ChangeRequest, datetime]]:
        """The changes for later and the ends of those for a while, and when they are due."""
        return ((each, each.due_at) for each in self.change_requests if each.due_at)

    @property
    def requests(self) -> Iterator[Request]:
        """The requests of all clients."""
        for diary in self.diaries:
            yield from diary.requests


def missing_changes(story: Story) -> Iterator[str]:
    """Yield acknowledged changes that the directory does not have, and passwords that do not work."""
    for diary in story.diaries:
        possible = diary.possible_values()
        for key, value in diary.facts.items():
            if key[0] == "password":
                if not any((key[1], password) in story.can_sign_in for password in possible[key]):
                    yield f"{diary.client}: the password of {key[1]} is not {value!r}"
            elif (found := _fact(story, key)) is not None and found not in possible[key]:
                yield f"{diary.client}: {' '.join(key)} is {found!r} and should be {value!r}"


def _fact(story: Story, key: Key) -> str | None:
    """A fact as the directory has it; None if its object is gone, which is a fact of its own."""
    kind, *objects = key
    seen = story.after.get(objects[-1])
    is_there = seen is not None and not seen.is_deleted
    if kind == "exists":
        by_name = any(each.dn == objects[-1] for each in story.after.values())
        return YES if is_there or by_name else NO
    if seen is None or not is_there:
        return None
    if kind == "enabled":
        return NO if int(seen.text("userAccountControl")) & DISABLED else YES
    if kind == "member":
        return YES if seen.dn in story.after[objects[0]].texts("member") else NO
    return split_dn(seen.dn)[1] if kind == "unit" else seen.text(kind)


def unrecorded_changes(story: Story) -> Iterator[str]:
    """Yield changes of the directory without a record: of objects, attribute versions, values and members."""
    for guid, seen in story.after.items():
        records = story.by_target[guid]
        if guid not in story.before and not _is_recorded(records, ".create"):
            yield f"{seen.dn} was created and nothing says so"
        if seen.is_deleted and not _is_recorded(records, ".delete"):
            yield f"{seen.dn} was deleted and nothing says so"
        yield from _unexplained_values(story, guid)
    for seen, name, excess, possible in _excesses(story):
        if excess > possible and name != "unicodePwd":
            yield f"{seen.dn}: {name} has {excess} versions more than its records tell of"
    for guid, seen in story.before.items():
        if guid not in story.after:
            yield f"{seen.dn} is gone without a trace"


def _is_recorded(records: Iterable[Record], action: str) -> bool:
    return any(record.operation.endswith(action) and (record.is_made or record.is_open) for record in records)


def _excesses(story: Story) -> Iterator[tuple[ObservedObject, str, int, int]]:
    """Yield by how many versions each attribute is ahead of its records, and how many open records may explain."""
    for guid, seen in story.after.items():
        old, records = story.before.get(guid), story.by_target[guid]
        for name in () if seen.is_deleted else TRACKED:
            first = old.versions[name] if old else story.calibration.created[name]
            told = sum(_step(story, record, name) for record in records if record.is_made)
            possible = sum(_step(story, record, name) for record in records if record.is_open)
            yield seen, name, seen.versions[name] - first - told, possible


def _step(story: Story, record: Record, name: str) -> int:
    """By how much a record's change raises an attribute's version."""
    if record.operation.endswith((".create", ".delete")):
        return 0
    if name == "name" and record.operation.endswith((".rename", ".move")):
        return story.calibration.steps[name, record.operation.partition(".")[2]]
    for before, after in record.changes_of(name):
        return story.calibration.steps[name, "set" if not before else "swap" if after else "clear"]
    return 0


def _unexplained_values(story: Story, guid: str) -> Iterator[str]:
    """Yield values and members to which, or from which, no records lead. All values are unique."""
    seen, old = story.after[guid], story.before.get(guid)
    for name in () if seen.is_deleted else (*ATTRIBUTES, "member"):
        nothing = [] if name == "member" else [ABSENT]
        first = old.texts(name) if old else []
        # How often the records of success have set a value and not replaced it, and what open ones may have done.
        balance = Counter(first or nothing)
        added, removed = set[str](), set[str]()
        for record in story.by_target[guid]:
            for change in record.changes_of(name):
                before, after = (list(map(story.named, values or nothing)) for values in change)
                if record.is_made:
                    balance.update(after)
                    balance.subtract(before)
                elif record.is_open:
                    added.update(after)
                    removed.update(before)
        told = {value for value, count in balance.items() if count > 0}
        now = set(map(story.named, seen.texts(name) or nothing))
        for value in (now - told - added) | (told - now - removed):
            yield f"{seen.dn}: {name} is {'' if value in now else 'not '}{value!r}, against the records"


def changes_applied_twice(story: Story) -> Iterator[str]:
    """Yield requests that made several changes by their records, and passwords by their versions."""
    for request, records in story.by_request.items():
        counts = Counter((record.target or record.target_dn, record.index) for record in records if record.is_made)
        for (target, _), count in counts.items():
            if count > 1:
                yield f"{request} changed {target} {count} times"
    for seen, name, excess, possible in _excesses(story):
        if name == "unicodePwd" and excess > possible:
            yield f"{seen.dn}: the password was set more often than the records tell of ({excess} more)"


def untrue_records(story: Story) -> Iterator[str]:
    """Yield records of success whose change the directory does not have."""
    for seen, name, excess, _ in _excesses(story):
        if excess < 0:
            yield f"{seen.dn}: {name} has {-excess} versions less than its records tell of"
    for record in story.made:
        found = story.after.get(record.target or "")
        if record.operation.endswith(".delete") and found and not found.is_deleted:
            yield f"{found.dn} is there and was deleted according to a record"


def untold_changes(story: Story) -> Iterator[str]:
    """Yield acknowledged changes without a record of their success.

    An account that a run found unchanged needs none: its state is a fact, and its versions show that nobody changed it
    without a record.
    """
    for request in story.requests:
        done = [effect for effect in request.effects if effect.outcome is Outcome.DONE and not effect.was_unchanged]
        told = [record for record in story.by_request[request.id] if record.is_made]
        targets = {record.target for record in told} | {record.target_dn for record in told}
        for effect in done:
            target = effect.objects[0]
            if target in targets or (effect.key[0] == "exists" and told):
                continue
            if effect.index is None and told and not request.operation.endswith("-accounts"):
                continue
            yield f"{request.id} {request.operation}: nothing tells of {' '.join(effect.key)} = {effect.value!r}"


def untrue_unchanged(story: Story) -> Iterator[str]:
    """Yield accounts that a run reported as unchanged although the client knew them to be different.

    The account is the client's own, so what it was last told holds, unless a request with an unknown end has changed it
    since. That may be an earlier attempt of the same request, by its record.
    """
    for diary in story.diaries:
        known, possible = dict(diary.initial), defaultdict[Key, set[str]](set)
        for request in diary.requests:
            made = {each.target for each in story.by_request[request.id] if (each.is_made or each.is_open)}
            for effect in request.effects:
                is_explained = effect.value in possible[effect.key] or effect.objects[-1] in made
                if effect.was_unchanged and known.get(effect.key) != effect.value and not is_explained:
                    yield f"{request.id} {request.operation}: {' '.join(effect.key)} was said to be {effect.value!r}"
                if effect.outcome is Outcome.DONE:
                    known[effect.key] = effect.value
                    possible[effect.key].clear()
                elif effect.outcome is not Outcome.REFUSED:
                    possible[effect.key].add(effect.value)


def refused_changes_made(story: Story) -> Iterator[str]:
    """Yield changes that were reported as refused and made all the same."""
    for request in story.requests:
        if request.outcomes == {Outcome.REFUSED}:
            for record in story.by_request[request.id]:
                if record.is_made:
                    yield f"{request.id} {request.operation} was refused and made ({record.id})"


def runs_not_completed(story: Story) -> Iterator[str]:
    """Yield runs that are not completed, or lack results for some accounts."""
    for run, state, accounts, results in story.runs:
        if state != "completed" or accounts != results:
            yield f"run {run} is {state} with {results} of {accounts} results"


def approvals_not_applied(story: Story) -> Iterator[str]:
    """Yield approved changes that were not applied exactly once."""
    applied = Counter(record.change_request for record in story.made)
    for each in story.change_requests:
        is_approved = story.decisions.get(each.id) == "approve" or each.status in _AFTER_APPROVAL
        if is_approved and each.status != "applied":
            yield f"change request {each.id} was approved and is {each.status} ({each.problem})"
        if applied[each.id] != (each.status == "applied"):
            yield f"change request {each.id} is {each.status} and was applied {applied[each.id]} times"


def made_before_their_time(story: Story) -> Iterator[str]:
    """Yield scheduled changes that were made, or taken back, before they were due."""
    dates = {each.id: due_at for each, due_at in story.due}
    for record in story.made:
        if record.change_request in dates and record.at < (due_at := dates[record.change_request]) - _CLOCKS_AGREE_TO:
            yield f"change request {record.change_request} was due at {due_at}, made at {record.at}"


def never_made(story: Story) -> Iterator[str]:
    """Yield ends and beginnings that did not come at all. The end of a change that was not made is cancelled."""
    made = {record.id for record in story.made}
    for each, due_at in story.due:
        if each.status != "applied" and not (each.status == "cancelled" and each.ends not in made):
            yield f"change request {each.id} was due at {due_at} and is {each.status}"


def made_late(story: Story) -> Iterator[str]:
    """Yield what came more than `LATEST` seconds after its time, or after what was broken then was back."""
    for each, due, made in made_when_due(story):
        late = (made - due) - _broken(story, due, made)
        if late > LATEST:
            yield f"change request {each.id} was {made - due:.0f} s late, {late:.0f} s of them with nothing broken"


def made_when_due(story: Story) -> Iterator[tuple[ChangeRequest, float, float]]:
    """Each end and beginning, when it was due, and when it came."""
    made = {record.change_request: record.at for record in story.made}
    for each, due_at in story.due:
        if each.status == "applied" and each.id in made:
            yield each, due_at.timestamp(), made[each.id].timestamp()


def not_on_their_own_clocks(story: Story) -> Iterator[str]:
    """Yield ends whose time was not counted from the moment when their change was made."""
    made = {record.id: record.at for record in story.made}
    for each, due_at in story.due:
        if each.ends in made and abs(due_at - LASTS - made[each.ends]) > _CLOCKS_AGREE_TO:
            yield f"the change of {made[each.ends]} was to end at {due_at}"


def budgets_exceeded(story: Story) -> Iterator[str]:
    """Yield the number of changes that nobody has approved, if the key with a budget made more of them than that."""
    made = [record for record in story.records if record.request.startswith(BURST) and record.outcome != "failed"]
    count = sum(record.change_request is None for record in made)
    if count > BUDGET:
        yield f"{count} changes with a budget of {BUDGET}"


def _broken(story: Story, begin: float, end: float) -> float:
    """For how many seconds of this time something was broken, or had been until `RECOVERY` seconds before."""
    seconds, until = 0.0, begin
    for broken, mended in sorted(story.faults):
        last = min(mended + RECOVERY, end)
        if last > until and broken < end:
            seconds += last - max(broken, until)
            until = last
    return seconds


_CLOCKS_AGREE_TO = timedelta(seconds=1)
LATEST = 10.0
RECOVERY = 10.0
"""Seconds in which what was killed has to be back."""


def unexpected_answers(story: Story) -> Iterator[str]:
    """Yield answers that no client should ever get, such as 500."""
    for request in story.requests:
        for number, attempt in enumerate(request.attempts):
            if attempt.status in (400, 401, 403, 415, 422, 500, 502):
                yield f"{request.id}.{number} {request.operation}: {attempt.status} {attempt.code}"


CHECKS = {
    "acknowledged changes missing from the directory": missing_changes,
    "acknowledged changes without a log record": untold_changes,
    "accounts said to be as wanted that were not": untrue_unchanged,
    "directory changes without a log record": unrecorded_changes,
    "changes applied twice": changes_applied_twice,
    "refused changes that were made": refused_changes_made,
    "records of success without the change": untrue_records,
    "runs not completed": runs_not_completed,
    "approved changes not applied, or applied twice": approvals_not_applied,
    "scheduled changes made before their time": made_before_their_time,
    "scheduled changes forgotten": never_made,
    "scheduled changes late by more than ten seconds": made_late,
    "ends not counted from their own beginning": not_on_their_own_clocks,
    "budgets exceeded": budgets_exceeded,
    "answers no client should get": unexpected_answers,
}
"""The checks, by their targets in the report."""
