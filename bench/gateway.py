"""A gateway over the domain: of this checkout or of an earlier commit's, with a database and a Redis of its own.

What runs it is asked of the checkout's own `lab.commands` and `bench.prepare`, in processes of their own: so one
harness measures commits whose modules have other names.
"""

import base64
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.domain import PASSWORD, Domain
from lab.commands import PROJECT
from lab.postgres import Postgres
from lab.processes import log_tail, start_process, stop_process
from lab.samba.controller import SERVICE_ACCOUNT_DN

DATABASES = ("sqlite", "postgresql")
PERSON = "bench"
"""Who may do everything; the password is the service account's."""
_START_SECONDS = 60
_COMMANDS = """\
import json
from pathlib import Path
try:
    from lab.commands import manage_command, redis_command, web_command, worker_command
except ImportError:  # of an earlier release
    from demo.services import manage_command, redis_command, web_command, worker_command
print(json.dumps({
    "migrate": manage_command("migrate", "-v0"),
    "redis": redis_command(Path(%(redis)r)),
    "web": web_command(host="127.0.0.1", port=%(port)d),
    "worker": worker_command(),
}))
"""
# PostgreSQL's own defaults, not those of the tests, which may lose what they wrote.
_DURABLE = (
    *("fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=128MB"),
    "max_connections=200",  # each thread of a web process has one
)


@dataclass(frozen=True)
class Gateway:
    """What the benchmarks talk to, named as in the table.

    `api_keys` may do everything: the first is measured with; only a checkout that has `bench.flood` makes a second.
    `processes` are the ids of its first processes, from which all others descend. `environment` is what they have, for
    management commands in `checkout`.
    """

    name: str
    database: str
    base_url: str
    api_keys: tuple[str, ...]
    processes: dict[str, int]
    environment: dict[str, str]
    checkout: Path

    @property
    def api_key(self) -> str:
        return self.api_keys[0]


@contextmanager
def running_gateway(
    domain: Domain, name: str = "gateway", *, database: str = "sqlite", checkout: Path = PROJECT
) -> Iterator[Gateway]:
    """Start Redis, the database, web and Celery workers in a temporary directory; nothing is left behind."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gateway-bench-")))
        place.chmod(0o711)  # PostgreSQL runs as another user, and its socket lies below
        processes, url = {}, f"sqlite:///{place}/gateway.sqlite3"
        if database == "postgresql":
            postgres = Postgres(place / "postgres", options=_DURABLE)
            postgres.start()
            stack.callback(postgres.stop)
            processes["database"] = postgres.process_id
            url = f"postgresql://gateway@/gateway?host={place}/postgres"
        port = free_port()
        environment = _environment(place, url)
        if has_agents(checkout):
            environment["Agents__Enabled"] = "true"
        script = _COMMANDS % {"redis": str(place / "redis.sock"), "port": port}
        commands = json.loads(_output([sys.executable, "-c", script], checkout, environment))

        def start(part: str) -> Path:
            log = place / f"{part}.log"
            process = start_process(commands[part], environment=environment, directory=checkout, output=log.open("wb"))
            stack.callback(stop_process, process)
            processes[part] = process.pid
            return log

        start("redis")
        _output(commands["migrate"], checkout, environment)
        known = (domain.controller.url, str(domain.controller.ca_file), SERVICE_ACCOUNT_DN, PASSWORD)
        keys = _output([sys.executable, "-m", "bench.prepare", *known], checkout, environment).split()
        web_log = start("web")
        start("worker")
        base_url = f"http://127.0.0.1:{port}"
        wait_for(f"{base_url}/health", web_log)
        yield Gateway(name, database, base_url, tuple(reversed(keys)), processes, environment, checkout)


@contextmanager
def running_bare(domain: Domain, gateway: Gateway) -> Iterator[str]:
    """The URL of `bench.bare`, served as the gateway is."""
    from lab.commands import web_command

    port = free_port()
    with tempfile.NamedTemporaryFile(prefix="gateway-bench-") as log:
        process = start_process(
            web_command(host="127.0.0.1", port=port, application="bench.bare:application"),
            environment={
                **gateway.environment,
                "BENCH_LDAP_URL": domain.controller.url,
                "BENCH_CA_FILE": str(domain.controller.ca_file),
                "BENCH_BIND_DN": SERVICE_ACCOUNT_DN,
                "BENCH_PASSWORD": PASSWORD,
            },
            directory=PROJECT,
            output=log,
        )
        try:
            wait_for_port(port, Path(log.name))
            yield f"http://127.0.0.1:{port}"
        finally:
            stop_process(process)


def has_agents(checkout: Path) -> bool:
    """Whether a gateway of this checkout lets agents in; an earlier one stops at a setting that it does not know."""
    return (checkout / "gateway" / "surfaces" / "agent").is_dir()


def _environment(place: Path, database_url: str) -> dict[str, str]:
    # Measured is the way of a call, the limits' headers and counters included, not how soon a limit is reached.
    never = '{"Requests": 100000000, "WindowSeconds": 60}'
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "gateway.settings",
        "DATABASE_URL": database_url,
        "REDIS_URL": f"unix://{place}/redis.sock",
        "GATEWAY_DATA_DIR": str(place),
        "GATEWAY_ENVIRONMENT": "Development",
        "GATEWAY_SECRET_KEY": secrets.token_urlsafe(40),
        "GATEWAY_LOG_KEYS": secrets.token_urlsafe(40),
        "GATEWAY_ENCRYPTION_KEYS": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "RateLimiting__Global": never,
        "RateLimiting__DirectorySearch": never,
        "RateLimiting__PasswordReset": never,
    }


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, log: Path) -> None:
    """Wait until a server answers; the benchmark ends with the end of its log if it does not."""
    _wait(lambda: urllib.request.urlopen(url, timeout=2).close(), log)  # noqa: S310 - our own server on loopback


def wait_for_port(port: int, log: Path) -> None:
    """Wait until something listens."""
    _wait(lambda: socket.create_connection(("127.0.0.1", port), timeout=2).close(), log)


def _wait(attempt: Callable[[], None], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            attempt()
        except OSError:
            if time.monotonic() > deadline:
                raise SystemExit(f"A server did not start. Its log ends with:\n{log_tail(log)}") from None
            time.sleep(0.2)
        else:
            return


def _output(command: list[str], checkout: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[:3])} failed in {checkout}:\n{done.stdout}{done.stderr}")
    return done.stdout
