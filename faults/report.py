"""The report of a campaign, in Markdown."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from faults.campaign import Result
from faults.checks import made_when_due
from faults.diary import Outcome
from faults.lending import BURST

SHOWN = 12


def report(result: Result) -> Iterator[str]:
    """The lines: targets with their findings, faults by kind, and requests by answer."""
    plan = result.plan
    verdict = "Every target is met." if result.is_good else "**Some targets are missed.**"
    yield (
        f"{datetime.now(UTC):%Y-%m-%d}: {len(result.struck)} faults on {plan.database}, seed {plan.seed}, "
        f"{plan.clients} clients, one fault in {plan.pace:g} s on average, {result.seconds / 60:.0f} min in all."
        f" {verdict}"
    )
    yield from _targets(result)
    yield from _faults(result)
    yield from _answers(result)
    yield from _ends(result)


def _targets(result: Result) -> Iterator[str]:
    yield "\n| Target: none of these | Found |\n|---|---:|"
    for name, findings in result.findings.items():
        yield f"| {name} | {len(findings)} |"
    yield f"\nThe records that were open at the last fault were settled {result.settled_after:.0f} s after it."
    for name, findings in result.findings.items():
        if findings:
            yield f"\n{name[0].upper()}{name[1:]}:\n"
            yield from (f"- {finding}" for finding in findings[:SHOWN])
            if len(findings) > SHOWN:
                yield f"- and {len(findings) - SHOWN} more"


def _faults(result: Result) -> Iterator[str]:
    by_kind = defaultdict(list)
    for struck in result.struck:
        by_kind[struck.name].append(struck.seconds)
    yield "\n| Fault | Times | Over after, s (median, longest) |\n|---|---:|---:|"
    for name, seconds in sorted(by_kind.items()):
        yield f"| {name} | {len(seconds)} | {sorted(seconds)[len(seconds) // 2]:.1f}, {max(seconds):.1f} |"


def _answers(result: Result) -> Iterator[str]:
    answers = Counter[tuple[str, str]]()
    for request in result.story.requests:
        for attempt in request.attempts:
            answers[str(attempt.status or "connection lost"), attempt.code or ""] += 1
    yield f"\n| Answer ({sum(answers.values())} requests sent) | Code | Times |\n|---|---|---:|"
    for (status, code), count in sorted(answers.items()):
        yield f"| {status} | {code} | {count} |"


def _ends(result: Result) -> Iterator[str]:
    by_operation: dict[str, Counter[Outcome]] = defaultdict(Counter)
    for request in result.story.requests:
        by_operation[request.operation].update(effect.outcome for effect in request.effects)
    yield "\n| Change | " + " | ".join(Outcome) + " |\n|---|" + "---:|" * len(Outcome)
    for operation, outcomes in sorted(by_operation.items()):
        yield f"| {operation} | " + " | ".join(str(outcomes[outcome]) for outcome in Outcome) + " |"
    yield (
        f"\n`{Outcome.OPEN}`: the client was never told for certain what became of the change (a refusal after a lost "
        f"connection tells nothing); the checker then accepts either, provided that the log says which. "
        f"Requests that were still without an answer at the end: "
        f"{sum(not request.is_over for request in result.story.requests)}."
    )
    yield from _scheduled(result)
    records = _counted(record.outcome for record in result.story.records)
    change_requests = _counted(each.status for each in result.story.change_requests)
    yield f"\nRecords by outcome: {records}. Change requests: {change_requests}."
    servers = [f"by {record.server}" for record in result.story.made if record.server]
    if len(set(servers)) > 1:
        yield f"\nChanges by the domain controller that took them: {_counted(servers)}."


def _scheduled(result: Result) -> Iterator[str]:
    story = result.story
    late: dict[str, list[float]] = {"ends": [], "beginnings": []}
    for each, due, came in made_when_due(story):
        late["ends" if each.ends else "beginnings"].append(came - due)
    if not late["ends"]:
        return
    yield "\n| Scheduled | Times | Late by, s (median, 99 in 100, longest) |\n|---|---:|---:|"
    for name, seconds in late.items():
        ordered = sorted(seconds)
        shown = [f"{ordered[int(part * (len(ordered) - 1))]:.1f}" for part in (0.5, 0.99, 1) if ordered]
        yield f"| {name} | {len(seconds)} | {', '.join(shown)} |"
    made = [each for each in story.records if each.request.startswith(BURST) and each.is_made]
    at_once = [each.at for each in made if each.change_request in story.decisions]
    if at_once:
        yield (
            f"\nOf the changes with a budget, {sum(each.change_request is None for each in made)} were made and"
            f" {len(at_once)} held; these were approved at once and made within {max(at_once) - min(at_once)}."
        )


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names)
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"
