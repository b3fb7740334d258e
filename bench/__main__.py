"""`make bench`: the table of ratios. Gateways and raw python-ldap take turns in every round; medians count."""

import argparse
import statistics
from collections.abc import Iterator
from contextlib import ExitStack

from bench.against import checked_out, commit_of, print_ratios
from bench.agent import measure_agent_reads
from bench.batch import measure_batch
from bench.domain import Domain, running_domain
from bench.fairness import CONNECTIONS, MEMBERS, measure_fairness
from bench.flood import TARGET, measure_flood
from bench.gateway import DATABASES, Gateway, running_bare, running_gateway
from bench.history import PARTS, PICTURE, draw, keep
from bench.hosts import measure_hosts
from bench.membership import measure_membership
from bench.passwords import measure_resets
from bench.reads import measure_bare_reads, measure_known_reads, measure_reads, people, scratch
from bench.run import measure_run
from bench.search import measure_search, measure_searches_at_once, measure_stream
from bench.turns import RAW, Figure, Measure, Result, measured
from bench.usage import memory_of

MEMORY_TARGET = 150
"""Megabytes of one web worker after everything."""
PEOPLE = 200


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--against", metavar="COMMIT", help="measure this commit in turns with the present state")
    parser.add_argument("--database", choices=DATABASES, default=DATABASES[0], help="for all but reads, which use both")
    parser.add_argument("--only", default="", metavar="WORDS", help="measures whose names hold one of these, by commas")
    parser.add_argument("--stream", type=int, default=0, metavar="USERS", help="stream so many, 20000 for the target")
    parser.add_argument("--quick", action="store_true", help="tiny numbers, to see that everything runs; keeps nothing")
    return parser.parse_args()


def measures(bare_url: str, *, stream: int, quick: bool) -> list[tuple[Measure, bool]]:
    """All measures, and whether each is made on both databases."""
    reads, fewer, small, large = (32, 32, 5, 20) if quick else (1600, 400, 100, 1000)
    given = [
        *((measure_reads(people, connections, reads), True) for connections in (1, 8)),
        *((measure_reads(scratch, connections, reads), False) for connections in (1, 8)),
        (measure_bare_reads(bare_url, 8, reads), False),
        (measure_known_reads(fewer), False),
        (measure_agent_reads(fewer), False),
        (measure_search(large), False),
        (measure_searches_at_once(large), False),
        (measure_run(small), False),
        (measure_batch(large), False),
        (measure_resets(small), False),
        (measure_membership(large), False),
    ]
    return [*given, (measure_stream(stream), False)] if stream else given


def print_result(result: Result) -> None:
    measure = result.measure
    name = measure.name if result.gateway != "ldapsearch" else f"{measure.name} by `ldapsearch`"
    target = "–"
    if measure.target is not None and result.is_gateway:
        sign = "≥" if measure.figure is Figure.SHARE else "≤"
        target = f"{sign} {measure.target:g}{'' if result.is_reached else ' (not reached)'}"
    told = f"{result.value:.2f} {measure.figure.value.replace('raw', measure.reference)}"
    used = " | ".join(f"{result.processor[part]:.2f}" if part in result.processor else "–" for part in PARTS)
    is_raw = result.gateway == RAW
    cells = [name, measure.reference if is_raw else result.gateway, f"{result.through * 1000:.2f}"]
    print(f"| {' | '.join(cells)} | {'–' if is_raw else told} | {target} | {used} |", flush=True)


def print_memory(gateways: list[Gateway]) -> None:
    print("\n| Memory of | process | resident | proportional | target |\n|---|---|---|---|---|")
    for gateway in gateways:
        for part, root in gateway.processes.items():
            found = memory_of(root)
            largest = max(found, key=lambda process: process.resident)
            for process in found if part in ("web", "worker") else ():
                target = f"≤ {MEMORY_TARGET} MB" if part == "web" and process is largest else "–"
                figures = f"{process.resident:.0f} MB | {process.proportional:.0f} MB"
                print(f"| {gateway.name}, {part} | {process.process} | {figures} | {target} |")


def print_flood(domain: Domain, gateway: Gateway, *, quick: bool) -> None:
    flooded = measure_flood(domain, gateway, reads=20 if quick else 4000, accounts=20 if quick else 3000)
    print("\n| Reads | median | worst | target |\n|---|---|---|---|")
    for name, times in (("alone", flooded.alone), ("beside a flood of another key's searches", flooded.beside)):
        worst = max(times)
        verdict = f"worst < {TARGET:g} s{'' if worst < TARGET else ' (not reached)'}"
        print(f"| {name} | {statistics.median(times) * 1000:.1f} ms | {worst * 1000:.0f} ms | {verdict} |")
    told = ", ".join(f"{count} × {status}" for status, count in sorted(flooded.answers.items()))
    print(f"\nThe flood was answered with {told}.")


