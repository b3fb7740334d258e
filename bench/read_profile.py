"""Profiles the processor time of a read: `python -m bench.read_profile [sqlite|postgresql]`.

The application answers reads of people one after another in one thread of this process, without a web server, with a
real domain, database and Redis. A timer of processor time (setitimer(2), ITIMER_PROF) samples the stack: time in C
counts for the Python function that called it. The time of other threads, which record the reads, is listed separately.
"""

import json
import math
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from types import FrameType

from django.test import RequestFactory

from bench.reads import path_of
from bench.servers import DATABASES, running_domain, running_gateway
from lab.commands import PROJECT

READS = 5000
_WARM_UP = 500
_INTERVAL = 0.001
_SHOWN = 25
# By the innermost frame in one of these: the time of libraries, queries and Redis commands counts for the code of ours
# that called them.
_QUERIES = re.compile(r"/django/db/|/core/redis/")
_STAGES = (
    ("record of the read", r"/audit/"),
    ("LDAP: client and python-ldap", r"/active_directory/"),
    ("who calls: key, role, link", r"/keys/"),
    ("rate limits", r"/middleware/rate_limit|rate_limits\.py|/limits\.py"),
    ("request id, access line, measurements", r"/middleware/request_id|/gateway/monitoring/"),
    ("other middleware", r"/gateway/middleware/"),
    ("directory: lookup, visibility, shapes", r"/directory/(?!ldap)"),
    ("pipeline", r"/gateway/pipeline/|/core/"),
    ("surface and rendering", r"/gateway/(surfaces|server)/"),
    ("REST framework", r"/rest_framework/"),
    ("Django", r"/django/"),
)


class Sampler:
    """Samples the main thread's stack by processor time."""

    def __init__(self) -> None:
        self.own: Counter[str] = Counter()
        self.stages: Counter[str] = Counter()

    def take(self, _signal: int, frame: FrameType | None) -> None:
        innermost = frame
        stage = ""
        while frame is not None and not stage:
            file = frame.f_code.co_filename
            if not _QUERIES.search(file):
                stage = next((name for name, pattern in _STAGES if re.search(pattern, file)), "")
            frame = frame.f_back
        self.stages[stage or "other"] += 1
        if innermost is not None:
            file = "/".join(innermost.f_code.co_filename.split("/")[-3:])
            self.own[f"{innermost.f_code.co_qualname} ({file})"] += 1


def profile(api_key: str, paths: list[str]) -> None:
    """Profile reads, in a process with the gateway's environment."""
    from core.deadlines import Deadline
    from gateway.application import application
    from gateway.server.asgi import answer_request
    from gateway.server.straight import StraightWay

    make_request = partial(RequestFactory().get, SERVER_NAME="127.0.0.1", headers={"X-API-Key": api_key})
    environs = [make_request(path).environ for path in paths]

    straight_way = StraightWay()

    def read(number: int) -> None:
        environ, deadline = dict(environs[number % len(environs)]), Deadline(math.inf)
        status = answer_request(application, environ, deadline, straight_way=straight_way).status
        if status != 200:
            raise SystemExit(f"a read was answered with {status}")

    for number in range(_WARM_UP):
        read(number)
    sampler = Sampler()
    signal.signal(signal.SIGPROF, sampler.take)
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL, _INTERVAL)
    mine, all_threads, clock = time.thread_time(), time.process_time(), time.perf_counter()
    for number in range(READS):
        read(number)
    mine, all_threads = time.thread_time() - mine, time.process_time() - all_threads
    clock = time.perf_counter() - clock
    signal.setitimer(signal.ITIMER_PROF, 0)
    told = (
        f"{mine / READS * 1000:.2f} ms of processor in the request's thread, {(all_threads - mine) / READS * 1000:.2f}"
        f" in others, {clock / READS * 1000:.2f} by the clock; {sum(sampler.own.values())} samples"
    )
    lines = [told]
    for title, counted in (("stage", sampler.stages), ("function, by its own time", sampler.own)):
        lines += ["", f"| {title} | share | ms |", "|---|---|---|"]
        for name, count in counted.most_common(_SHOWN):
            share = count / sum(counted.values())
            lines.append(f"| {name} | {share:.1%} | {share * mine / READS * 1000:.3f} |")
    print("\n".join(lines), file=sys.stderr)


def main() -> None:
    if len(sys.argv) > 2:
        profile(sys.argv[1], json.loads(sys.argv[2]))
        return
    database = sys.argv[1] if len(sys.argv) > 1 else DATABASES[0]
    with running_domain(people=200) as domain, running_gateway(domain, database=database) as gateway:
        paths = [path_of(item) for item in domain.find_people(50)]
        command = [sys.executable, "-m", "bench.read_profile", gateway.api_key, json.dumps(paths)]
        # Access lines are written, but discarded.
        subprocess.run(command, env=gateway.live.environment, cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
