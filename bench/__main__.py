"""`make bench`: the table of ratios. Gateways and raw python-ldap take turns in every round; medians count."""

import argparse
from contextlib import ExitStack
from functools import partial

from bench.bystanders import print_fairness, print_flood
from bench.changes import compare_batches, compare_memberships, compare_resets, compare_runs
from bench.growth.measures import print_growth
from bench.history import PARTS, PICTURE, draw, keep
from bench.hosts import print_hosts
from bench.reads import compare_agent_reads, compare_bare_reads, compare_known_reads, compare_reads, running_bare
from bench.report import print_head, print_ratios, print_result, print_row, target_of
from bench.search import ATTRIBUTES, compare_searches, compare_streams
from bench.servers import DATABASES, Gateway, running_domain, running_gateway
from bench.turns import Figure, Measure, Result, measured
from bench.usage import memory_of
from lab.releases import Release, checked_out, commit_of

MEMORY_TARGET = 150
"""Megabytes of a web process at the end."""


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


def measures(bare_url: str, *, stream: int, quick: bool) -> list[Measure]:
    """All measures; reads of people run on both databases."""
    reads, fewer, small, large = (32, 32, 5, 20) if quick else (1600, 400, 100, 1000)
    share, times, added = Figure.SHARE, Figure.TIMES, Figure.ADDED
    read = partial(Measure, settle=1.2)  # until reads are recorded
    on_both = partial(read, is_on_both=True, requests=reads)
    bare = partial(compare_bare_reads, bare_url, 8, reads)
    page = f"{large} × {len(ATTRIBUTES)}"
    streams = [Measure(f"stream of {stream} (NDJSON)", times, 1.25, partial(compare_streams, stream))]
    return [
        on_both("read of people on 1 connection", added, 1.0, partial(compare_reads, 1, reads)),
        on_both("read of people on 8 connections", share, 0.5, partial(compare_reads, 8, reads)),
        read("read of people on 8 connections without a gateway", share, None, bare, reads),
        read("304 by `If-None-Match`", times, 0.8, partial(compare_known_reads, fewer), fewer, reference="full read"),
        read(
            *("`read_object` by an agent", times, 1.5, partial(compare_agent_reads, fewer), fewer),
            reference="the read on /api",
        ),
        Measure(f"search of {page} attributes", share, 0.8, partial(compare_searches, large, 1), rounds=9),
        Measure(f"8 searches of {page} at once", share, None, partial(compare_searches, large, 8), 8, rounds=3),
        Measure(f"run of {small} with its log", times, 1.2, partial(compare_runs, small)),
        Measure(f"batch of {large} updates with its log", times, 1.1, partial(compare_batches, large)),
        Measure("reset of a password", times, 1.12, partial(compare_resets, small), rounds=small),
        Measure(f"{large} members into a group", times, 1.25, partial(compare_memberships, large), rounds=9),
        *(streams if stream else ()),
    ]


def print_memory(gateways: list[Gateway]) -> None:
    """Print the memory of web processes, with their target, and of workers."""
    print_head("Memory of", "process", "resident", "proportional", "target")
    for gateway in gateways:
        for part, target in (("web", MEMORY_TARGET), ("worker", None)):
            for name, resident, proportional in memory_of(gateway.processes[part]):
                sizes = f"{resident:.0f} MB", f"{proportional:.0f} MB"
                print_row(f"{gateway.name}, {part}", name, *sizes, target_of(resident, target))


def main() -> None:
    arguments = _arguments()
    if arguments.only == "growth":
        print_growth("200:2000,400:4000" if arguments.quick else arguments.sizes, arguments.database)
        return

    def is_wanted(name: str) -> bool:
        return any(word in name for word in arguments.only.split(","))

    with ExitStack() as stack:
        domain = stack.enter_context(running_domain(people=200))
        now, before = commit_of("HEAD"), ""
        commits = dict.fromkeys(DATABASES, now)
        started = {
            database: stack.enter_context(running_gateway(domain, database, database=database))
            for database in DATABASES
        }
        one, both = [started[arguments.database]], list(started.values())
        if arguments.against:
            before = commit_of(arguments.against)
            commits = {before: before, **commits}
            release = Release(before, stack.enter_context(checked_out(before)))
            old = stack.enter_context(running_gateway(domain, before, database=arguments.database, release=release))
            one, both = [*one, old], [*both, old]
        bare_url = stack.enter_context(running_bare(domain, one[0]))
        print(f"Commit {now}. Times are milliseconds of one request, and so are the processor times, user and system.")
        print_head("Measure", "way", "time", "result", "target", *PARTS)
        results: list[Result] = []
        try:
            for measure in measures(bare_url, stream=arguments.stream, quick=arguments.quick):
                if is_wanted(measure.name):
                    for result in measured(measure, domain, both if measure.is_on_both else one):
                        print_result(result)
                        results.append(result)
        finally:  # an interrupted benchmark keeps what it has measured
            if results and not arguments.quick:
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
