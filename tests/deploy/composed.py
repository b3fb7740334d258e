"""Runs what `deploy/compose/compose.yaml` says, as nearly as a machine without a container engine can.

`scripts/try-image` runs it, in a network and with mounts of its own: `python -m tests.deploy.composed ROOT IMAGE`, with
the image's files and what `buildah inspect` says of it. Each service has the processes, account, environment, read-only
root, volumes, secrets and health check of the file, in namespaces of its own; they share the network. Database, Redis
and nginx are this machine's, since their images cannot be had.
"""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from lab.commands import PROJECT
from lab.postgres import Postgres
from lab.processes import start_process, stop_process
from lab.samba.certificates import CertificateAuthority
from tests.deploy.systemd_host import Host, say, until

HOST = "gateway.example.com"
COMPOSE = PROJECT / "deploy" / "compose"
OWN_ADDRESS = "172.30.17.2"
CLIENT_ADDRESS = "192.0.2.10"  # for documentation and trials (RFC 5737)

# $0: where the root is put together; $1: the image's files; $2: `ro` or `rw`. Then what is mounted, as TYPE FROM PLACE,
# until `--`, and the command.
_START = """
set -eu
root=$0
mount --bind "$1" "$root"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs tmpfs "$root/run"
access=$2
shift 2
while [ "$1" != -- ]; do
    case $1 in
    tmpfs) mount -t tmpfs tmpfs "$root$3" ;;
    folder) mkdir -p "$root$3"; mount --bind "$2" "$root$3" ;;
    file) mkdir -p "$root${3%/*}"; [ -e "$root$3" ] || : >"$root$3"; mount --bind -o ro "$2" "$root$3" ;;
    esac
    shift 3
done
shift
[ "$access" = rw ] || mount -o remount,ro,bind "$root"
exec chroot "$root" "$@"
"""


