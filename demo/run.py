"""`make run`: the gateway with a real domain and its organisation, all on this machine's loopback."""

import fcntl
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

from core.secrets.private_files import make_private_by_default
from demo.supervisor import ShownService, Stopped, Supervisor, say
from lab.commands import PROJECT, manage_command, web_command, worker_command
from lab.company import FILL_DOMAIN
from lab.domain import reserved_address
from lab.gateway import Commands
from lab.http import Http, is_healthy
from lab.redis import RedisServer
from lab.releases import THIS_TREE
from lab.samba.controller import (
    BASE_DN,
    SERVICE_ACCOUNT,
    SERVICE_ACCOUNT_DN,
    SYSTEM_PYTHON,
    DomainController,
    random_password,
)
from lab.services import is_port_free

HOST = "127.0.0.1"
LENT_MINUTES = 5
"""How long a membership lasts that ends by itself, for everybody to watch."""
DIRECTORY = PROJECT / "var" / "demo"
CREDENTIALS = DIRECTORY / "credentials.json"
DOMAIN = DIRECTORY / "domain"
# A socket's path may have 108 bytes (sun_path in unix(7)).
MAX_SOCKET_PATH = 100


def environment_with(redis_socket: Path) -> dict[str, str]:
    """The environment of the demonstration's processes. The caller's own variables win.

    Only here is Development the default.
    """
    return {
        "GATEWAY_ENVIRONMENT": "Development",
        "GATEWAY_DATA_DIR": str(DIRECTORY),
        "DATABASE_URL": f"sqlite:///{DIRECTORY / 'gateway.sqlite3'}",
        "REDIS_URL": f"unix://{redis_socket}",
        "PYTHONUNBUFFERED": "1",
        "Agents__Enabled": "true",
        **os.environ,
    }


class CannotRun(RuntimeError):
    """Something on this machine prevents the demonstration; the message says what, and what to do."""


