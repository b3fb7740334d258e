"""`make bench`: the table of ratios. Gateways and raw python-ldap take turns in every round; medians count."""

import argparse
import statistics
from contextlib import ExitStack

from bench.bystanders import DRY_RUNNERS, MEMBERS, BystanderResult, measure_fairness, measure_flood
from bench.changes import measure_batch, measure_membership, measure_resets, measure_run
from bench.growth.measures import print_growth
from bench.history import PARTS, PICTURE, draw, keep
from bench.hosts import measure_hosts
from bench.reads import (
    measure_agent_reads,
    measure_bare_reads,
    measure_known_reads,
    measure_reads,
    people,
    running_bare,
    scratch,
)
from bench.report import counted, milliseconds, print_head, print_ratios, print_result, print_row
from bench.search import measure_search, measure_searches_at_once, measure_stream
from bench.servers import DATABASES, Domain, Gateway, running_domain, running_gateway
from bench.turns import Measure, Result, measured
from bench.usage import memory_of
from lab.releases import Release, checked_out, commit_of

MEMORY_TARGET = 150
"""Megabytes of a web process at the end."""

FLOOD_TARGET = 1.0
"""Seconds within which every read must be answered during a flood."""

PEOPLE = 200


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--against", metavar="COMMIT", help="measure this commit in turns with the present state")
    parser.add_argument("--database", choices=DATABASES, default=DATABASES[0], help="for all but reads, which use both")
    parser.add_argument("--only", default="", metavar="WORDS", help="measures whose names hold one of these, by commas")
    parser.add_argument("--stream", type=int, default=0, metavar="USERS", help="stream so many, 20000 for the target")
    parser.add_argument(
        "--sizes",
        default="5000:100000,20000:1000000,37000:5000000",
        metavar="PEOPLE:RECORDS,…",
        help="for growth, which is measured only if named alone: an hour, at these sizes of directory and log",
    )
    parser.add_argument("--quick", action="store_true", help="tiny numbers, to see that everything runs; keeps nothing")
    return parser.parse_args()


def measures(bare_url: str, *, stream: int, quick: bool) -> list[tuple[Measure, bool]]:
    """All measures, each with whether it runs on both databases."""
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


def print_memory(gateways: list[Gateway]) -> None:
    print_head("Memory of", "process", "resident", "proportional", "target")
    for gateway in gateways:
        for part in ("web", "worker"):
            found = memory_of(gateway.processes[part])
            largest = max(found, key=lambda process: process.resident)
            for process in found:
                target = f"≤ {MEMORY_TARGET} MB" if part == "web" and process is largest else "–"
                sizes = (f"{size:.0f} MB" for size in (process.resident, process.proportional))
                print_row(f"{gateway.name}, {part}", process.process, *sizes, target)


def print_flood(domain: Domain, gateway: Gateway, *, quick: bool) -> None:
    found = measure_flood(domain, gateway, reads=20 if quick else 4000, accounts=20 if quick else 3000)
    reached = "" if max(found.beside) < FLOOD_TARGET else " (not reached)"
    _print_bystander(found, "beside a flood of another key's searches", f"worst < {FLOOD_TARGET:g} s{reached}")


def print_fairness(domain: Domain, gateway: Gateway, *, quick: bool) -> None:
    memberships = 5 if quick else 140
    found = measure_fairness(domain, gateway, reads=20 if quick else 400, memberships=memberships)
    _print_bystander(found, f"behind {DRY_RUNNERS} dry runs of {memberships} × {MEMBERS} names of another key", "–")


def _print_bystander(found: BystanderResult, beside: str, target: str) -> None:
    print_head("One key's reads", "median", "99th percentile", "worst", "target")
    for name, times, goal in (("alone", found.alone, "–"), (beside, found.beside, target)):
        percentile_99 = statistics.quantiles(times, n=100, method="inclusive")[-1]
        print_row(name, *map(milliseconds, (statistics.median(times), percentile_99, max(times))), goal)
    print(f"\nThe other key's requests were answered with {counted(found.answers)}.")


def print_hosts(domain: Domain, gateway: Gateway, *, quick: bool) -> None:
    """Print the table of several hosts, which need PostgreSQL."""
    parts = ("web", "worker", "domain controller", "redis", "database", "clients")
    print_head("Web hosts", "way", "in a second", *parts)
    reads, changes = (64, 32) if quick else (1600, 240)
    grown: dict[str, dict[str, float]] = {}
    for found in measure_hosts(domain, gateway, reads=reads, changes=changes):
        print_row(found.hosts, found.way, f"{found.rate:.0f}", *(f"{found.processor[part]:.2f}" for part in parts))
        grown[found.way] = found.grown
    print_head("Table", "way", "octets of one request")
    for way, tables in grown.items():
        for table, size in sorted(tables.items(), key=lambda item: -item[1]):
            print_row(table, way, f"{size:.0f}")


def main() -> None:
    arguments = _arguments()
    if arguments.only == "growth":
        sizes = "200:2000,400:4000" if arguments.quick else arguments.sizes
        pairs = (each.partition(":") for each in sizes.split(","))
        print_growth([(int(people), int(records)) for people, _, records in pairs], arguments.database)
        return

    def is_wanted(name: str) -> bool:
        return not arguments.only or any(word in name for word in arguments.only.split(","))

    with ExitStack() as stack:
        domain = stack.enter_context(running_domain(people=PEOPLE))
        now, before = commit_of("HEAD"), ""
        started = {
            database: stack.enter_context(running_gateway(domain, database, database=database))
            for database in DATABASES
        }
        one, both = [started[arguments.database]], list(started.values())
        if arguments.against:
            before = commit_of(arguments.against)
            release = Release(before, stack.enter_context(checked_out(before)))
            old = stack.enter_context(running_gateway(domain, before, database=arguments.database, release=release))
            one, both = [*one, old], [*both, old]
        bare_url = stack.enter_context(running_bare(domain, one[0]))
        print(f"Commit {now}. Times are milliseconds of one request, and so are the processor times, user and system.")
        print_head("Measure", "way", "time", "result", "target", *(part.replace("redis", "Redis") for part in PARTS))
        results: list[Result] = []
        try:
            for measure, on_both in measures(bare_url, stream=arguments.stream, quick=arguments.quick):
                for result in measured(measure, domain, both if on_both else one) if is_wanted(measure.name) else ():
                    print_result(result)
                    results.append(result)
        finally:  # an interrupted benchmark keeps what it has measured
            if results and not arguments.quick:
                commits = ({before: before} if before else {}) | dict.fromkeys(DATABASES, now)
                PICTURE.write_text(draw(keep(results, commits)))
        if before:
            print_ratios(results, before)
        for name, print_more, gateway in (
            ("flood", print_flood, one[0]),
            ("fairness", print_fairness, one[0]),
            ("hosts", print_hosts, started["postgresql"]),
        ):
            if is_wanted(name):
                print_more(domain, gateway, quick=arguments.quick)
        print_memory(both)


if __name__ == "__main__":
    main()