class Service:
    """One of compose.yaml, with the root that its image gives it."""

    def __init__(
        self, name: str, said: Mapping[str, Any], *, folder: Path, root: Path, environment: Sequence[str]
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._said, self._folder, self._image = said, folder, root
        given = said.get("environment", {})
        self._environment = [*environment, *(f"{key}={_filled(value)}" for key, value in given.items())]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], *more: str) -> None:
        """Begin; `more` is mounted besides what the file says."""
        place = self._folder / f"{self.name}.root"
        place.mkdir()
        mounts = [word for path in self._said.get("tmpfs", ()) for word in ("tmpfs", "-", path)]
        for secret in self._said.get("secrets", ()):
            mounts += ["file", str(self._folder / "secrets" / secret), f"/run/secrets/{secret}"]
        mounts += ["file", str(self._folder / "hosts"), "/etc/hosts", *more]
        access = "ro" if self._said.get("read_only") else "rw"
        own = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "sh", "-c", _START)
        with self.log.open("ab") as output:
            self._process = start_process(
                [*own, place, self._image, access, *mounts, "--", *self._as_account(command)], output=output
            )

    def run(self, command: Sequence[str], *more: str) -> str:
        """The same for what ends by itself; what it said."""
        self.start(command, *more)
        assert self._process is not None
        ended = self._process.wait(300)
        assert ended == 0, (self.name, ended, self.log.read_text())
        return self.log.read_text()

    def inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        """`docker compose exec`."""
        enter = ["nsenter", "--target", self._first_process, "--mount", "--pid", "--root"]
        enter += ["sh", "-c", 'cd / && exec "$@"', "--"]  # the folder that it was called in is outside of that root
        return subprocess.run(
            [*enter, *self._as_account(command)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    def is_healthy(self, test: Sequence[str]) -> bool:
        """What the engine finds by a health check."""
        kind, *command = test
        assert self._process is not None
        assert self._process.poll() is None, (self.name, self.log.read_text())
        words = ["sh", "-c", _unescaped(command[0])] if kind == "CMD-SHELL" else command
        return bool(self._first_process) and self.inside(*words).returncode == 0

    def stop(self) -> None:
        """As the engine does, by SIGTERM to the first process; an error where it takes longer than the file grants."""
        assert self._process is not None
        os.kill(int(self._first_process), signal.SIGTERM)
        self._process.wait(int(self._said["stop_grace_period"].removesuffix("s")))

    def end(self) -> None:
        """Whatever state it is in."""
        if self._process is not None:
            stop_process(self._process)

    @property
    def _first_process(self) -> str:
        """The number here of the one that is 1 there; empty where there is none yet."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().strip()

    def _as_account(self, command: Sequence[str]) -> list[str]:
        """With the environment and the account, and without what the file drops."""
        words = ["env", "-i", *self._environment]
        drops = []
        if "user" in self._said:
            user, _, group = self._said["user"].partition(":")
            drops += [f"--reuid={user}", f"--regid={group}", "--clear-groups"]
        if self._said.get("cap_drop") == ["ALL"]:
            drops += ["--bounding-set=-all", "--inh-caps=-all"]
        if "no-new-privileges:true" in self._said.get("security_opt", ()):
            drops += ["--no-new-privs"]
        return [*words, *(("setpriv", *drops) if drops else ()), *command]


def _filled(value: str) -> str:
    return re.sub(r"\$\{GATEWAY_HOST[^}]*\}", HOST, value)


def _unescaped(value: str) -> str:
    """As compose.yaml writes a dollar sign."""
    return value.replace("$$", "$")


def make_secrets(folder: Path, gateway: Service) -> None:
    """What compose.yaml's first lines tell to do."""
    place = folder / "secrets"
    place.mkdir(mode=0o777)
    place.chmod(0o777)  # the image's account writes its keys
    gateway.run(["gateway", "keys", "new", "--directory", "/run/made"], "folder", str(place), "/run/made")
    for name in ("database-password", "redis-password"):
        (place / name).write_text(secrets.token_hex(32))
    place.chmod(0o700)
    for file in place.iterdir():
        file.chmod(0o644)


@contextmanager
def running_database(folder: Path) -> Iterator[None]:
    """PostgreSQL with a password, as the image makes it of its environment."""
    hba = folder / "pg_hba.conf"
    hba.write_text("local all all trust\nhost all all all scram-sha-256\n")
    hba.chmod(0o644)
    database = Postgres(folder / "postgres", options=("listen_addresses=127.0.0.1", f"hba_file={hba}"))
    database.start_and_wait()
    try:
        password = (folder / "secrets" / "database-password").read_text()
        statement = f"ALTER ROLE gateway PASSWORD '{password}'"
        Host.command("psql", "-h", str(folder / "postgres"), "-U", "gateway", "-d", "gateway", "-c", statement)
        yield
    finally:
        database.stop()


def start_nginx(nginx: Service, folder: Path, authority: CertificateAuthority, settings: Path) -> None:
    """With a certificate. What this machine's nginx writes elsewhere than the image's is thrown away."""
    tls, conf = folder / "tls", folder / "conf.d"
    tls.mkdir()
    authority.issue([HOST], certificate_file=tls / "fullchain.pem", key_file=tls / "privkey.pem")
    conf.mkdir()
    shutil.copy(settings, conf / "default.conf")
    scratch = ("/etc/nginx/sites-enabled", "/var/log/nginx", "/var/lib/nginx")
    nginx.start(
        ["nginx", "-g", "daemon off;"],
        *(word for place in scratch for word in ("tmpfs", "-", place)),
        *("folder", str(conf), "/etc/nginx/conf.d", "folder", str(tls), "/etc/gateway/tls"),
    )


class Client:
    """Somebody elsewhere: curl, which knows the certificates of the trial."""

    def __init__(self, authority: CertificateAuthority) -> None:
        self._command = ["curl", "-sS", "--max-time", "60", "--interface", CLIENT_ADDRESS]
        self._command += ["--cacert", str(authority.certificate_file)]
        self._command += [word for port in (80, 443) for word in ("--resolve", f"{HOST}:{port}:{OWN_ADDRESS}")]
        self._command += ["--write-out", r"\n%{http_code}\t%{content_type}\t%{url_effective}"]

    def get(self, url: str, *options: str) -> tuple[int, str, str, str]:
        """Status (0 where nothing answers), kind of content, where it came from in the end, and the content."""
        text, _, told = Host.command(*self._command, *options, url, check=False).rpartition("\n")
        status, kind, place = told.split("\t")
        return int(status), kind, place, text


def is_served(client: Client, web: Service) -> None:
    """The gateway behind nginx, by HTTPS."""
    until(lambda: client.get(f"https://{HOST}/health/ready")[0] == 200, "ready behind nginx")
    status, kind, place, page = client.get(f"http://{HOST}/console/", "--location")
    assert (status, kind) == (200, "text/html; charset=utf-8"), (status, kind, place)
    assert place.startswith(f"https://{HOST}/console/setup"), place  # nobody administers it yet
    assert "</html>" in page, page
    path = "/api/ad/users"
    status, kind, _, text = client.get(f"https://{HOST}{path}", "--header", "X-API-Key: dgk_none")
    assert (status, kind) == (401, "application/problem+json"), (status, kind, text)
    assert json.loads(text)["instance"] == path, text
    assert client.get(f"https://{HOST}/metrics")[0] == 404
    until(lambda: _clients(web, path) == {CLIENT_ADDRESS}, "the access log names the client")
    say("nginx serves console and API, and the gateway knows their clients by their addresses")


def _clients(web: Service, path: str) -> set[str]:
    """Who asked for a path, by the access log."""
    lines = [json.loads(line) for line in web.log.read_text().splitlines() if line.endswith("}")]
    return {line["client"] for line in lines if line.get("path") == path}


def is_measured(web: Service, worker: Service, data: Path) -> None:
    """Both count in the one volume, each in a namespace where it is the first process."""
    ask = "import sys; from urllib.request import urlopen; print(urlopen(sys.argv[1]).read().decode())"

    def told() -> str:
        return web.inside("python3", "-c", ask, "http://127.0.0.1:8000/metrics").stdout

    until(lambda: 'gateway_tasks_total{outcome="done",process="worker"' in told(), "tasks of the worker are counted")
    inside = [made.inside("stat", "-Lc", "%i", "/proc/1/ns/pid").stdout.strip() for made in (web, worker)]
    there = {path.name for path in (data / "metrics").iterdir()}
    assert len(set(inside)) == 2, inside
    assert {f"web-{inside[0]}-1", f"worker-{inside[1]}-1"} <= there, (inside, there)
    processes = re.findall(r'^gateway_process_resident_bytes{pid="(\d+)",process="(\w+)"} ', told(), re.MULTILINE)
    assert [kind for _, kind in processes] == ["web", "web"], processes
    say("web tells what the worker has counted, and takes none of its processes for one of its own")


def main(root: Path, inspected: Path) -> None:
    """All services in the order in which they depend on each other, what they do together, and their end."""
    compose = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    services = compose["services"]
    image = json.loads(inspected.read_text())["Docker"]["config"]
    subnet = compose["networks"]["outside"]["ipam"]["config"][0]["subnet"]
    Host.command("ip", "address", "add", f"{OWN_ADDRESS}/{subnet.partition('/')[2]}", "dev", "lo")
    Host.command("ip", "address", "add", f"{CLIENT_ADDRESS}/32", "dev", "lo")
    with TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "hosts").write_text(f"127.0.0.1 localhost database redis\n{OWN_ADDRESS} web\n")

        def service(name: str, *, own: bool = True, said: Mapping[str, Any] | None = None) -> Service:
            environment = image["Env"] if own else ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
            made = Service(
                name, said or services[name], folder=folder, root=root if own else Path("/"), environment=environment
            )
            running.callback(made.end)
            return made

        make_secrets(folder, service("keys", said={**services["migrate"], "secrets": []}))
        running.enter_context(running_database(folder))
        redis = service("redis", own=False)
        redis.start([_unescaped(word) for word in services["redis"]["command"]])
        until(lambda: redis.is_healthy(services["redis"]["healthcheck"]["test"]), "redis is healthy")
        say("redis is healthy, with its root read-only and its own account")

        data = folder / "data"
        data.mkdir()
        shutil.chown(data, *(int(number) for number in services["web"]["user"].split(":")))
        volume = ("folder", str(data), "/var/lib/gateway")
        entry = image["Entrypoint"]
        service("migrate").run([*entry, *services["migrate"]["command"]], *volume)
        say("migrate completed successfully")
        web, worker = service("web"), service("worker")
        web.start([*entry, *services["web"]["command"]], *volume)
        worker.start([*entry, *services["worker"]["command"]], *volume)
        until(lambda: web.is_healthy(image["Healthcheck"]["Test"]), "web is healthy")
        until(lambda: worker.is_healthy(services["worker"]["healthcheck"]["test"]), "worker is healthy")
        for made in (web, worker):
            assert made.inside("touch", "/opt/gateway/x").returncode != 0, made.name
            status = made.inside("cat", "/proc/1/status").stdout
            assert re.search(r"^Uid:\t10001\t10001\t10001\t10001\n", status, re.MULTILINE), status
            assert re.search(r"^CapBnd:\t0{16}\nCapAmb:\t0{16}\nNoNewPrivs:\t1$", status, re.MULTILINE), status
            say(f"{made.name} is healthy, with its root read-only, its own account and no privileges")

        authority = CertificateAuthority(folder)
        authority.create("Authority of the trial")
        nginx = service("nginx", own=False)
        start_nginx(nginx, folder, authority, COMPOSE / compose["configs"]["nginx"]["file"])
        is_served(Client(authority), web)
        told = web.inside("gateway", "check", "--services")
        assert told.returncode == 0, told
        say("all services answer")
        is_measured(web, worker, data)
        for made in (worker, web):
            made.stop()
            say(f"{made.name} ended by SIGTERM within its grace period")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
