"""The servers a benchmark needs, on loopback addresses of their own: a domain, Redis, web and Celery workers."""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import ldap

from demo.domain_controller import BASE_DN, SERVICE_ACCOUNT, SERVICE_ACCOUNT_DN, SYSTEM_PYTHON, DomainController
from demo.processes import log_tail, start_process, stop_process
from demo.services import PROJECT, manage_command, redis_command, web_command, worker_command

PASSWORD = "Bench-Service-1"
PERSON = "bench"
"""Who may do everything; the password is the same."""


@dataclass(frozen=True)
class Stack:
    """What the benchmarks talk to. `processes` are named process ids, for their memory; `bare_url` is `bench.bare`.

    `environment` is what the gateway's processes have, for its management commands.
    """

    base_url: str
    bare_url: str
    api_key: str
    ldap_url: str
    ca_file: str
    base_dn: str
    processes: dict[str, int]
    environment: dict[str, str]

    def connect(self) -> ldap.ldapobject.SimpleLDAPObject:
        """A raw connection, bound as the gateway binds."""
        connection = ldap.initialize(self.ldap_url)
        connection.set_option(ldap.OPT_X_TLS_CACERTFILE, self.ca_file)
        connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
        connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
        connection.set_option(ldap.OPT_REFERRALS, 0)
        connection.simple_bind_s(SERVICE_ACCOUNT_DN, PASSWORD)
        return connection


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(url: str, log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).close()  # noqa: S310 - our own server on loopback
        except OSError:
            if time.monotonic() > deadline:
                raise SystemExit(f"The gateway did not start. Its log ends with:\n{log_tail(log)}") from None
            time.sleep(0.2)
        else:
            return


def _fill(controller: DomainController) -> None:
    script = PROJECT / "demo" / "fill_domain.py"
    command = [SYSTEM_PYTHON, str(script), str(controller.directory)]
    subprocess.run(command, check=True, cwd=PROJECT, stdout=subprocess.DEVNULL)


@contextmanager
def running_stack(address: str = "127.0.41.1", *, with_company: bool = False, durable: bool = True) -> Iterator[Stack]:
    """Provision and start everything in a temporary directory; nothing is left behind.

    `with_company` puts the demonstration's company into the domain. Where no write to the directory is measured it
    need not be `durable`, and is filled sooner.
    """
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gateway-bench-")))
        controller = DomainController(place / "domain", address, durable=durable)
        controller.provision(when_provisioned=(lambda: _fill(controller)) if with_company else lambda: None)
        controller.set_passwords({SERVICE_ACCOUNT: PASSWORD})
        controller.start()
        stack.callback(controller.stop)
        port = _free_port()
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "gateway.settings",
            "DATABASE_URL": os.environ.get("BENCH_DATABASE_URL", f"sqlite:///{place}/gateway.sqlite3"),
            "REDIS_URL": f"unix://{place}/redis.sock",
            "GATEWAY_DATA_DIR": str(place),
            "GATEWAY_ENVIRONMENT": "Development",
            "GATEWAY_LOG_LEVEL": "WARNING",
            # Measured is the way of a call, the limits' headers and counters included, not how soon a limit is reached.
            "RateLimiting__Global": '{"Requests": 100000000, "WindowSeconds": 60}',
            "RateLimiting__DirectorySearch": '{"Requests": 100000000, "WindowSeconds": 60}',
            "RateLimiting__PasswordReset": '{"Requests": 100000000, "WindowSeconds": 60}',
        }
        redis = start_process(redis_command(place / "redis.sock"))
        stack.callback(stop_process, redis)
        subprocess.run(manage_command("migrate", "-v0"), env=environment, check=True, cwd=PROJECT)
        made = subprocess.run(
            [
                sys.executable,
                "-m",
                "bench.prepare",
                controller.url,
                str(controller.ca_file),
                SERVICE_ACCOUNT_DN,
                PASSWORD,
            ],
            env=environment,
            check=True,
            cwd=PROJECT,
            capture_output=True,
            text=True,
        )
        web_log, worker_log = place / "web.log", place / "worker.log"
        web = start_process(
            web_command(host="127.0.0.1", port=port),
            environment=environment,
            directory=PROJECT,
            output=web_log.open("wb"),
        )
        stack.callback(stop_process, web)
        worker = start_process(
            worker_command(), environment=environment, directory=PROJECT, output=worker_log.open("wb")
        )
        stack.callback(stop_process, worker)
        bare_port = _free_port()
        bare_command = web_command(host="127.0.0.1", port=bare_port, application="bench.bare:application")
        bare = start_process(
            bare_command,
            environment={
                **environment,
                "BENCH_LDAP_URL": controller.url,
                "BENCH_CA_FILE": str(controller.ca_file),
                "BENCH_BIND_DN": SERVICE_ACCOUNT_DN,
                "BENCH_PASSWORD": PASSWORD,
            },
            directory=PROJECT,
            output=(place / "bare.log").open("wb"),
        )
        stack.callback(stop_process, bare)
        base_url = f"http://127.0.0.1:{port}"
        _wait_for(f"{base_url}/health", web_log)
        yield Stack(
            base_url=base_url,
            bare_url=f"http://127.0.0.1:{bare_port}",
            api_key=made.stdout.strip().splitlines()[-1],
            ldap_url=controller.url,
            ca_file=str(controller.ca_file),
            base_dn=BASE_DN,
            processes={"web": web.pid, "worker": worker.pid, "redis": redis.pid},
            environment=environment,
        )


class Memory(NamedTuple):
    """What a process takes, in megabytes.

    `proportional` counts what it shares with others, such as libraries, by its part only: the sum over all processes
    is what the machine has to have. `resident` counts it in full for each.
    """

    process: str
    resident: float
    proportional: float


def memory_of(group: int) -> list[Memory]:
    """The memory of each process in a process group."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state = (place / "stat").read_text().rpartition(")")[2].split()
            if state[2] != str(group):
                continue
            name = (place / "comm").read_text().strip()
            fields = dict(line.split(":", 1) for line in (place / "smaps_rollup").read_text().splitlines()[1:])
        except OSError:
            continue
        resident, proportional = (int(fields[field].split()[0]) / 1024 for field in ("Rss", "Pss"))
        found.append(Memory(name, resident, proportional))
    return sorted(found)
