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
from contextlib import redirect_stdout
from types import FrameType

from django.test import RequestFactory

from bench.reads import paths_of
from bench.report import print_head, print_row
from bench.servers import DATABASES, running_domain, running_gateway
from lab.commands import PROJECT

READS = 5000
_WARM_UP = 500
_INTERVAL = 0.001
_SHOWN = 25
# By the innermost frame in one of these: the time of libraries, queries and Redis commands counts for the code of ours
# that called them.
_QUERIES = re.compile(r"/django/db/|/core/redis/")
_STAGES = {
    "record of the read": r"/audit/",
    "LDAP: client and python-ldap": r"/active_directory/",
    "who calls: key, role, link": r"/keys/",
    "rate limits": r"/middleware/rate_limit|rate_limits\.py|/limits\.py",
    "request id, access line, measurements": r"/middleware/request_id|/gateway/monitoring/",
    "other middleware": r"/gateway/middleware/",
    "directory: lookup, visibility, shapes": r"/directory/(?!ldap)",
    "pipeline": r"/gateway/pipeline/|/core/",
    "surface and rendering": r"/gateway/(surfaces|server)/",
    "REST framework": r"/rest_framework/",
    "Django": r"/django/",
}


def _stage_of(frame: FrameType | None) -> str:
    while frame is not None:
        file = frame.f_code.co_filename
        for name, pattern in () if _QUERIES.search(file) else _STAGES.items():
            if re.search(pattern, file):
                return name
        frame = frame.f_back
    return "other"


def profile(api_key: str, paths: list[str]) -> None:
    """Profile reads, in a process with the gateway's environment."""
    from core.deadlines import Deadline
    from gateway.application import application
    from gateway.server.asgi import answer_request
    from gateway.server.straight import StraightWay

    requests = RequestFactory(SERVER_NAME="127.0.0.1", headers={"X-API-Key": api_key})
    environs = [requests.get(path).environ for path in paths]
    straight_way = StraightWay()

    def read(times: int) -> None:
        for number in range(times):
            environ, deadline = dict(environs[number % len(environs)]), Deadline(math.inf)
            status = answer_request(application, environ, deadline, straight_way=straight_way).status
            if status != 200:
                raise SystemExit(f"a read was answered with {status}")

    stages, functions = Counter[str](), Counter[str]()

    def sample(_signal: int, frame: FrameType | None) -> None:
        stages[_stage_of(frame)] += 1
        if frame is not None:
            file = "/".join(frame.f_code.co_filename.split("/")[-3:])
            functions[f"{frame.f_code.co_qualname} ({file})"] += 1

    read(_WARM_UP)
    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL, _INTERVAL)
    clocks = (time.thread_time, time.process_time, time.perf_counter)
    before = [clock() for clock in clocks]
    read(READS)
    mine, all_threads, passed = ((clock() - began) * 1000 / READS for clock, began in zip(clocks, before, strict=True))
    signal.setitimer(signal.ITIMER_PROF, 0)
    with redirect_stdout(sys.stderr):  # the other one has the access lines
        print(
            f"{mine:.2f} ms of processor in the request's thread, {all_threads - mine:.2f} in others, {passed:.2f} by"
            f" the clock; {stages.total()} samples"
        )
        for title, counted in (("stage", stages), ("function, by its own time", functions)):
            print_head(title, "share", "ms")
            for name, count in counted.most_common(_SHOWN):
                share = count / counted.total()
                print_row(name, f"{share:.1%}", f"{share * mine:.3f}")


def main() -> None:
    if len(sys.argv) > 2:
        profile(sys.argv[1], json.loads(sys.argv[2]))
        return
    database = sys.argv[1] if len(sys.argv) > 1 else DATABASES[0]
    with running_domain(people=200) as domain, running_gateway(domain, database=database) as gateway:
        paths = paths_of(domain.find_people(50))
        command = [sys.executable, "-m", "bench.read_profile", gateway.api_key, json.dumps(paths)]
        # Access lines are written, but discarded.
        subprocess.run(command, env=gateway.live.environment, cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