def print_fairness(domain: Domain, gateway: Gateway, *, quick: bool) -> None:
    memberships = 5 if quick else 140
    found = measure_fairness(domain, gateway, reads=20 if quick else 400, memberships=memberships)
    print("\n| One key's read | median | 99th percentile |\n|---|---|---|")
    dry_runs = f"{CONNECTIONS} dry runs of {memberships} × {MEMBERS} names"
    for name, waited in (("alone", found.alone), (f"behind {dry_runs} of another key", found.behind)):
        cells = (
            f"{seconds * 1000:.1f} ms" + ("" if waited is found.alone else f" ({seconds / alone:.1f} ×)")
            for seconds, alone in ((waited.median, found.alone.median), (waited.late, found.alone.late))
        )
        print(f"| {name} | {' | '.join(cells)} |")
    told = ", ".join(f"{count} × {status}" for status, count in sorted(found.answers.items()))
    print(f"\nThe dry runs were answered with {told}.")


def print_hosts(domain: Domain, gateway: Gateway, *, quick: bool) -> None:
    """Needs PostgreSQL: on SQLite there is one host."""
    parts = ("web", "worker", "domain controller", "redis", "database", "clients")
    print(f"\n| Web hosts | way | in a second | {' | '.join(parts)} |\n{'|---' * (len(parts) + 3)}|", flush=True)
    reads, changes = (64, 32) if quick else (1600, 240)
    grown: dict[str, dict[str, float]] = {}
    for found in measure_hosts(domain, gateway, reads=reads, changes=changes):
        used = " | ".join(f"{found.processor[part]:.2f}" for part in parts)
        print(f"| {found.hosts} | {found.way} | {found.rate:.0f} | {used} |", flush=True)
        grown[found.way] = found.grown
    print("\n| Table | way | octets of one request |\n|---|---|---|")
    for way, tables in grown.items():
        for table, size in sorted(tables.items(), key=lambda item: -item[1]):
            print(f"| {table} | {way} | {size:.0f} |")


def _results(
    domain: Domain, both: list[Gateway], one: list[Gateway], arguments: argparse.Namespace, bare_url: str
) -> Iterator[Result]:
    for measure, on_both in measures(bare_url, stream=arguments.stream, quick=arguments.quick):
        if _is_wanted(measure.name, arguments.only):
            yield from measured(measure, domain, both if on_both else one)


def _is_wanted(name: str, only: str) -> bool:
    return not only or any(word in name for word in only.split(","))


def main() -> None:
    arguments = _arguments()
    others = [database for database in DATABASES if database != arguments.database]
    with ExitStack() as stack:
        domain = stack.enter_context(running_domain(people=PEOPLE))
        now, before = commit_of("HEAD"), ""
        one = [stack.enter_context(running_gateway(domain, arguments.database, database=arguments.database))]
        both = [*one, *(stack.enter_context(running_gateway(domain, name, database=name)) for name in others)]
        if arguments.against:
            before = commit_of(arguments.against)
            tree = stack.enter_context(checked_out(before))
            old = running_gateway(domain, before, database=arguments.database, checkout=tree)
            old_gateway = stack.enter_context(old)
            one, both = [*one, old_gateway], [*both, old_gateway]
        bare_url = stack.enter_context(running_bare(domain, one[0]))
        print(
            f"Commit {now}. Times are milliseconds of one request, and so are the processor times, user and system.\n\n"
            "| Measure | way | time | result | target | web | worker | domain controller | Redis | database |\n"
            "|---|---|---|---|---|---|---|---|---|---|",
            flush=True,
        )
        results: list[Result] = []
        try:
            for result in _results(domain, both, one, arguments, bare_url):
                print_result(result)
                results.append(result)
        finally:  # an interrupted benchmark keeps what it has measured
            if results and not arguments.quick:
                commits = ({before: before} if before else {}) | dict.fromkeys(DATABASES, now)
                PICTURE.write_text(draw(keep(results, commits)))
        if before:
            print_ratios(results, before)
        if _is_wanted("flood", arguments.only):
            print_flood(domain, one[0], quick=arguments.quick)
        if _is_wanted("fairness", arguments.only):
            print_fairness(domain, one[0], quick=arguments.quick)
        if _is_wanted("hosts", arguments.only):
            print_hosts(domain, next(each for each in both if each.database == "postgresql"), quick=arguments.quick)
        print_memory(both)


if __name__ == "__main__":
    main()