class Demonstration(Commands):
    """One run: the domain controller, Redis unless one is given, the gateway's database, worker and web server."""

    release = THIS_TREE

    def __init__(self, supervisor: Supervisor, scratch: Path) -> None:
        self._supervisor = supervisor
        self._port = _port(os.environ.get("PORT", "8000"))
        self._base_url = f"http://{HOST}:{self._port}"
        self._credentials = read_credentials()
        self._controller = DomainController(DOMAIN, self._choose_address())
        socket = DIRECTORY / "redis.sock"
        self._redis_socket = socket if len(os.fsencode(socket)) < MAX_SOCKET_PATH else scratch / "redis.sock"
        self.environment = {"Approvals__BaseUrl": self._base_url, **environment_with(self._redis_socket)}

    def keep_running(self) -> None:
        """Start everything in order, print the addresses, and keep it running until `Stopped` is raised."""
        started = time.monotonic()
        if not is_port_free(HOST, self._port):
            raise CannotRun(f"Port {self._port} of {HOST} is in use. Choose another one: PORT=8001 make run")
        self._prepare_domain()
        say(f"Starting the domain controller at {self._controller.url} …")
        self._supervisor.start(self._controller)
        if "REDIS_URL" not in os.environ:
            self._supervisor.start(RedisServer(self._redis_socket))
        say("Preparing the gateway's database …")
        self.manage("migrate", "-v0")
        self._seed()  # first, since a gateway without an administrator asks for its set-up
        say("Starting the worker and the web server …")
        self._start("worker", worker_command(), lambda: True)
        self._start("web", web_command(host=HOST, port=self._port), lambda: is_healthy(self._base_url))
        self._introduce(time.monotonic() - started)
        self._supervisor.watch()

    def _choose_address(self) -> str:
        """The address of earlier runs, or the first free one if it is in use by now."""
        earlier = self._credentials["directory"]["url"].removeprefix("ldaps://") if self._credentials else ""
        self._reservation = ExitStack()  # as long as this demonstration
        address = self._reservation.enter_context(reserved_address("127.0.9", earlier))
        if earlier not in ("", address):
            say(f"{earlier} is in use; the domain controller moves to {address}.")
        return address

    def _prepare_domain(self) -> None:
        if not self._controller.is_provisioned:
            say("Provisioning the domain corp.example.test (once, about a minute) …")
            self._credentials = {}
            self._controller.provision(when_provisioned=self._fill_domain)
        if not self._credentials:
            # Only the credentials file has the passwords: without it the account gets a new one.
            password = random_password()
            self._controller.set_passwords({SERVICE_ACCOUNT: password})
            self._credentials = {
                "directory": {
                    "url": self._controller.url,
                    "bindDn": SERVICE_ACCOUNT_DN,
                    "bindPassword": password,
                    "baseDn": BASE_DN,
                    "caFile": str(self._controller.ca_file),
                }
            }
        # The address may have changed: `seed_demo` updates the gateway's connection, and others read the file.
        self._credentials["directory"]["url"] = self._controller.url

    def _fill_domain(self) -> None:
        say("Filling it with an organisation (once) …")
        self.run([SYSTEM_PYTHON, str(FILL_DOMAIN), str(DOMAIN)])

    def _start(self, name: str, command: Sequence[str], is_ready: Callable[[], bool]) -> None:
        nowhere = Path(os.devnull)
        service = ShownService(name, command, is_ready=is_ready, log_file=nowhere, environment=self.environment)
        self._supervisor.start(service)

    def _seed(self) -> None:
        """Have the gateway create, or find, the accounts and the key; store their credentials."""
        accounts = json.loads(self.run(manage_command("seed_demo"), stdin=json.dumps(self._credentials)))
        self._credentials = {
            "baseUrl": self._base_url,
            "console": f"{self._base_url}/console/",
            **accounts,
            "directory": self._credentials["directory"],
        }
        partial = CREDENTIALS.with_suffix(".partial")  # kept from others by `make_private_by_default`
        partial.write_text(json.dumps(self._credentials, indent=2) + "\n")
        partial.replace(CREDENTIALS)

    def _lend_membership(self) -> str:
        """Let somebody be a member of a group for some minutes; a line about it, empty if that fails."""
        http = Http(self._base_url)
        try:
            http.sign_in(self._credentials["administrator"])
            user, group = (
                http.call("GET", f"/rest/ad/{search}")["items"][0]
                for search in ("users?q=lovelace", "groups?q=Department")
            )
            headers = {"X-Revert-After": f"PT{LENT_MINUTES}M", "X-Change-Reason": "A membership that ends by itself"}
            if not http.call("POST", f"/rest/ad/groups/{group['id']}/members", {"add": [user["id"]]}, headers)["added"]:
                return ""
        except (OSError, HTTPException, LookupError, RuntimeError):
            return ""
        return (
            f"{user['name']} is a member of {group['name']} for {LENT_MINUTES} minutes: see Scheduled in the console."
        )

    def _introduce(self, seconds: float) -> None:
        known = self._credentials
        administrator, approver, key = known["administrator"], known["approver"], known["apiKey"]
        header = f"-H 'X-API-Key: {key['value']}'"
        say(
            f"""
The gateway runs ({seconds:.0f} s). Everything below is in {CREDENTIALS.relative_to(PROJECT)}, too.

  Console        {known["console"]}
  Administrator  {administrator["username"]} / {administrator["password"]}
  Approver       {approver["username"]} / {approver["password"]}
  API key        {key["name"]}, Client ID {key["clientId"]}
  Directory      {known["directory"]["url"]} (certificate: {known["directory"]["caFile"]})

Try it:

  curl {header} {self._base_url}/api/me
  curl {header} '{self._base_url}/api/ad/users?q=lovelace'
  curl {header} '{self._base_url}/api/ad/organization-units?q=Temporary'

{self._lend_membership()}

Ctrl-C stops everything; the next `make run` continues with the same data.
"""
        )


def _port(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 65535:
        raise CannotRun(f"PORT must be a number from 1 to 65535, not {value!r}")
    return int(value)


def read_credentials() -> dict[str, Any]:
    """The credentials of earlier runs, empty if there was none."""
    credentials: dict[str, Any] = json.loads(CREDENTIALS.read_text()) if CREDENTIALS.exists() else {}
    return credentials


@contextmanager
def _exclusive_run() -> Iterator[None]:
    """Lock the demonstration's directory; the lock ends with the process, however that ends."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with (DIRECTORY / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotRun("The demonstration runs already; stop that one with Ctrl-C first") from error
        yield


def main() -> int:
    """Run until stopped; return 0 then, and 1 if the demonstration cannot run."""
    make_private_by_default()
    try:
        with (
            _exclusive_run(),
            tempfile.TemporaryDirectory(prefix="gateway-demo-") as scratch,
            Supervisor() as supervisor,
        ):
            Demonstration(supervisor, Path(scratch)).keep_running()
    except Stopped:
        return 0
    except RuntimeError as error:
        print(f"\nCannot run: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
